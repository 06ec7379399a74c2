//! What compilers append to the names of clones and parts of a function.
//!
//! GCC: `.constprop.N`, `.isra.N`, `.part.N`, `.cold`, `.lto_priv.N`, `.localalias`; clang:
//! `.llvm.HASH`, `.__uniq.HASH`, `.cold`.

/// The suffixes. They may have a number or hash behind them.
const SUFFIXES: &[&str] =
    &["constprop", "isra", "part", "cold", "lto_priv", "localalias", "llvm", "__uniq", "clone"];

/// The name in the source of the function with the symbol `name`: without what compilers append to the
/// names of clones and parts.
///
/// ```
/// assert_eq!(mcount::source_name("parse.isra.0.cold"), "parse");
/// ```
#[must_use]
pub fn source_name(name: &str) -> &str {
    let mut rest = name;
    loop {
        let Some((before, last)) = rest.rsplit_once('.') else { return rest };
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        let cut = if SUFFIXES.contains(&last) {
            before
        } else if let (true, Some((name, suffix))) = (is_number, before.rsplit_once('.'))
            && SUFFIXES.contains(&suffix)
        {
            name
        } else {
            return rest;
        };
        if cut.is_empty() {
            return rest;
        }
        rest = cut;
    }
}

/// Whether the symbol `name` is that of the cold part of a function, which is only entered by jumps.
///
/// ```
/// assert!(mcount::is_cold_part("parse.cold") && !mcount::is_cold_part("parse"));
/// ```
#[must_use]
pub fn is_cold_part(name: &str) -> bool {
    let parts = name.rsplit('.');
    let mut parts = parts.skip_while(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    // A function may itself be named `cold`.
    parts.next() == Some("cold") && parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_compilers() {
        let rows = [
            ("kfree", "kfree"),
            ("f.cold", "f"),
            ("f.cold.12", "f"),
            ("f.isra.0", "f"),
            ("f.constprop.0.isra.3.cold", "f"),
            ("f.part.1", "f"),
            ("f.llvm.7205387420489932163", "f"),
            ("f.__uniq.123.llvm.456", "f"),
            ("f.lto_priv.0", "f"),
            ("a.b", "a.b"),
            ("text.12", "text.12"),
            (".cold", ".cold"),
            ("", ""),
        ];
        for (name, expected) in rows {
            assert_eq!(source_name(name), expected, "{name}");
        }
    }

    #[test]
    fn parts() {
        for name in ["f.cold", "f.cold.1", "f.isra.0.cold"] {
            assert!(is_cold_part(name), "{name}");
        }
        for name in ["f", "f.isra.0", "cold_start", "f.cold.isra.0", "cold", "cold.1"] {
            assert!(!is_cold_part(name), "{name}");
        }
    }
}
