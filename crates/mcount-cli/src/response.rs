//! Response files. `@FILE` on a command line means the words in that file, so that a command line
//! can have any length.
//!
//! The rules are those of gcc and binutils (libiberty, `expandargv` and `buildargv`). rustc has its own
//! rule: each line is a word.

use crate::files::Input;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// How many response files to read for a command line, at most. A file that names itself would have no
/// end.
const FILES: usize = 2000;

/// How many bytes of them to read, at most.
const BYTES: usize = 64 << 20;

/// `arguments` with each `@FILE` replaced by the words in that file, which may contain `@FILE` too. If a
/// file can't be read, or is too much, the word stays.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    expand_by(arguments, words)
}

/// As [`expand`], with `split` to split a response file into words.
pub fn expand_by(
    arguments: impl IntoIterator<Item = OsString>,
    split: impl Fn(&[u8]) -> Vec<OsString>,
) -> Vec<OsString> {
    let (mut files, mut bytes) = (FILES, BYTES);
    let mut expanded = Vec::new();
    let mut rest: Vec<OsString> = arguments.into_iter().collect();
    rest.reverse();
    while let Some(word) = rest.pop() {
        let path = word.as_bytes().strip_prefix(b"@").map(OsStr::from_bytes);
        let input = path.filter(|_| files != 0).and_then(|path| Input::open(Path::new(path)).ok());
        match input.filter(|input| input.bytes().len() <= bytes) {
            Some(input) => {
                files -= 1;
                bytes -= input.bytes().len();
                rest.extend(split(input.bytes()).into_iter().rev());
            }
            None => expanded.push(word),
        }
    }
    expanded
}

/// The words of a response file. White space separates them, `'` and `"` quote, and a backslash quotes
/// the next character (libiberty, `buildargv`).
#[must_use]
pub fn words(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (_, Some(open)) if byte == open => quote = None,
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// The words of a response file for rustc, which are its lines.
#[must_use]
pub fn lines(text: &[u8]) -> Vec<OsString> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| OsStr::from_bytes(line).to_owned()).collect()
}

/// A response file with these words.
#[must_use]
pub fn text(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        text.push(b'"');
        for byte in word.as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.extend(b"\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_gcc_does() {
        let cases: &[(&[u8], &[&str])] = &[
            (b"", &[]),
            (b" a  b\tc\nd\r\n", &["a", "b", "c", "d"]),
            (b"'a b' \"c d\"e f''", &["a b", "c de", "f"]),
            (b"'' \"\"", &["", ""]),
            (b"a\\ b \\'c \\\\", &["a b", "'c", "\\"]),
            (b"'a\\'b' \"c\\\"d'\"", &["a'b", "c\"d'"]),
            (b"'a b' \"c ' d\" e\\ f", &["a b", "c ' d", "e f"]),
            (b"a'b'\"c\" '' \\\\", &["abc", "", "\\"]),
            (b"'open", &["open"]),
            (b"'open \\", &["open "]),
            (b"end\\", &["end"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), *expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_response_file_reads_back() {
        let these = ["a b", "c\"d", "e\\f", "", "-g", "'"].map(OsString::from);
        assert_eq!(words(&text(&these)), these);
    }
}
