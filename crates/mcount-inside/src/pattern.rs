//! Which functions are meant: `GLOB`, `GLOB@MODULE`, `@MODULE`.

use crate::error::{Error, ErrorKind, Result};
use globset::{Glob, GlobMatcher};
use std::borrow::Cow;
use std::path::Path;

/// A pattern of functions and modules.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    function: Option<Part>,
    module: Option<Part>,
}

/// A name, or a glob that names match.
#[derive(Debug, Clone)]
struct Part {
    text: String,
    glob: GlobMatcher,
}

impl Part {
    fn new(text: &str) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let glob = Glob::new(text)
            .map_err(|error| Error::new(ErrorKind::BadPattern, error.to_string()))?;
        Ok(Some(Self { text: text.to_owned(), glob: glob.compile_matcher() }))
    }

    fn is_match(&self, name: &str) -> bool {
        self.text == name || self.glob.is_match(name)
    }

    /// Is it one of the ways in which people write this name?
    fn is_spelling(&self, name: &str) -> bool {
        mcount::spellings(name).iter().any(|one| self.is_match(one))
    }
}

impl Pattern {
    /// Reads a pattern.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::BadPattern, "the pattern is empty"));
        }
        let (function, module) = text.rsplit_once('@').unwrap_or((text, ""));
        Ok(Self { function: Part::new(function)?, module: Part::new(module)? })
    }

    /// Does it mean functions of the module at `path`? A pattern without `/` is about the file's name.
    pub(crate) fn has_module(&self, path: &Path) -> bool {
        let Some(part) = &self.module else { return true };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        part.is_match(&name) || part.is_match(&path.to_string_lossy())
    }

    /// Does it mean a function with one of these names, which are as the symbol table has them?
    pub(crate) fn has_function<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        let Some(part) = &self.function else { return true };
        names.any(|name| {
            part.is_match(name)
                || matches!(demangled(name), Cow::Owned(plain) if part.is_spelling(&plain))
        })
    }
}

/// A name as people write it.
pub(crate) fn demangled(name: &str) -> Cow<'_, str> {
    if !name.starts_with(['_', 'R']) {
        return name.into();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).map_or(name.into(), Cow::from)
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use std::path::Path;

    #[test]
    fn what_is_meant() {
        let table = [
            ("parse", "parse", "/bin/a", true),
            ("parse", "parse_line", "/bin/a", false),
            ("parse*", "parse_line", "/bin/a", true),
            ("parse*@a", "parse_line", "/bin/a", true),
            ("parse*@b", "parse_line", "/bin/a", false),
            ("@libc.so*", "malloc", "/lib/libc.so.6", true),
            ("@/lib/*", "malloc", "/lib/libc.so.6", true),
            ("@/usr/*", "malloc", "/lib/libc.so.6", false),
            ("ns::f(int)", "_ZN2ns1fEi", "/bin/a", true),
            ("ns::*", "_ZN2ns1fEi", "/bin/a", true),
            ("ns::f", "_ZN2ns1fEi", "/bin/a", true),
            ("f", "_ZN2ns1fEi", "/bin/a", true),
            ("ns", "_ZN2ns1fEi", "/bin/a", false),
            ("_ZN2ns1fEi", "_ZN2ns1fEi", "/bin/a", true),
            ("f[ab]", "fb", "/bin/a", true),
            ("f[ab]", "fc", "/bin/a", false),
        ];
        for (pattern, function, module, expected) in table {
            let found = Pattern::new(pattern).unwrap();
            let is_match =
                found.has_module(Path::new(module)) && found.has_function([function].into_iter());
            assert_eq!(is_match, expected, "{pattern} {function} {module}");
        }
        assert!(Pattern::new("").is_err());
        assert!(Pattern::new("a[").is_err());
    }
}
