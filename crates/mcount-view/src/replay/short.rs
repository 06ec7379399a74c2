//! Names of functions as people say them: no arguments, no arguments of templates, the type of a method but not its trait. If two
//! functions would have the same name, each keeps as much as tells them apart.

use super::Names;
use super::waits::OFF_CPU;
use std::borrow::Cow;
use std::collections::HashMap;

/// Components of names that nobody says: what compilers call nameless namespaces, and versions of the C++ library.
const NOISE: [&str; 6] =
    ["(anonymous namespace)", "{anonymous}", "__cxx11", "__1", "__ndk1", "_V2"];

/// How often one name in angle brackets can be within another.
const DEEPEST: usize = 8;

/// The ways of writing a name, the shortest first.
const FORMS: usize = 5;

/// A name with more characters than this, of which arguments of templates can have thousands, isn't written whole where its address
/// tells as much.
const LONGEST: usize = 100;

/// The names of some functions, by number.
#[derive(Debug, Default)]
pub(crate) struct ShortNames {
    names: HashMap<u32, String>,
}

impl ShortNames {
    /// Names of `functions` that differ from each other. `names` have to be whole ones.
    pub(crate) fn new(
        names: &Names<'_, '_>,
        functions: impl IntoIterator<Item = u32>,
        is_full: bool,
    ) -> Self {
        let mut forms: HashMap<u32, usize> = HashMap::new();
        forms.extend(functions.into_iter().map(|number| (number, 0)));
        let mut texts: HashMap<u32, String> = HashMap::new();
        if is_full {
            let whole = |number: &u32| (*number, names.function(*number).text.clone());
            texts.extend(forms.keys().map(whole));
            return Self { names: texts };
        }
        let mut changed: Vec<u32> = forms.keys().copied().collect();
        while !changed.is_empty() {
            for number in changed.drain(..) {
                let at = forms.get(&number).copied().unwrap_or_default();
                texts.insert(number, form(names, number, at));
            }
            changed = alike(&texts);
            changed.retain(|number| {
                let at = forms.entry(*number).or_default();
                *at += 1;
                *at < FORMS
            });
        }
        Self { names: texts }
    }

    /// Whether it's one of these functions.
    #[cfg(feature = "tui")]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.names.contains_key(&number)
    }

    /// The name of the function with this number.
    pub(crate) fn get(&self, number: u32) -> &str {
        self.names.get(&number).map_or(super::NAMELESS, String::as_str)
    }
}

/// The functions that share their name with another.
fn alike(texts: &HashMap<u32, String>) -> Vec<u32> {
    let mut by_text: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, text) in texts {
        by_text.entry(text).or_default().push(*number);
    }
    by_text.into_values().filter(|numbers| numbers.len() > 1).flatten().collect()
}

/// The name of a function, written in one of the ways.
fn form(names: &Names<'_, '_>, number: u32, at: usize) -> String {
    let name = names.function(number);
    let file = name.module.rsplit('/').next().unwrap_or_default();
    match at {
        0 => short_name(&name.text),
        1 => simple_name(&name.text).into_owned(),
        2.. if name.text.chars().count() > LONGEST => {
            let address = name.address.unwrap_or(number.into());
            format!("{}@{file}+{address:#x}", short_name(&name.text))
        }
        2 => name.text.clone(),
        3 => format!("{}@{file}", name.text),
        _ => {
            let address = name.address.unwrap_or(number.into());
            format!("{}@{file}+{address:#x}", name.text)
        }
    }
}

/// The name of a function as people say it.
#[must_use]
pub fn short_name(name: &str) -> String {
    let simple = simple_name(name);
    let short = without_noise(&of_type(&simple, 0));
    if short.is_empty() { name.to_owned() } else { short }
}

/// The name of a function without its arguments. That of time off the processor is no function's, and stays.
pub(super) fn simple_name(name: &str) -> Cow<'_, str> {
    if name.starts_with(OFF_CPU) { name.into() } else { mcount::simple_name(name) }
}

/// `T::f` for `<T as Trait>::f`, and for `<T>::f`.
fn of_type(name: &str, depth: usize) -> Cow<'_, str> {
    let Some((inside, rest)) = angle(name).filter(|_| depth < DEEPEST) else { return name.into() };
    let inside = inside.trim_start_matches(['&', '*']);
    let inside = inside.strip_prefix("mut ").unwrap_or(inside);
    format!("{}{rest}", of_type(inside, depth + 1)).into()
}

/// The type in the angle brackets that `name` begins with, and what is behind them.
fn angle(name: &str) -> Option<(&str, &str)> {
    let mut open = 0_usize;
    let mut end = None;
    for (at, c) in name.char_indices() {
        let before = name.get(..at)?;
        match c {
            '<' | '(' | '[' | '{' => open += 1,
            // `->` is no bracket.
            '>' if before.ends_with('-') => {}
            '>' | ')' | ']' | '}' => open = open.checked_sub(1)?,
            ' ' if open == 1 && name.get(at..)?.starts_with(" as ") => {
                end.get_or_insert(at);
            }
            _ if at == 0 => return None,
            _ => {}
        }
        if open == 0 {
            let end = end.unwrap_or(at);
            return Some((name.get(1..end)?, name.get(at + 1..)?))
                .filter(|_| name.starts_with('<'));
        }
    }
    None
}

