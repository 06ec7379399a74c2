//! Link commands: which file they write, whether they are final links, and running them with another
//! output and one more input. A compiler driver is a linker too.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process;

/// Options after which nothing is linked to an image.
const NOT_FINAL: &[&str] = &[
    "-r",
    "-i",
    "-Ur",
    "--relocatable",
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--version",
    "-version",
    "-V",
    "--help",
    "-###",
    "-dumpversion",
    "-dumpmachine",
    "-Wl,-r",
    "-Wl,--relocatable",
    "-Wl,-i",
    "--print-output-format",
    "-dM",
    "-P",
];

/// Options whose value is the next word, so that it is no option itself.
const WITH_VALUE: &[&str] =
    &["-T", "-e", "-h", "-soname", "-u", "-z", "-Xlinker", "-x", "-include"];

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
    /// With this exit code; 128 and the number of the signal that ended it.
    Failure(u8),
}

impl Outcome {
    /// Runs `words` with this process's streams.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn of(words: &[OsString]) -> io::Result<Self> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::Error::other("no command"));
        };
        let status = process::Command::new(program).args(arguments).status().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        let signal = status.signal().map(|signal| 128 + signal);
        let code = status.code().or(signal).unwrap_or(1);
        Ok(match u8::try_from(code).unwrap_or(1) {
            0 => Self::Success,
            code => Self::Failure(code),
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

    /// The command as it was given.
    #[must_use]
    pub fn as_given(&self) -> Vec<OsString> {
        self.given.clone()
    }

    /// The words that are no options: files, as far as they exist.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        let words = self.words.iter().skip(1);
        words.filter(|word| !word.as_bytes().starts_with(b"-")).map(Path::new)
    }

    /// A linker script takes the place of the linker's own.
    #[must_use]
    pub fn has_script(&self) -> bool {
        self.words.iter().any(|word| {
            let text = word.as_bytes();
            let in_driver = text.strip_prefix(b"-Wl,").unwrap_or(text);
            in_driver.starts_with(b"-T")
                && !in_driver.starts_with(b"-Ttext")
                && !in_driver.starts_with(b"-Tdata")
                && !in_driver.starts_with(b"-Tbss")
                || in_driver.starts_with(b"--script")
        })
    }

    /// Where a final link puts its image; `None` for any other command.
    #[must_use]
    pub fn final_output(&self) -> Option<PathBuf> {
        let mut words = self.words.iter().skip(1);
        let mut output = None;
        let mut has_input = false;
        while let Some(word) = words.next() {
            let text = word.as_bytes();
            if NOT_FINAL.iter().any(|option| option.as_bytes() == text)
                || text.starts_with(b"-print-")
            {
                return None;
            }
            if text == b"-o" || text == b"--output" {
                output = words.next().map(PathBuf::from);
            } else if let Some(name) = output_of(text) {
                output = Some(PathBuf::from(OsStr::from_bytes(name)));
            } else if WITH_VALUE.iter().any(|option| option.as_bytes() == text) {
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
            if index != 0 && (text == b"-o" || text == b"--output") {
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

/// The name in `-oNAME` and `--output=NAME`. `-omagic` is an option of its own.
fn output_of(word: &[u8]) -> Option<&[u8]> {
    if let Some(name) = word.strip_prefix(b"--output=") {
        return Some(name);
    }
    word.strip_prefix(b"-o").filter(|name| !name.is_empty() && *name != b"magic")
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
    for word in split(input.bytes()) {
        expand(&word, out, depth + 1)?;
    }
    Ok(())
}

/// The words of a response file: separated by white space, with quotes and backslashes.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let (mut word, mut in_word, mut quote) = (Vec::new(), false, None);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => {
                word.extend(bytes.next());
                in_word = true;
            }
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                in_word = true;
            }
            (byte, Some(open)) if byte == open => quote = None,
            (byte, None) if byte.is_ascii_whitespace() => {
                if in_word {
                    words.push(OsString::from_vec(std::mem::take(&mut word)));
                }
                in_word = false;
            }
            (byte, _) => {
                word.push(byte);
                in_word = true;
            }
        }
    }
    if in_word {
        words.push(OsString::from_vec(word));
    }
    words
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
        ];
        for (line, expected) in cases {
            assert_eq!(output(line), expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn response_files() {
        let words = split(b"-o 'a b'  \"c\\\"d\"\n e\\ f ''");
        assert_eq!(words, ["-o", "a b", "c\"d", "e f", ""]);
    }

    #[test]
    fn another_output() {
        let words: Vec<_> = ["ld", "-o", "a", "b.o"].map(OsString::from).into();
        let command = Command::parse(&words).unwrap();
        let linking = command.linking(Path::new("t/a"), Some(Path::new("t.o")));
        assert_eq!(linking, ["ld", "b.o", "-o", "t/a", "t.o"]);
    }
}
