//! Names that compilers make of the names in the source: what they add to clones and parts of a
//! function, and which names are alike.
//!
//! GCC: `.constprop.N`, `.isra.N`, `.part.N`, `.cold`, `.lto_priv.N`, `.localalias`; clang:
//! `.llvm.HASH`, `.__uniq.HASH`, `.cold`.

/// Suffixes, with a number or hash behind them or not.
const SUFFIXES: &[&str] =
    &["constprop", "isra", "part", "cold", "lto_priv", "localalias", "llvm", "__uniq", "clone"];

/// `name` as the source has it.
#[must_use]
pub fn base(name: &str) -> &str {
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

/// What kind of code the symbol `name` is of, if it is a part or a clone of a function.
#[must_use]
pub fn is_cold_part(name: &str) -> bool {
    name.rsplit('.').find(|part| !part.bytes().all(|byte| byte.is_ascii_digit())) == Some("cold")
}

/// Up to five of `names` that are most like `name`, the most alike first.
#[must_use]
pub fn alike<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let most = (name.chars().count() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = names
        .filter(|other| other.len().abs_diff(name.len()) <= most)
        .map(|other| (strsim::osa_distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(5).map(|(_, name)| name).collect()
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
            assert_eq!(base(name), expected, "{name}");
        }
    }

    #[test]
    fn parts() {
        for name in ["f.cold", "f.cold.1", "f.isra.0.cold"] {
            assert!(is_cold_part(name), "{name}");
        }
        for name in ["f", "f.isra.0", "cold_start", "f.cold.isra.0"] {
            assert!(!is_cold_part(name), "{name}");
        }
    }

    #[test]
    fn what_is_meant() {
        let names = ["kmalloc", "kfree", "vfree", "kvfree", "schedule"];
        assert_eq!(alike("kfre", names.into_iter()), ["kfree"]);
        assert_eq!(alike("kvfreee", names.into_iter()), ["kvfree", "kfree"]);
        assert_eq!(alike("shcedule", names.into_iter()), ["schedule"]);
        assert!(alike("something_else", names.into_iter()).is_empty());
    }
}
