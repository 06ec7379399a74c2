//! Names of functions as their source has them, and names similar to a mistyped one.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The name of a function, as in its source if `demangle`.
#[must_use]
pub fn name_of(name: &str, demangle: bool) -> Cow<'_, str> {
    if demangle { mcount::demangled(name) } else { name.into() }
}

/// Up to five functions whose names are similar to `name`, as people write them, the most similar first. `names` are those of
/// symbols, or of the source.
#[must_use]
pub fn alike<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let most = (name.chars().count() / 3).clamp(1, 4);
    let distance = |other: &str| {
        let is_near = other.len().abs_diff(name.len()) <= most;
        is_near.then(|| strsim::osa_distance(name, other)).filter(|distance| *distance <= most)
    };
    let found: BTreeSet<(usize, String)> = names
        .filter_map(|symbol| {
            let other = name_of(symbol, true);
            let all = mcount::spellings(&other);
            let distances = all.iter().map(|one| distance(one)).chain([distance(symbol)]);
            Some((distances.flatten().min()?, other.clone().into_owned()))
        })
        .collect();
    found.into_iter().take(5).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant() {
        let names = ["kmalloc", "kfree", "vfree", "kvfree", "schedule"];
        assert_eq!(alike("kfre", names.into_iter()), ["kfree"]);
        assert_eq!(alike("kvfreee", names.into_iter()), ["kvfree", "kfree", "vfree"]);
        assert_eq!(alike("shcedule", names.into_iter()), ["schedule"]);
        assert!(alike("something_else", names.into_iter()).is_empty());
    }

    #[test]
    fn what_is_meant_in_cpp() {
        let names = ["_ZN4shop14handle_requestEi", "main"];
        for name in ["handle_reqest", "shop::handle_requests", "shop::handle_request(in)"] {
            assert_eq!(alike(name, names.into_iter()), ["shop::handle_request(int)"], "{name}");
        }
    }
}
