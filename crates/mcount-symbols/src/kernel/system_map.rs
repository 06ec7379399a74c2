//! `System.map`, which is what nm prints of a kernel: an address, a letter and a name on each line.

use super::Name;

/// The names in `text`. `None` if it isn't a `System.map`. Distributions install a file of this name that
/// only says where the real one is.
pub(crate) fn parse(text: &[u8]) -> Option<Vec<Name>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut names = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let [letter] = words.next()?.as_bytes() else { return None };
        let text = words.next()?.to_owned();
        // nm doesn't know what something in an empty section is.
        if !(letter.is_ascii_alphabetic() || *letter == b'?') || words.next().is_some() {
            return None;
        }
        names.push(Name { text, address, letter: *letter, size: 0 });
    }
    names.sort_by_key(|name| name.address);
    (!names.is_empty()).then_some(names)
}
