//! Names of functions as their source has them, and names similar to another one, for somebody who mistyped it.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// What compilers put before the name of a function, of the first one in a file or of the file itself, for what runs before and
/// behind `main`.
const INITIALIZERS: [(&str, &str); 4] = [
    ("_GLOBAL__sub_I_", "static initializers"),
    ("_GLOBAL__sub_D_", "static destructors"),
    ("_GLOBAL__I_", "static initializers"),
    ("_GLOBAL__D_", "static destructors"),
];

/// The name of a function, as in its source if `demangle`.
#[must_use]
pub fn name_of(name: &str, demangle: bool) -> Cow<'_, str> {
    // A demangler takes a name of C like `f` for an encoded type, here `float`.
    if !demangle || !name.starts_with('_') {
        return name.into();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    for (prefix, what) in INITIALIZERS {
        if let Some(of) = name.strip_prefix(prefix) {
            return format!("({what} of {})", name_of(of, true)).into();
        }
    }
    let options = cpp_demangle::DemangleOptions::new();
    let symbol = cpp_demangle::Symbol::new(name).ok();
    let plain = symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok());
    plain.map_or(name.into(), Cow::from)
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
    fn only_mangled_names_are_demangled() {
        let table = [
            ("f", "f"),
            ("i", "i"),
            ("St", "St"),
            ("Ri", "Ri"),
            ("_start", "_start"),
            ("__libc_start_main", "__libc_start_main"),
            ("_Z1fi", "f(int)"),
            ("_ZN2ns1fEv", "ns::f()"),
            ("_GLOBAL__sub_I__Z1fi", "(static initializers of f(int))"),
            ("_GLOBAL__sub_I_a.cpp", "(static initializers of a.cpp)"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
        ];
        for (name, expected) in table {
            assert_eq!(name_of(name, true), expected);
            assert_eq!(name_of(name, false), name);
        }
    }

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
