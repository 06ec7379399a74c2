//! Link commands: which file they write, and how they are run with another output and one more
//! input.

use crate::arguments::{Argument, Dialect, Meaning, parse};
use crate::response;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A link command: a linker's, or one of a program that takes a compiler's arguments.
pub struct Command {
    given: Vec<OsString>,
    /// The same with response files read into it.
    words: Vec<OsString>,
    /// What the words behind the first mean; indices are of these.
    arguments: Vec<Argument>,
}

impl Command {
    /// The command `words`, whose program's name says what it is.
    #[must_use]
    pub fn new(words: &[OsString]) -> Self {
        Self::of(words, dialect(words.first().map(OsString::as_os_str).unwrap_or_default()))
    }

    /// The command `words` of a linker, whatever its name is.
    #[must_use]
    pub fn of_linker(words: &[OsString]) -> Self {
        let dialect = dialect(words.first().map(OsString::as_os_str).unwrap_or_default());
        let is_gold = dialect == Dialect::Gold;
        Self::of(words, if is_gold { Dialect::Gold } else { Dialect::Linker })
    }

    fn of(given: &[OsString], dialect: Dialect) -> Self {
        let words = response::expand(given.iter().cloned());
        let arguments = parse(words.get(1..).unwrap_or_default(), dialect);
        Self { given: given.to_vec(), words, arguments }
    }

    /// The command as it was given.
    #[must_use]
    pub fn as_given(&self) -> &[OsString] {
        &self.given
    }

    /// The arguments, response files read.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// It has response files, and so may be too long without them.
    #[must_use]
    pub fn has_response_files(&self) -> bool {
        self.given != self.words
    }

    /// The files that are linked, or compiled first.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.arguments.iter().filter_map(|argument| match &argument.meaning {
            Meaning::Input(file, _) => Some(Path::new(file)),
            _ => None,
        })
    }

    /// A linker script takes the place of the linker's own, or the image has no headers in memory.
    #[must_use]
    pub fn has_script(&self) -> bool {
        self.has(|meaning| matches!(meaning, Meaning::Script | Meaning::NoHeaders))
    }

    fn has(&self, is_wanted: impl Fn(&Meaning) -> bool) -> bool {
        self.arguments.iter().any(|argument| is_wanted(&argument.meaning))
    }

    /// Where a final link puts its image; `None` for any other command.
    #[must_use]
    pub fn final_output(&self) -> Option<PathBuf> {
        use Meaning::{Compile, Nothing, OtherFormat, Relocatable};
        if self.has(|meaning| matches!(meaning, Compile | Nothing | OtherFormat | Relocatable)) {
            return None;
        }
        // A compiler with no input prints something; only a linker makes a file called a.out.
        self.inputs().next()?;
        let outputs = self.arguments.iter().filter_map(|argument| match &argument.meaning {
            Meaning::Output(file) => Some(PathBuf::from(file)),
            _ => None,
        });
        // Those that a compiler passes on come last here, and to the linker too.
        Some(outputs.last().unwrap_or_else(|| PathBuf::from("a.out")))
    }

    /// The command with its image at `image`, and with `object` as one more input.
    #[must_use]
    pub fn linking(&self, image: &Path, object: Option<&Path>) -> Vec<OsString> {
        let is_output = |argument: &&Argument| {
            matches!(argument.meaning, Meaning::Output(_)) && !argument.is_passed_on
        };
        let mut outputs = self.arguments.iter().filter(is_output).map(|argument| &argument.words);
        let mut next = outputs.next();
        let mut command: Vec<OsString> = self.words.iter().take(1).cloned().collect();
        let words = self.words.iter().skip(1).enumerate();
        // Behind this word, all words are files.
        let end = self.words.iter().skip(1).position(|word| word == "--");
        let end = end.filter(|end| self.is_input(end + 1)).unwrap_or(usize::MAX);
        for (index, word) in words {
            if index == end {
                command.extend(self.additions(image, object));
            }
            while next.is_some_and(|output| output.end <= index) {
                next = outputs.next();
            }
            if !next.is_some_and(|output| output.contains(&index)) {
                command.push(word.clone());
            }
        }
        if end == usize::MAX {
            command.extend(self.additions(image, object));
        }
        command
    }

    /// Whether the word at `index` is a file.
    fn is_input(&self, index: usize) -> bool {
        let is_it = |argument: &&Argument| argument.words.contains(&index);
        let found = self.arguments.iter().find(is_it);
        found.is_some_and(|argument| matches!(argument.meaning, Meaning::Input(..)))
    }

    /// What [`Command::linking`] adds.
    fn additions(&self, image: &Path, object: Option<&Path>) -> Vec<OsString> {
        let mut added = vec!["-o".into(), image.into()];
        let is_passed_on = |argument: &Argument| {
            matches!(argument.meaning, Meaning::Output(_)) && argument.is_passed_on
        };
        if self.arguments.iter().any(is_passed_on) {
            // To linkers, the last one counts.
            let words = ["-Xlinker".into(), "-o".into(), "-Xlinker".into(), image.into()];
            added.extend(words);
        }
        if let Some(object) = object {
            if self.has(|meaning| matches!(meaning, Meaning::Language(_))) {
                added.push("-xnone".into());
            }
            added.push(object.into());
        }
        added
    }
}

