//! Names of functions as in their source. The feature `demangle` has this, and its dependencies.

use std::borrow::Cow;

/// What compilers put before the name of a function, of the first one in a file or of the file itself, for what runs before and
/// behind `main`.
const INITIALIZERS: [(&str, &str); 4] = [
    ("_GLOBAL__sub_I", "static initializers"),
    ("_GLOBAL__sub_D", "static destructors"),
    ("_GLOBAL__I", "static initializers"),
    ("_GLOBAL__D", "static destructors"),
];

/// The rest after one of [`INITIALIZERS`] in the name of a symbol: `_NAME`, or `.NUMBER_NAME` if it has a
/// priority.
fn initialized(rest: &str) -> Option<&str> {
    let priority =
        rest.strip_prefix('.').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    priority.unwrap_or(rest).strip_prefix('_')
}

/// The name of the function with this symbol, as in its source: C, C++ and Rust. A symbol that isn't mangled stays as it is.
///
/// ```
/// assert_eq!(mcount::demangled("_ZN4shop4findEi"), "shop::find(int)");
/// ```
#[must_use]
pub fn demangled(symbol: &str) -> Cow<'_, str> {
    // A demangler takes a name of C like `f` for an encoded type, here `float`.
    if !symbol.starts_with('_') {
        return symbol.into();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        return format!("{rust:#}").into();
    }
    for (prefix, what) in INITIALIZERS {
        if let Some(of) = symbol.strip_prefix(prefix).and_then(initialized) {
            return format!("({what} of {})", demangled(of)).into();
        }
    }
    let options = cpp_demangle::DemangleOptions::new();
    let parsed = cpp_demangle::Symbol::new(symbol).ok();
    let plain = parsed.and_then(|parsed| parsed.demangle_with_options(&options).ok());
    plain.map_or(symbol.into(), Cow::from)
}

#[cfg(test)]
mod tests {
    use super::demangled;

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
            ("_GLOBAL__sub_I.00100_a", "(static initializers of a)"),
            ("_GLOBAL__sub_D_a", "(static destructors of a)"),
            ("_GLOBAL__sub_Ia", "_GLOBAL__sub_Ia"),
            ("_ZN2ns1fEi.part.0.cold", "ns::f(int) [clone .part.0] [clone .cold]"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
        ];
        for (name, expected) in table {
            assert_eq!(demangled(name), expected);
        }
    }
}
