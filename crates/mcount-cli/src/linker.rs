//! Link commands: which file they write, whether they are final links, and running them with another
//! output and one more input. A compiler driver is a linker too.

use crate::children;
use crate::commit::Failure;
use crate::response::words;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

/// Options of linkers after which no image is made.
const LINKER_NOT_FINAL: &[&str] = &[
    "-r",
    "-i",
    "-Ur",
    "-relocatable",
    "--relocatable",
    "-version",
    "--version",
    "-help",
    "--help",
    "-print-output-format",
    "--print-output-format",
];

/// The same of compiler drivers.
const DRIVER_NOT_FINAL: &[&str] = &[
    "-r",
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--analyze",
    "--version",
    "--help",
    "--target-help",
    "-###",
];

/// Options of both whose value is the next word, so that it is no option itself.
const WITH_VALUE: &[&str] = &["-T", "-e", "-h", "-soname", "-u", "-z", "-x", "-include"];

/// A link command.
pub struct Command {
    given: Vec<OsString>,
    /// The same with response files read into it.
    words: Vec<OsString>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With exit code 0.
    Success,
    /// With this exit code.
    Failure(u8),
    /// By the signal of this number.
    Killed(i32),
}

impl Outcome {
    /// Runs `words` with this process's streams.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn of(words: &[OsString]) -> io::Result<Self> {
        Self::run(words, false)
    }

    /// The same without what it prints.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn of_silent(words: &[OsString]) -> io::Result<Self> {
        Self::run(words, true)
    }

    fn run(words: &[OsString], is_silent: bool) -> io::Result<Self> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::Error::other("no command"));
        };
        let mut command = process::Command::new(program);
        command.args(arguments);
        if is_silent {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        let status = children::status(&mut command).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {}", program.display(), Failure::from(error)))
        })?;
        Ok(match (status.signal(), status.code()) {
            (Some(signal), _) => Self::Killed(signal),
            (None, Some(0)) => Self::Success,
            (None, code) => Self::Failure(code.map_or(1, |code| u8::try_from(code).unwrap_or(1))),
        })
    }
}

impl Command {
    /// # Errors
    ///
    /// A response file cannot be read.
    pub fn parse(words: &[OsString]) -> io::Result<Self> {
        let mut all = Vec::new();
        for word in words {
            expand(word, &mut all, 0)?;
        }
        Ok(Self { given: words.to_vec(), words: all })
    }

    /// It has response files, and so may be too long without them.
    #[must_use]
    pub fn has_response_files(&self) -> bool {
        self.given != self.words
    }

    /// The command as it was given.
    #[must_use]
    pub fn as_given(&self) -> Vec<OsString> {
        self.given.clone()
    }

