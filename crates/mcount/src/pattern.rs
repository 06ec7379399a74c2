//! Which functions are meant: `NAME`, `NAME@MODULE` or `@MODULE`, each a glob.
//!
//! Tracing from outside and from inside a program take the same patterns, so both use this.

use crate::names::{source_name, spellings};
use globset::{Error as GlobError, Glob, GlobMatcher};
use std::borrow::Cow;
use std::fmt;

/// A pattern of functions and modules. A name may be written in each way that [`spellings`] has, and as the symbol table has it.
///
/// ```
/// let pattern = mcount::FunctionPattern::new("shop::*@libshop.so")?;
/// assert!(pattern.has_module("/usr/lib/libshop.so"));
/// assert!(pattern.has_function("_ZN4shop4findEi", || "shop::find(int)".into()));
/// # Ok::<(), mcount::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FunctionPattern {
    function: Option<NameGlob>,
    module: Option<NameGlob>,
}

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// It's empty.
    Empty,
    /// It has a glob that is malformed.
    Glob(GlobError),
}

impl fmt::Display for PatternError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => to.write_str("the pattern is empty"),
            Self::Glob(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for PatternError {}

/// A glob, and the name that it is if its signs are meant as they are, as those of `void f(char*)`.
#[derive(Debug, Clone)]
struct NameGlob {
    text: String,
    glob: GlobMatcher,
}

impl NameGlob {
    fn new(text: &str) -> Result<Option<Self>, PatternError> {
        if text.is_empty() {
            return Ok(None);
        }
        let glob = Glob::new(text).map_err(PatternError::Glob)?.compile_matcher();
        Ok(Some(Self { text: text.to_owned(), glob }))
    }

    fn is_match(&self, name: &str) -> bool {
        self.text == name || self.glob.is_match(name)
    }
}

impl FunctionPattern {
    /// Reads a pattern. The part after the last `@` is about modules.
    ///
    /// # Errors
    ///
    /// It's empty, or one of its globs is malformed.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let (function, module) = text.rsplit_once('@').unwrap_or((text, ""));
        Ok(Self { function: NameGlob::new(function)?, module: NameGlob::new(module)? })
    }

    /// Whether it means functions of the module at `path`: its glob matches that, or the file's name.
    #[must_use]
    pub fn has_module(&self, path: &str) -> bool {
        self.module.as_ref().is_none_or(|part| {
            part.is_match(path) || part.is_match(path.rsplit('/').next().unwrap_or_default())
        })
    }

    /// Whether it means a function with this symbol, in a module that it means. `name` says what the function is called in its
    /// source, and is only asked if the symbol doesn't match. A function's name means its clones (`work.constprop.0`), too: they are
    /// shown by it.
    pub fn has_function<'n>(&self, symbol: &str, name: impl FnOnce() -> Cow<'n, str>) -> bool {
        self.function.as_ref().is_none_or(|part| {
            part.is_match(symbol)
                || part.is_match(source_name(symbol))
                || spellings(&name()).iter().any(|one| part.is_match(one))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant() {
        let draw = ("_Z4drawiPFviE", "draw(int, void (*)(int)) const", "/bin/true");
        let handle = ("_ZN4shop6handleEi", "shop::handle(int)", "/usr/lib/libshop.so.1");
        let template = ("_ZN4shop6handleIiEEiT_", "int shop::handle<int>(int)", "");
        let text = ("_Z1fPc", "f(char*)", "");
        let tagged = ("_Z1fB5cxx11v", "f[abi:cxx11]()", "");
        let main = ("main", "main", "/bin/true");
        let clone = ("work.constprop.0", "work.constprop.0", "/bin/true");
        let table = [
            ("work", clone, true),
            ("work@true", clone, true),
            ("work.constprop.0", clone, true),
            ("work.constprop.1", clone, false),
            ("wor", clone, false),
            ("main", main, true),
            ("mai", main, false),
            ("m*", main, true),
            ("*", main, true),
            ("mai[mn]", main, true),
            ("@true", main, true),
            ("@/bin/*", main, true),
            ("@/usr/*", main, false),
            ("@tru", main, false),
            ("@", main, true),
            ("m*@true", main, true),
            ("m*@false", main, false),
            ("n*@true", main, false),
            ("@libshop.so*", handle, true),
            ("draw", draw, true),
            ("_Z4draw*", draw, true),
            ("draw(*", draw, true),
            ("draw(int)", draw, false),
            ("draw(int, void (*)(int)) const", draw, true),
            ("handle", handle, true),
            ("shop::handle", handle, true),
            ("shop::handle", template, true),
            ("shop::handle<int>", template, true),
            ("shop::handle(int)", handle, true),
            ("shop::*", handle, true),
            ("shop", handle, false),
            ("_ZN4shop6handleEi", handle, true),
            ("_ZN4shop6handleEi", template, false),
            ("f(char*)", text, true),
            ("f[abi:cxx11]()", tagged, true),
            ("f[abi:cxx11]", tagged, true),
            ("handle@libshop*", handle, true),
            ("a@b@true", ("a@b", "a@b", "/bin/true"), true),
        ];
        for (pattern, (symbol, name, module), expected) in table {
            let found = FunctionPattern::new(pattern).unwrap();
            let is_match = found.has_module(module) && found.has_function(symbol, || name.into());
            assert_eq!(is_match, expected, "{pattern} of {name}");
        }
    }

    #[test]
    fn what_is_no_pattern() {
        assert_eq!(FunctionPattern::new("").unwrap_err().to_string(), "the pattern is empty");
        for text in ["a[", "[", "a@[", "{a"] {
            assert!(matches!(FunctionPattern::new(text), Err(PatternError::Glob(_))), "{text}");
        }
    }

    #[test]
    fn names_are_asked_for_only_if_they_matter() {
        let pattern = FunctionPattern::new("main").unwrap();
        assert!(pattern.has_function("main", || unreachable!("the symbol matches")));
        let all = FunctionPattern::new("@true").unwrap();
        assert!(all.has_function("x", || unreachable!("it's about modules alone")));
    }
}
