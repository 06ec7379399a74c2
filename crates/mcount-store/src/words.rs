//! Words for people: numbers with their noun, and names that stay on one line.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{Display, Write as _};
use std::path::Path;

/// `1 entry`, `2 entries`, `0 entries`.
#[must_use]
pub fn counted<N: Copy + Display + From<u8> + PartialEq>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

/// `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 of 2 functions has`, `0 of 2 functions have`; the numbers look as `shown` prints them.
#[must_use]
pub fn functions_have(part: usize, whole: usize, shown: fn(usize) -> String) -> String {
    let noun = if whole == 1 { "function" } else { "functions" };
    let verb = if part == 1 || whole == 1 { "has" } else { "have" };
    format!("{} of {} {noun} {verb}", shown(part), shown(whole))
}

/// `name`, with every character escaped that would move the cursor, change a colour or begin a line.
#[must_use]
pub fn printable(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    name.chars().fold(String::new(), escaped).into()
}

/// `text`, with `c` after it.
fn escaped(mut text: String, c: char) -> String {
    if c.is_control() {
        text.extend(c.escape_default());
    } else {
        text.push(c);
    }
    text
}

/// Bytes such as those of a build ID, two digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The bytes that `64M` says.
///
/// # Errors
///
/// It's no number with a unit, or 0.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 4] =
        [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let unit = |(name, factor)| text.strip_suffix(name).map(|digits| (digits, factor));
    let (digits, factor) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    let wrong = || "not a size such as 500K, 64M or 1G".to_owned();
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count: u64 = if is_number { digits.parse().map_err(|_| wrong())? } else { 0 };
    count.checked_mul(factor).filter(|bytes| *bytes != 0).ok_or_else(wrong)
}

/// `path` as one word of a command line of a shell, which can't take it for an option.
#[must_use]
pub fn shell_path(path: &Path) -> String {
    let word = shell_word(path.as_os_str());
    let (quote, name) = word.strip_prefix('\'').map_or(("", word.as_str()), |name| ("'", name));
    if name.starts_with('-') { format!("{quote}./{name}") } else { word }
}

/// A word of a command line, as a shell takes it.
#[must_use]
pub fn shell_word(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_noun() {
        let all = [0_usize, 1, 2, 11].map(|count| counted(count, "entry", "entries"));
        assert_eq!(all, ["0 entries", "1 entry", "2 entries", "11 entries"]);
    }

    #[test]
    fn digits_are_in_groups_of_three() {
        let table =
            [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")];
        for (number, expected) in table {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn the_verb_goes_with_the_number() {
        for (part, whole, expected) in [
            (0, 1, "0 of 1 function has"),
            (1, 1, "1 of 1 function has"),
            (1, 2, "1 of 2 functions has"),
            (0, 2, "0 of 2 functions have"),
        ] {
            assert_eq!(functions_have(part, whole, |number| number.to_string()), expected);
        }
    }

    #[test]
    fn words_for_a_shell() {
        let rows = [
            ("ls", "ls"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("-x", "-x"),
        ];
        for (word, expected) in rows {
            assert_eq!(shell_word(OsStr::new(word)), expected);
        }
    }

    #[test]
    fn a_path_is_no_option() {
        let rows = [
            ("server.mcount", "server.mcount"),
            ("/tmp/a-b_c/x.mcount", "/tmp/a-b_c/x.mcount"),
            ("my server.mcount", "'my server.mcount'"),
            ("-x.mcount", "./-x.mcount"),
            ("-a b", "'./-a b'"),
        ];
        for (path, expected) in rows {
            assert_eq!(shell_path(Path::new(path)), expected);
        }
    }

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(printable("plain name é"), "plain name é");
        assert_eq!(printable("a\nb\x1b[31m\u{9b}"), "a\\nb\\u{1b}[31m\\u{9b}");
    }
}