    /// The words that are no options, nor values of some: files, as far as they exist.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        let mut words = self.words.iter().skip(1);
        std::iter::from_fn(move || {
            loop {
                let word = words.next()?;
                let text = word.as_bytes();
                if is_output(text) || is_one_of(WITH_VALUE, text) {
                    words.next();
                } else if !text.starts_with(b"-") {
                    return Some(Path::new(word));
                }
            }
        })
    }

    /// The program is a linker, and not a compiler driver, whose short options mean other things.
    fn is_linker(&self) -> bool {
        let name = self.words.first().and_then(|program| Path::new(program).file_name());
        let name = name.map(OsStr::as_bytes).unwrap_or_default();
        let is_version = |byte: &u8| byte.is_ascii_digit() || b".-".contains(byte);
        let end = name.iter().rposition(|byte| !is_version(byte)).map_or(0, |at| at + 1);
        let name = name.get(..end).unwrap_or_default();
        // ld, x86_64-linux-gnu-ld, ld.bfd, gold, ld.lld, mold.
        name.ends_with(b"ld") || name.windows(3).any(|part| part == b"ld.")
    }

    /// Whether `word` says that no image is to be made.
    fn is_not_final(&self, word: &[u8]) -> bool {
        if self.is_linker() {
            return is_one_of(LINKER_NOT_FINAL, word);
        }
        let mut passed = options(word).skip(1);
        is_one_of(DRIVER_NOT_FINAL, word)
            || [&b"-print-"[..], b"--print-", b"-dump"].iter().any(|start| word.starts_with(start))
            || passed.any(|option| is_one_of(LINKER_NOT_FINAL, option))
    }

    /// A linker script takes the place of the linker's own, or the image has no headers in memory.
    #[must_use]
    pub fn has_script(&self) -> bool {
        self.words.iter().flat_map(|word| options(word.as_bytes())).any(|option| {
            let is_address = [&b"-Ttext"[..], b"-Tdata", b"-Tbss", b"-Trodata", b"-Tldata"];
            option.starts_with(b"-T") && !is_address.iter().any(|start| option.starts_with(start))
                || option.starts_with(b"--script")
                || is_one_of(NO_HEADERS, option)
        })
    }

    /// Whether the output is something else than ELF.
    fn has_other_format(&self) -> bool {
        let mut options = self.words.iter().flat_map(|word| options(word.as_bytes()));
        options.any(|option| option.starts_with(b"--oformat"))
    }

    /// The file of the compiler's own that it calls `name`, if the command is a compiler's.
    #[must_use]
    pub fn file_of_driver(&self, name: &str) -> Option<PathBuf> {
        let (program, words) = self.words.split_first().filter(|_| !self.is_linker())?;
        let machine = words.iter().filter(|word| {
            let word = word.as_bytes();
            word.starts_with(b"-m")
                || word.starts_with(b"--target=")
                || word.starts_with(b"--sysroot")
        });
        let mut command = process::Command::new(program);
        command.args(machine).arg(format!("-print-file-name={name}"));
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let path = Path::new(OsStr::from_bytes(output.stdout.trim_ascii_end()));
        path.is_file().then(|| path.to_owned())
    }

    /// Where a final link puts its image; `None` for any other command.
    #[must_use]
    pub fn final_output(&self) -> Option<PathBuf> {
        if self.has_other_format() {
            return None;
        }
        let mut words = self.words.iter().skip(1);
        let mut output = None;
        let mut has_input = false;
        while let Some(word) = words.next() {
            let text = word.as_bytes();
            if text == b"-Xlinker" {
                let passed = words.next().map(|word| word.as_bytes()).unwrap_or_default();
                if is_one_of(LINKER_NOT_FINAL, passed) {
                    return None;
                }
            } else if self.is_not_final(text) {
                return None;
            } else if is_output(text) {
                output = words.next().map(PathBuf::from);
            } else if let Some(name) = output_of(text) {
                output = Some(PathBuf::from(OsStr::from_bytes(name)));
            } else if is_one_of(WITH_VALUE, text) {
                words.next();
            } else {
                has_input |= !text.starts_with(b"-");
            }
        }
        // A compiler with no input prints something; only a linker makes a file called a.out.
        has_input.then(|| output.unwrap_or_else(|| PathBuf::from("a.out")))
    }

    /// The command with its image at `image`, and with `object` as one more input.
    #[must_use]
    pub fn linking(&self, image: &Path, object: Option<&Path>) -> Vec<OsString> {
        let mut command = Vec::with_capacity(self.words.len() + 3);
        let mut words = self.words.iter().enumerate();
        while let Some((index, word)) = words.next() {
            let text = word.as_bytes();
            if index != 0 && is_output(text) {
                words.next();
            } else if index == 0 || output_of(text).is_none() {
                command.push(word.clone());
            }
        }
        command.push("-o".into());
        command.push(image.into());
        if let Some(object) = object {
            if self.words.iter().any(|word| word == "-x") {
                command.push("-xnone".into());
            }
            command.push(object.into());
        }
        command
    }
}

/// Options after which the ELF header is not loaded, so that nothing can be relocated against it.
const NO_HEADERS: &[&str] = &["-n", "-N", "--nmagic", "--omagic", "-nmagic"];

