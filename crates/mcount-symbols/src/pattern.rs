//! Patterns that say which functions are meant, as `trace` and `replay` take them.

use regex::Regex;

/// How patterns are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Globs: `*` is any number of characters, and the whole name has to match.
    Glob,
    /// Regular expressions, found anywhere in a name.
    Regex,
}

/// Functions: a pattern of globs, as [`mcount::FunctionPattern`] has it, or a regular expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Globs(Box<mcount::FunctionPattern>),
    Regex(Regex),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// It's malformed; the text says how.
    pub fn new(text: &str, language: Language) -> Result<Self, String> {
        let kind = match language {
            Language::Regex => Kind::Regex(regex(text)?),
            Language::Glob => {
                let globs =
                    mcount::FunctionPattern::new(text).map_err(|error| error.to_string())?;
                Kind::Globs(Box::new(globs))
            }
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// Reads several.
    ///
    /// # Errors
    ///
    /// One is malformed.
    pub fn all(texts: &[String], language: Language) -> Result<Vec<Self>, String> {
        texts.iter().map(|text| Self::new(text, language)).collect()
    }

    /// As it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it was written.
    #[must_use]
    pub fn language(&self) -> Language {
        if matches!(self.kind, Kind::Regex(_)) { Language::Regex } else { Language::Glob }
    }

    /// Whether it can mean a function of the module with this path.
    #[must_use]
    pub fn has_module(&self, module: &str) -> bool {
        match &self.kind {
            Kind::Regex(_) => true,
            Kind::Globs(pattern) => pattern.has_module(module),
        }
    }

    /// Whether it means the function with this name, as in its source, and this symbol, of the module with
    /// this path.
    #[must_use]
    pub fn is_match(&self, name: &str, symbol: &str, module: &str) -> bool {
        match &self.kind {
            Kind::Regex(regex) => {
                regex.is_match(name)
                    || regex.is_match(symbol)
                    || regex.is_match(mcount::without_arguments(name))
                    || regex.is_match(mcount::source_name(symbol))
            }
            Kind::Globs(pattern) => {
                pattern.has_module(module) && pattern.has_function(symbol, || name.into())
            }
        }
    }
}

/// The last line of what the parser says is what is wrong; those before show where.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().next_back().unwrap_or_default();
        format!("regular expression '{text}': {}", line.trim_start_matches("error: "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_those_of_the_library() {
        let found = Pattern::new("shop::*@true", Language::Glob).unwrap();
        let (name, symbol) = ("shop::handle(int)", "_ZN4shop6handleEi");
        assert!(found.is_match(name, symbol, "/bin/true"));
        assert!(!found.is_match(name, symbol, "/bin/false"));
        assert!(found.has_module("/bin/true") && !found.has_module("/bin/false"));
        assert_eq!((found.text(), found.language()), ("shop::*@true", Language::Glob));
    }

    #[test]
    fn regular_expressions() {
        let table = [
            ("^draw", "draw(int)", "_Z4drawi", true),
            ("raw", "draw(int)", "_Z4drawi", true),
            ("^raw", "draw(int)", "_Z4drawi", false),
            ("^_Z4", "draw(int)", "_Z4drawi", true),
            ("get|set", "reset", "reset", true),
            ("bar2$", "ns::foo::bar2()", "_ZN2ns3foo4bar2Ev", true),
            ("bar2\\(\\)$", "ns::foo::bar2()", "_ZN2ns3foo4bar2Ev", true),
            ("bar$", "ns::foo::bar2()", "_ZN2ns3foo4bar2Ev", false),
            ("^work$", "work.constprop.0", "work.constprop.0", true),
            ("^work.c", "work.constprop.0", "work.constprop.0", true),
        ];
        for (pattern, name, symbol, expected) in table {
            let found = Pattern::new(pattern, Language::Regex).unwrap();
            assert_eq!(found.is_match(name, symbol, ""), expected, "{pattern} of {name}");
            assert!(found.has_module("/bin/false"));
        }
        assert!(Pattern::new("(", Language::Regex).is_err());
        assert!(Pattern::new("[", Language::Glob).is_err());
        assert!(Pattern::new("", Language::Glob).is_err());
    }
}