/// Without the components that nobody says.
fn without_noise(name: &str) -> String {
    if !NOISE.iter().any(|noise| name.contains(noise)) {
        return name.to_owned();
    }
    let parts = name.split("::").filter(|part| !NOISE.contains(part));
    parts.collect::<Vec<_>>().join("::")
}

/// `name` in at most `width` characters: a longer one loses its middle.
pub(crate) fn cut(name: &str, width: usize) -> Cow<'_, str> {
    let count = name.chars().count();
    if count <= width {
        return name.into();
    }
    // The end says more than the beginning.
    let head = width.saturating_sub(1) / 3;
    let tail = width.saturating_sub(1 + head);
    let begin = name.chars().take(head);
    begin.chain(['…'].into_iter().take(width)).chain(name.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcount_trace::{Trace, Writer};

    #[test]
    fn as_people_say_them() {
        let table = [
            ("shop::handle_request(std::string const&, int)", "shop::handle_request"),
            ("shop::(anonymous namespace)::parse(int)", "shop::parse"),
            (
                "void std::vector<int, std::allocator<int> >::push_back(int&&)",
                "std::vector::push_back",
            ),
            ("std::__cxx11::basic_string<char>::append(char const*)", "std::basic_string::append"),
            ("<shop::Cart as core::fmt::Debug>::fmt", "shop::Cart::fmt"),
            ("<&mut shop::Cart as core::fmt::Debug>::fmt", "shop::Cart::fmt"),
            ("<<shop::A as shop::B>::C as shop::D>::f", "shop::A::C::f"),
            ("<fn(u8) -> u8 as shop::D>::f", "fn(u8) -> u8::f"),
            ("<alloc::vec::Vec<T>>::push", "alloc::vec::Vec::push"),
            ("shop::Inventory::reserve::h0123456789abcdef", "shop::Inventory::reserve"),
            ("shop::main::{{closure}}", "shop::main::{{closure}}"),
            ("parse.isra.0", "parse"),
            ("operator<(A, B)", "operator<"),
            ("-[Class method:]", "-[Class method:]"),
            ("linux:schedule (preempted)", "linux:schedule (preempted)"),
            ("<", "<"),
            ("", ""),
        ];
        for (name, expected) in table {
            assert_eq!(short_name(name), expected, "{name}");
        }
    }

    #[test]
    fn names_differ() {
        let mut writer = Writer::new();
        let all = [
            writer.function_at("/bin/p", "_ZN4shop4findEi", 0x10, 1),
            writer.function_at("/bin/p", "_ZN4shop4findEc", 0x20, 1),
            writer.function_at("/bin/p", "init", 0x30, 1),
            writer.function_at("/lib/x.so", "init", 0x30, 1),
            writer.function_at("/lib/x.so", "init", 0x40, 1),
            writer.function_at("/lib/x.so", "parse.part.0", 0x50, 1),
            writer.function_at("/lib/x.so", "", 0x60, 1),
        ];
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let names = Names::new(&trace);
        let short = ShortNames::new(&names, all, false);
        let found: Vec<&str> = all.iter().map(|number| short.get(*number)).collect();
        let long = format!("_ZN4shop4packIN{}EEEvT_", "4item".repeat(40));
        let mut writer = Writer::new();
        let both = [("a", 0x70), ("b", 0x80)].map(|(end, address)| {
            writer.function_at("/bin/p", &long.replace("4item", &format!("5item{end}")), address, 1)
        });
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let packed = ShortNames::new(&Names::new(&trace), both, false);
        assert_eq!(
            both.map(|number| packed.get(number)),
            ["shop::pack@p+0x70", "shop::pack@p+0x80"]
        );
        let expected = [
            "shop::find(int)",
            "shop::find(char)",
            "init@p",
            "init@x.so+0x30",
            "init@x.so+0x40",
            "parse",
            "0x60",
        ];
        assert_eq!(found, expected);
        let alone = ShortNames::new(&names, all.into_iter().take(1), false);
        assert_eq!(alone.get(all[0]), "shop::find");
        let full = ShortNames::new(&names, all, true);
        assert_eq!((full.get(all[0]), full.get(all[3])), ("shop::find(int)", "init"));
    }

    #[test]
    fn the_middle_goes() {
        let rows = [(10, "abcdefghij"), (9, "ab…efghij"), (4, "a…ij"), (1, "…"), (0, "")];
        for (width, expected) in rows {
            assert_eq!(cut("abcdefghij", width), expected, "{width}");
        }
    }
}
