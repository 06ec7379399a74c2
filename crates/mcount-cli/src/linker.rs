//! Link commands: which file they write, and how to run them with another output and one more input.

use crate::arguments::{Argument, Dialect, Meaning, parse};
use crate::response;
use memchr::memmem;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The command of a linker, or of a program with the arguments of a compiler.
pub struct Command {
    given: Vec<OsString>,
    /// The words with those of response files.
    words: Vec<OsString>,
    /// The meaning of the words after the first one. Indices are in these.
    arguments: Vec<Argument>,
    /// The same for the words that were given, if no response file names an output.
    outside: Option<Vec<Argument>>,
}

impl Command {
    /// The command `words`. The name of the program says how it reads its arguments.
    #[must_use]
    pub fn new(words: &[OsString]) -> Self {
        Self::of(words, dialect(words.first().map(OsString::as_os_str).unwrap_or_default()))
    }

    /// The command `words`, which is that of a linker, even if it has another name.
    #[must_use]
    pub fn of_linker(words: &[OsString]) -> Self {
        let dialect = dialect(words.first().map(OsString::as_os_str).unwrap_or_default());
        let is_gold = dialect == Dialect::Gold;
        Self::of(words, if is_gold { Dialect::Gold } else { Dialect::Linker })
    }

    fn of(given: &[OsString], dialect: Dialect) -> Self {
        let words = response::expand(given.iter().cloned());
        let arguments = parse(words.get(1..).unwrap_or_default(), dialect);
        let outside = parse(given.get(1..).unwrap_or_default(), dialect);
        let outside = Some(outside).filter(|outside| outputs(outside) == outputs(&arguments));
        Self { given: given.to_vec(), words, arguments, outside }
    }

    /// The command as it was given.
    #[must_use]
    pub fn as_given(&self) -> &[OsString] {
        &self.given
    }

    /// The arguments, with those of response files.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The words of an argument.
    #[must_use]
    pub fn words_of(&self, argument: &Argument) -> &[OsString] {
        let Range { start, end } = argument.words;
        self.words.get(start + 1..end + 1).unwrap_or_default()
    }

    /// Whether a response file names the output. Then what [`Command::linking`] returns may be too long
    /// for a command line.
    #[must_use]
    pub fn needs_response_file(&self) -> bool {
        self.outside.is_none()
    }

    /// The option with which the linker prints in colours even if it doesn't print to a terminal, if it
    /// has one.
    #[must_use]
    pub fn colour_option(&self) -> Option<&'static str> {
        let program = self.given.first().map(Path::new)?.file_name()?.as_bytes();
        let has_colours = [&b"ld.lld"[..], b"mold"];
        let is_one = has_colours.iter().any(|name| memmem::find(program, name).is_some());
        is_one.then_some("--color-diagnostics=always")
    }

    /// The files that are linked, or compiled first.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.arguments.iter().filter_map(|argument| match &argument.meaning {
            Meaning::Input(file, _) => Some(Path::new(file)),
            _ => None,
        })
    }

    /// Whether a linker script replaces the linker's own, or the image has no headers in memory.
    #[must_use]
    pub fn has_script(&self) -> bool {
        self.has(|meaning| matches!(meaning, Meaning::Script | Meaning::NoHeaders))
    }

    fn has(&self, is_wanted: impl Fn(&Meaning) -> bool) -> bool {
        self.arguments.iter().any(|argument| is_wanted(&argument.meaning))
    }

    /// Where a final link puts its image. `None` for any other command.
    #[must_use]
    pub fn final_output(&self) -> Option<PathBuf> {
        use Meaning::{Compile, Nothing, OtherFormat, Relocatable};
        if self.has(|meaning| matches!(meaning, Compile | Nothing | OtherFormat | Relocatable)) {
            return None;
        }
        // Without inputs, a compiler prints something.
        self.inputs().next()?;
        // Outputs that a compiler passes on come last, and the last one counts.
        let last = self.arguments.iter().rev().find_map(|argument| match &argument.meaning {
            Meaning::Output(file) => Some(PathBuf::from(file)),
            _ => None,
        });
        Some(last.unwrap_or_else(|| PathBuf::from("a.out")))
    }

    /// The command with its image at `image`, and with `object` as one more input.
    #[must_use]
    pub fn linking(&self, image: &Path, object: Option<&Path>) -> Vec<OsString> {
        let (words, arguments) = match &self.outside {
            Some(arguments) => (&self.given, arguments),
            None => (&self.words, &self.arguments),
        };
        let mut command: Vec<OsString> = words.iter().take(1).cloned().collect();
        let own = arguments.iter().filter(|argument| is_own_output(argument));
        let outputs: BTreeSet<usize> = own.flat_map(|argument| argument.words.clone()).collect();
        // Behind `--`, all words are files, unless it is the value of an option.
        let mut dashes = words.iter().skip(1).enumerate().filter(|(_, word)| *word == "--");
        let end = dashes.find(|(index, _)| !arguments.iter().any(|a| a.words.contains(index)));
        let end = end.map(|(index, _)| index);
        let mut added = Some(self.additions(image, object));
        for (index, word) in words.iter().skip(1).enumerate() {
            if Some(index) == end {
                command.extend(added.take().unwrap_or_default());
            }
            if !outputs.contains(&index) {
                command.push(word.clone());
            }
        }
        command.extend(added.unwrap_or_default());
        command
    }

    /// What [`Command::linking`] adds.
    fn additions(&self, image: &Path, object: Option<&Path>) -> Vec<OsString> {
        let mut added = vec!["-o".into(), image.into()];
        let mut outputs =
            self.arguments.iter().filter(|argument| matches!(argument.meaning, Meaning::Output(_)));
        if outputs.any(|output| output.is_passed_on) {
            // For linkers, the last one counts.
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

/// How many arguments name an output.
fn outputs(arguments: &[Argument]) -> usize {
    arguments.iter().filter(|argument| matches!(argument.meaning, Meaning::Output(_))).count()
}

/// Whether an argument names the output, and not only for the linker of a compiler.
fn is_own_output(argument: &Argument) -> bool {
    matches!(argument.meaning, Meaning::Output(_)) && !argument.is_passed_on
}

/// Whether `words` are `mold -run` and a command. That runs any command with mold as its linker.
#[must_use]
pub fn replaces_linkers(words: &[OsString]) -> bool {
    let [program, option, ..] = words else { return false };
    let name = Path::new(program).file_name().unwrap_or(program);
    let is_mold = name == "mold" || name == "ld.mold" || name.as_bytes().ends_with(b"-mold");
    is_mold && (option == "-run" || option == "--run")
}

/// How the program `name` reads its arguments. Linkers have names such as ld, x86_64-linux-gnu-ld,
/// ld.bfd, gold, ld.lld-19 and mold.
fn dialect(name: &OsStr) -> Dialect {
    let name = Path::new(name).file_name().map(OsStr::as_bytes).unwrap_or_default();
    let version = name.iter().rev().take_while(|byte| b"0123456789.-".contains(byte)).count();
    let name = name.get(..name.len() - version).unwrap_or_default();
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
