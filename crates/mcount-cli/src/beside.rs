//! Files that a linker writes beside its output, such as the list of its inputs for make, or a map.
//!
//! `mcount link` links to a temporary name, with the table as one more input. These files would name
//! both, so we remove the names again:
//!
//! ```text
//! program: \                          program: \
//!   one.o \                             one.o
//!   .program.mcount-link/mcount.o
//! ```
//!
//! Such a file is one that the linker changed and that an option names. So we need no list of options.

use crate::arguments::{Argument, Meaning};
use crate::children::Stamp;
use crate::commit::{about, write_new};
use crate::files::Input;
use memchr::memmem;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A map shows this in place of the object with the table.
const TABLE: &str = "<mcount-link>";

/// The temporary names that the linker saw.
pub(crate) struct LinkNames<'a> {
    /// The temporary name of the image, and the final one.
    pub(crate) image: &'a Path,
    pub(crate) output: &'a Path,
    /// The object with the table, and the response file, which mold lists too.
    pub(crate) inputs: [&'a Path; 2],
}

/// The files that the options of a link command name, and how they were before it ran.
pub(crate) struct Written(BTreeMap<PathBuf, Before>);

struct Before {
    stamp: Option<Stamp>,
    lists_inputs: bool,
}

impl Written {
    /// The files that a command with these arguments and this output may write.
    pub(crate) fn by(arguments: &[Argument], output: &Path) -> Self {
        let mut files = BTreeMap::new();
        for argument in arguments {
            let (value, lists_inputs) = match &argument.meaning {
                Meaning::DependencyFile(file) => (file, true),
                Meaning::Option(Some(value)) => (value, false),
                _ => continue,
            };
            let mut path = PathBuf::from(value);
            if path.is_dir() {
                // GNU ld puts a map there.
                let mut name = output.file_name().unwrap_or_default().to_owned();
                name.push(".map");
                path.push(name);
            }
            let stamp = Stamp::of(&path);
            files.insert(path, Before { stamp, lists_inputs });
        }
        Self(files)
    }

    /// Removes the temporary names from the files that were written.
    ///
    /// # Errors
    ///
    /// A file can't be read or written. The error names it.
    pub(crate) fn clean(&self, names: &LinkNames<'_>) -> io::Result<()> {
        for (path, before) in &self.0 {
            if path.is_file() && Stamp::of(path) != before.stamp {
                clean(path, names, before.lists_inputs)?;
            }
        }
        Ok(())
    }
}

/// Removes the temporary names from the file at `path`, if it is text.
///
/// mold's `--repro` packs the command and its inputs, in an archive that knows how long each of them is. So
/// the name of the image gives way to one of the same length. The table is an input, and stays.
///
/// # Errors
///
/// It can't be read or written. The error names it.
pub(crate) fn clean(path: &Path, names: &LinkNames<'_>, lists_inputs: bool) -> io::Result<()> {
    let input = Input::open(path).map_err(|error| about(path, error))?;
    let text = input.bytes();
    let [table, words] = names.inputs;
    let [image, output, table, words] =
        [names.image, names.output, table, words].map(|name| name.as_os_str().as_bytes());
    let is_named = [image, table, words].iter().any(|name| memmem::find(text, name).is_some());
    let is_binary = memchr::memchr(0, text).is_some();
    let is_packed = path.as_os_str().as_bytes().ends_with(b".repro.tar");
    if !is_named || is_binary && !is_packed {
        return Ok(());
    }
    let cleaned = if is_binary {
        replaced(text, image, &of_length(names.output, image.len()))
    } else if lists_inputs {
        let all = [table, words].map(|name| [name.to_vec(), escaped(name)]).into_iter().flatten();
        all.fold(text.to_vec(), |text, name| without_input(&text, &name))
    } else {
        replaced(text, table, TABLE.as_bytes())
    };
    let cleaned = if is_binary { cleaned } else { replaced(&cleaned, image, output) };
    if cleaned == text {
        return Ok(());
    }
    drop(input);
    write_new(path, &cleaned).map_err(|error| about(path, error))
}

