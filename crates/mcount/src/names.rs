//! What compilers append to the names of clones and parts of a function, and the ways in which people write names.
//!
//! GCC: `.constprop.N`, `.isra.N`, `.part.N`, `.cold`, `.lto_priv.N`, `.localalias`; clang:
//! `.llvm.HASH`, `.__uniq.HASH`, `.cold`.

mod simple;

use std::borrow::Cow;

/// `name`, with invalid UTF-8 replaced. Names that need no change are only checked, which is faster than looking for what's valid.
pub(crate) fn lossy(name: &[u8]) -> Cow<'_, str> {
    str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::Borrowed)
}

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

/// The ways in which people write the name of a function, whose name is `name` where it's demangled: with and without
/// arguments, the type of its result, arguments of templates, and namespaces. `name` itself comes first, and none twice.
///
/// ```
/// let all = mcount::spellings("int shop::find<Item>(Item const&)");
/// assert_eq!(all[1..], ["int shop::find<Item>", "shop::find<Item>", "shop::find", "find<Item>", "find"]);
/// assert_eq!(mcount::spellings("main"), ["main"]);
/// ```
#[must_use]
pub fn spellings(name: &str) -> Vec<Cow<'_, str>> {
    let mut all = vec![Cow::Borrowed(name)];
    if !name.contains(['(', ':', '<', '[']) {
        return all;
    }
    let bare = without_arguments(name);
    let starts = starts(bare);
    let from = |start: Option<&usize>| start.and_then(|start| bare.get(*start..)).unwrap_or(bare);
    let (path, whole) = (from(starts.first()), from(starts.last()));
    let plain = simple_name(name);
    let short = self::starts(&plain).last().and_then(|start| plain.get(*start..));
    let short: Cow<'_, str> = short.unwrap_or_default().to_owned().into();
    for one in [bare.into(), path.into(), plain, whole.into(), short] {
        if !one.is_empty() && !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// The name of a function as people write it: without arguments, the type of its result, arguments of templates, ABI tags
/// and what compilers append. A name that isn't one of a demangler stays as it is.
///
/// ```
/// use mcount::simple_name;
/// assert_eq!(simple_name("void std::vector<int, A<int> >::add<char>(char)"), "std::vector::add");
/// assert_eq!(simple_name("std::operator<< <char>(A::f[abi:cxx11](int))"), "std::operator<<");
/// assert_eq!(simple_name("<Vec<T> as Extend<U>>::extend"), "<Vec as Extend>::extend");
/// assert_eq!(simple_name("parse.isra.0"), "parse");
/// ```
#[must_use]
pub fn simple_name(name: &str) -> Cow<'_, str> {
    if !name.contains(['(', '<', '[', ':', ' ']) {
        return source_name(name).into();
    }
    simple::simple(name).unwrap_or(name.into())
}

/// The name of a function without its arguments, and what is behind them.
///
/// ```
/// assert_eq!(mcount::without_arguments("Shape::draw(int, void (*)(int)) const &"), "Shape::draw");
/// ```
#[must_use]
pub fn without_arguments(name: &str) -> &str {
    /// What demanglers write after the arguments.
    const BEHIND: [&str; 4] = [" const", " volatile", " &&", " &"];
    let mut end = name;
    loop {
        let cut = BEHIND.iter().find_map(|word| end.strip_suffix(word));
        let part = end.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [clone "));
        match cut.or(part.map(|(rest, _)| rest)) {
            Some(rest) => end = rest,
            None => break,
        }
    }
    let Some(inside) = end.strip_suffix(')') else { return end };
    let mut depth = 1;
    for (at, c) in inside.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = inside.get(..at).unwrap_or(name);
            // `operator()` and `(anonymous namespace)` have no arguments.
            let operator = rest.strip_suffix("operator").is_some_and(|before| !is_in_word(before));
            return if rest.is_empty() || rest.ends_with("::") || operator { end } else { rest };
        }
    }
    name
}

/// Where the parts of a name without arguments begin, after the type of a result: what is between `::`.
fn starts(name: &str) -> Vec<usize> {
    let (mut all, mut start, mut depth, mut before) = (Vec::new(), 0, 0_u32, ' ');
    for (at, c) in name.char_indices() {
        if depth == 0 {
            let rest = name.get(at..).unwrap_or_default();
            let operator = rest.strip_prefix("operator");
            if at == start && operator.is_some_and(|rest| !rest.starts_with(is_of_word)) {
                // Its name may have brackets and spaces.
                break;
            }
            match c {
                ' ' => {
                    all.clear();
                    start = at + 1;
                }
                ':' if rest.starts_with("::") => {
                    all.push(start);
                    start = at + 2;
                }
                _ => {}
            }
        }
        match c {
            '(' | '<' | '{' | '[' => depth += 1,
            '>' if before == '-' => {}
            ')' | '>' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    all.push(start);
    all
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_in_word(before: &str) -> bool {
    before.ends_with(is_of_word)
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

    #[test]
    fn names_as_people_write_them() {
        let rows: [(&str, &[&str]); 14] = [
            ("main", &[]),
            ("draw(int)", &["draw"]),
            ("shop::handle(int) const", &["shop::handle", "handle"]),
            ("(anonymous namespace)::f()", &["(anonymous namespace)::f", "f"]),
            ("A::operator()(int) const", &["A::operator()", "operator()"]),
            (
                "std::operator<< <char>(int)",
                &["std::operator<< <char>", "std::operator<<", "operator<< <char>", "operator<<"],
            ),
            (
                "A::operator unsigned long()",
                &["A::operator unsigned long", "operator unsigned long"],
            ),
            ("unsigned long f<int>(int)", &["unsigned long f<int>", "f<int>", "f"]),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                &[
                    "main::{lambda(int)#1}::operator()",
                    "main::{lambda(...)#1}::operator()",
                    "operator()",
                ],
            ),
            ("<mcount::A as core::fmt::Debug>::fmt", &["fmt"]),
            (
                "core::ptr::drop_in_place<a::B>",
                &["core::ptr::drop_in_place", "drop_in_place<a::B>", "drop_in_place"],
            ),
            ("a::b::{closure#0}", &["{closure#0}"]),
            ("f(int) [clone .cold]", &["f"]),
            ("", &[]),
        ];
        for (name, expected) in rows {
            assert_eq!(spellings(name)[1..], *expected, "{name}");
        }
    }
}