/// How the program called `name` reads its arguments. Linkers are called ld, x86_64-linux-gnu-ld,
/// ld.bfd, gold, ld.lld-19, mold.
fn dialect(name: &OsStr) -> Dialect {
    let name = Path::new(name).file_name().map(OsStr::as_bytes).unwrap_or_default();
    let is_version = |byte: &u8| byte.is_ascii_digit() || b".-".contains(byte);
    let end = name.iter().rposition(|byte| !is_version(byte)).map_or(0, |at| at + 1);
    let name = name.get(..end).unwrap_or_default();
    if name.ends_with(b"gold") {
        Dialect::Gold
    } else if name.ends_with(b"ld") || name.windows(3).any(|part| part == b"ld.") {
        Dialect::Linker
    } else {
        Dialect::Compiler
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        Command::new(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn final_links() {
        let cases = [
            ("ld -o a b.o", Some("a")),
            ("gcc b.o -oa", Some("a")),
            ("ld --output=a b.o", Some("a")),
            ("ld --outp a b.o", Some("a")),
            ("ld.bfd --outpu=a b.o", Some("a")),
            ("ld.gold -output a b.o", Some("a")),
            ("ld.lld -output b.o", Some("utput")),
            ("gcc b.c", Some("a.out")),
            ("gcc -c b.c -o b.o", None),
            ("ld -r a.o -o b.o", None),
            ("ld -z relro -o a b.o", Some("a")),
            ("ld -soname -r -o a b.o", Some("a")),
            ("ld --version", None),
            ("gcc -v", None),
            ("gcc -dumpdir x- b.o -o a", Some("a")),
            // Short options mean other things to a linker.
            ("ld -S -E -M -o a b.o", Some("a")),
            ("ld.lld-19 -i -o a b.o", None),
            ("ld -omagic b.o", Some("magic")),
            ("gcc -Wl,-z,now,-r b.o", None),
            ("gcc -Wl,-soname,-r b.o", Some("a.out")),
            ("gcc -Xlinker --relocatable b.o", None),
            ("gcc -Wl,-o,a b.o", Some("a")),
            ("gcc -Wl,-oa b.o -o b", Some("a")),
            ("gcc -Wl,-o -Wl,a b.o", Some("a")),
            ("gcc -Wl,--output=a b.o", Some("a")),
            ("gcc -Xlinker -o -Xlinker a b.o", Some("a")),
            ("gcc --for-linker=--output=a b.o", Some("a")),
            ("gcc --for-linker -oa b.o", Some("a")),
            ("clang-19 -print-file-name=b.o", None),
            ("ld -print-map -o a b.o", Some("a")),
            ("ld --oformat=binary -o a b.o", None),
            ("ld --oformat elf64-x86-64 -o a b.o", Some("a")),
            ("gcc -Wl,--oformat,binary -o a b.o", None),
        ];
        for (line, expected) in cases {
            assert_eq!(command(line).final_output(), expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn scripts() {
        let cases = [
            ("ld -T a.ld b.o", true),
            ("ld -Ta.ld b.o", true),
            ("ld -Tx=a.ld b.o", true),
            ("ld --script=a.ld b.o", true),
            ("ld -script a.ld b.o", true),
            ("ld -dT a.ld b.o", true),
            ("ld -Ttext=0 b.o", false),
            ("ld -Ttext 0 b.o", false),
            ("ld -Ttext-segment=0 b.o", false),
            ("ld -N b.o", true),
            ("ld --nmagic b.o", true),
            ("ld -soname -N b.o", false),
            ("gcc -T a.ld b.o", true),
            ("gcc -Wl,-T,a.ld b.o", true),
            ("gcc -Wl,-T -Xlinker a.ld b.o", true),
            ("gcc -Xlinker --script=a.ld b.o", true),
            ("gcc -Wl,-Ttext=0 b.o", false),
            ("gcc b.o", false),
        ];
        for (line, expected) in cases {
            assert_eq!(command(line).has_script(), expected, "{line}");
        }
    }

    #[test]
    fn inputs() {
        let cases: &[(&str, &[&str])] = &[
            ("ld -o a -z now b.o", &["b.o"]),
            ("ld -rpath c -Map d -e f b.o -plugin-opt g", &["b.o"]),
            ("gcc -MF c -o a b.o -Wl,-Map,d -Xlinker e.o", &["b.o", "e.o"]),
            ("clang b.o -- -c.o", &["b.o", "-c.o"]),
        ];
        for (line, expected) in cases {
            let expected: Vec<&Path> = expected.iter().map(Path::new).collect();
            assert_eq!(command(line).inputs().collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn another_output() {
        let cases = [
            ("ld -o a b.o", "ld b.o -o t/a t.o"),
            ("ld b.o --output=a", "ld b.o -o t/a t.o"),
            ("x b.o -oa", "x b.o -o t/a t.o"),
            ("x -xc b.txt", "x -xc b.txt -o t/a -xnone t.o"),
            ("x --language=c b.txt", "x --language=c b.txt -o t/a -xnone t.o"),
            ("x b.o -- -c.o", "x b.o -o t/a t.o -- -c.o"),
            ("x -Wl,-o,a b.o", "x -Wl,-o,a b.o -o t/a -Xlinker -o -Xlinker t/a t.o"),
        ];
        for (line, expected) in cases {
            let linking = command(line).linking(Path::new("t/a"), Some(Path::new("t.o")));
            let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(linking, expected, "{line}");
        }
    }
}