/// `text`, which a linker printed, without the temporary names.
pub(crate) fn cleaned(text: &[u8], names: &LinkNames<'_>) -> Vec<u8> {
    let [image, output, table] =
        [names.image, names.output, names.inputs[0]].map(|name| name.as_os_str().as_bytes());
    replaced(&replaced(text, table, TABLE.as_bytes()), image, output)
}

/// The name of the file at `path`, spelt in `length` bytes. The folder of temporary names is in the folder of
/// the output, so there is room for `./`.
fn of_length(path: &Path, length: usize) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let name = path.file_name().map_or(bytes, OsStrExt::as_bytes);
    let (folder, _) = bytes.split_at_checked(bytes.len() - name.len()).unwrap_or_default();
    let mut spelt = folder.to_vec();
    let room = length.saturating_sub(bytes.len());
    spelt.extend(b"./".iter().cycle().take(room / 2 * 2));
    // One more slash is no other folder.
    spelt.extend(b"/".iter().take(if room < 2 { 0 } else { room % 2 }));
    spelt.extend(name);
    spelt
}

/// `name` as lld writes it in a list for make.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b' ' | b'#' => escaped.push(b'\\'),
            b'$' => escaped.push(b'$'),
            _ => {}
        }
        escaped.push(*byte);
    }
    escaped
}

/// A list for make without `name`: not among the inputs, and without the rule that allows it to be
/// missing.
fn without_input(text: &[u8], name: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memmem::find(rest, name) {
        let (before, behind) = rest.split_at_checked(at).unwrap_or_default();
        let behind = behind.get(name.len()..).unwrap_or_default();
        kept.extend(before);
        if let Some(behind) = behind.strip_prefix(b":") {
            rest = behind.strip_prefix(b"\n\n").or(behind.strip_prefix(b"\n")).unwrap_or(behind);
        } else {
            let end = kept.iter().rposition(|byte| !b" \\\n".contains(byte));
            kept.truncate(end.map_or(0, |end| end + 1));
            rest = behind;
        }
    }
    kept.extend(rest);
    kept
}

/// `text` with every `old` replaced by `new`.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memmem::find(rest, old) {
        let (before, behind) = rest.split_at_checked(at).unwrap_or_default();
        replaced.extend(before);
        replaced.extend(new);
        rest = behind.get(old.len()..).unwrap_or_default();
    }
    replaced.extend(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_for_make_lose_the_table() {
        // GNU ld and gold, lld, mold.
        let cases = [
            ("p: \\\n  a.o \\\n  .p/t.o\n\na.o:\n\n.p/t.o:\n\n", "p: \\\n  a.o\n\na.o:\n\n"),
            ("p: \\\n  .p/t.o \\\n  a.o\n\n.p/t.o:\n\na.o:\n", "p: \\\n  a.o\n\na.o:\n"),
            ("p: \\\n a.o \\\n .p/t.o\n\na.o:\n\n.p/t.o:\n", "p: \\\n a.o\n\na.o:\n\n"),
            ("p: a.o .p/t.o b.o\n\na.o:\n\n.p/t.o:\n\nb.o:\n", "p: a.o b.o\n\na.o:\n\nb.o:\n"),
        ];
        for (text, expected) in cases {
            let found = without_input(text.as_bytes(), b".p/t.o");
            assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
        }
    }

    #[test]
    fn names_are_replaced() {
        assert_eq!(replaced(b"a bb abba", b"bb", b"c"), b"a c aca");
        assert_eq!(escaped(b"a b$"), b"a\\ b$$");
        for (path, length, spelt) in [
            ("p", 5, "././p"),
            ("p", 6, "././/p"),
            ("/a/b/p", 10, "/a/b/././p"),
            ("../p", 7, ".././/p"),
        ] {
            assert_eq!(of_length(Path::new(path), length), spelt.as_bytes(), "{path}");
        }
    }
}