/// The options in a word: those that a driver passes to the linker, or the word itself.
fn options(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    let passed = word.strip_prefix(b"-Wl,").unwrap_or_default().split(|byte| *byte == b',');
    std::iter::once(word).chain(passed)
}

fn is_one_of(options: &[&str], word: &[u8]) -> bool {
    options.iter().any(|option| option.as_bytes() == word)
}

/// The next word is the name of the output.
fn is_output(word: &[u8]) -> bool {
    word == b"-o" || word == b"--output"
}

/// The name in `-oNAME` and `--output=NAME`. All that begins with `-o` and one dash is a name.
fn output_of(word: &[u8]) -> Option<&[u8]> {
    let name = word.strip_prefix(b"--output=").or_else(|| word.strip_prefix(b"-o"));
    name.filter(|name| !name.is_empty())
}

/// `words` as the text of a response file.
#[must_use]
pub fn response(words: &[OsString]) -> Vec<u8> {
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

/// Adds `word`, or the words in the response file that it names.
fn expand(word: &OsStr, out: &mut Vec<OsString>, depth: u32) -> io::Result<()> {
    let Some(path) = word.as_bytes().strip_prefix(b"@").filter(|_| depth < 8) else {
        out.push(word.to_owned());
        return Ok(());
    };
    let path = Path::new(OsStr::from_bytes(path));
    // As binutils and gcc do: what cannot be read is a word like any other.
    let Ok(input) = crate::files::Input::open(path) else {
        out.push(word.to_owned());
        return Ok(());
    };
    for word in words(input.bytes()) {
        expand(&word, out, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(line: &str) -> Option<PathBuf> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        Command::parse(&words).unwrap().final_output()
    }

    #[test]
    fn final_links() {
        let cases = [
            ("ld -o a b.o", Some("a")),
            ("gcc b.o -oa", Some("a")),
            ("ld --output=a b.o", Some("a")),
            ("gcc b.c", Some("a.out")),
            ("gcc -c b.c -o b.o", None),
            ("ld -r a.o -o b.o", None),
            ("ld -z relro -o a b.o", Some("a")),
            ("ld --version", None),
            ("gcc -v", None),
            // Short options mean other things to a linker.
            ("ld -S -E -M -o a b.o", Some("a")),
            ("ld.lld-19 -i -o a b.o", None),
            ("ld -omagic b.o", Some("magic")),
            ("gcc -Wl,-z,now,-r b.o", None),
            ("gcc -Xlinker --relocatable b.o", None),
            ("clang-19 -print-file-name=b.o", None),
            ("ld -print-map -o a b.o", Some("a")),
            ("ld --oformat=binary -o a b.o", None),
            ("gcc -Wl,--oformat,binary -o a b.o", None),
        ];
        for (line, expected) in cases {
            assert_eq!(output(line), expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn response_files() {
        let words = words(b"-o 'a b'  \"c\\\"d\"\n e\\ f ''");
        assert_eq!(words, ["-o", "a b", "c\"d", "e f", ""]);
    }

    #[test]
    fn a_response_file_reads_back() {
        let words = ["a b", "c\"d", "e\\f", "", "-g"].map(OsString::from);
        assert_eq!(super::words(&response(&words)), words);
    }

    #[test]
    fn outputs_are_no_inputs() {
        let words: Vec<_> = ["ld", "-o", "a", "-z", "now", "b.o"].map(OsString::from).into();
        let command = Command::parse(&words).unwrap();
        assert_eq!(command.inputs().collect::<Vec<_>>(), [Path::new("b.o")]);
    }

    #[test]
    fn another_output() {
        let words: Vec<_> = ["ld", "-o", "a", "b.o"].map(OsString::from).into();
        let command = Command::parse(&words).unwrap();
        let linking = command.linking(Path::new("t/a"), Some(Path::new("t.o")));
        assert_eq!(linking, ["ld", "b.o", "-o", "t/a", "t.o"]);
    }
}
