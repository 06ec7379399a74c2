//! Patterns that say which functions are meant, as `trace` and `replay` take them.

use globset::GlobMatcher;
use mcount::Glob;
use regex::Regex;

/// How patterns are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Globs: `*` is any number of characters, and the whole name has to match.
    Glob,
    /// Regular expressions, found anywhere in a name.
    Regex,
}

/// Functions: `NAME`, `NAME@MODULE` or `@MODULE`, each a glob; or a regular expression. A name may be written in each way that
/// [`mcount::spellings`] has.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Globs(Option<GlobMatcher>, Option<GlobMatcher>),
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
                let (name, module) = text.rsplit_once('@').unwrap_or((text, ""));
                Kind::Globs(glob(name)?, glob(module)?)
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

    /// Whether it means the function with this name, as in its source, and this symbol, of the module with
    /// this path.
    #[must_use]
    pub fn is_match(&self, name: &str, symbol: &str, module: &str) -> bool {
        match &self.kind {
            Kind::Regex(regex) => {
                regex.is_match(name)
                    || regex.is_match(symbol)
                    || regex.is_match(mcount::without_arguments(name))
            }
            Kind::Globs(function, file) => {
                function.as_ref().is_none_or(|glob| {
                    glob.is_match(symbol)
                        || mcount::spellings(name).iter().any(|one| glob.is_match(&**one))
                }) && file.as_ref().is_none_or(|glob| {
                    glob.is_match(module)
                        || glob.is_match(module.rsplit('/').next().unwrap_or_default())
                })
            }
        }
    }
}

fn glob(text: &str) -> Result<Option<GlobMatcher>, String> {
    match text {
        "" => Ok(None),
        text => Glob::new(text)
            .map(|glob| Some(glob.compile_matcher()))
            .map_err(|error| error.to_string()),
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
    fn patterns() {
        let table = [
            ("main", "main", "main", "/bin/true", true),
            ("mai", "main", "main", "/bin/true", false),
            ("m*", "main", "main", "/bin/true", true),
            ("@true", "main", "main", "/bin/true", true),
            ("@/bin/*", "main", "main", "/bin/true", true),
            ("m*@false", "main", "main", "/bin/true", false),
            ("draw", "draw(int, void (*)(int)) const", "_Z4drawiPFviE", "", true),
            ("_Z4draw*", "draw(int)", "_Z4drawi", "", true),
            ("draw(int)", "draw(int)", "_Z4drawi", "", true),
            ("draw(*", "draw(int)", "_Z4drawi", "", true),
            ("handle", "shop::handle(int)", "_ZN4shop6handleEi", "", true),
            ("shop::handle", "int shop::handle<int>(int)", "_ZN4shop6handleIiEEiT_", "", true),
            ("shop", "shop::handle(int)", "_ZN4shop6handleEi", "", false),
        ];
        for (pattern, name, symbol, module, expected) in table {
            let found =
                Pattern::new(pattern, Language::Glob).unwrap().is_match(name, symbol, module);
            assert_eq!(found, expected, "{pattern} of {name}");
        }
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
        ];
        for (pattern, name, symbol, expected) in table {
            let found = Pattern::new(pattern, Language::Regex).unwrap();
            assert_eq!(found.is_match(name, symbol, ""), expected, "{pattern} of {name}");
        }
        assert!(Pattern::new("(", Language::Regex).is_err());
        assert!(Pattern::new("[", Language::Glob).is_err());
    }
}
