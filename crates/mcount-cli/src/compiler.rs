//! Which objects a compiler's command line writes.
//!
//! A wrong guess does no harm: an object that isn't there isn't recorded, and a file that isn't an object
//! is left alone. But no object may be missed.
//!
//! Sources: the manuals of gcc ("Invoking GCC", "Overall Options"), clang ("Clang command line argument
//! reference") and rustc ("Command-line Arguments").

use crate::arguments::{Argument, Dialect, Meaning, parse};
use crate::response;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The names of compilers. There may be a processor before the name and a version after it.
const COMPILERS: &[&str] = &[
    "cc", "gcc", "g++", "c++", "c89", "c99", "clang", "clang++", "gfortran", "flang", "gdc",
    "rustc",
];

/// The extensions of source files. Headers don't become objects.
const SOURCES: &[&str] = &[
    "c", "i", "ii", "m", "mi", "mm", "M", "mii", "cc", "cp", "cxx", "cpp", "CPP", "c++", "C",
    "cppm", "ixx", "s", "S", "sx", "f", "for", "ftn", "F", "FOR", "fpp", "FPP", "FTN", "f90",
    "f95", "f03", "f08", "F90", "F95", "F03", "F08", "go", "d", "ads", "adb", "mod", "rs", "cu",
    "cl", "hip", "ll", "bc",
];

/// Whether `name` is that of a compiler: `gcc`, `clang-19`, `aarch64-linux-gnu-g++-12.2`.
#[must_use]
pub fn is_compiler(name: &OsStr) -> bool {
    let mut parts: Vec<&[u8]> = name.as_bytes().split(|byte| *byte == b'-').collect();
    if parts.last().is_some_and(|last| is_version(last)) {
        parts.pop();
    }
    let last = parts.last().copied().unwrap_or_default();
    COMPILERS.iter().any(|compiler| compiler.as_bytes() == last)
}

/// Whether `text` is a version, such as `12.2`.
fn is_version(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Which word of `command` is the compiler. It may come behind launchers, as in `ccache gcc -c a.c`.
#[must_use]
pub fn position(command: &[OsString]) -> Option<usize> {
    let leading = command.iter().take_while(|word| !word.as_bytes().starts_with(b"-"));
    leading.map(|word| file_name(word)).position(|name| is_compiler(name) || is_rustc(name))
}

/// The objects that `command` writes, which is a compiler with its arguments, perhaps behind launchers.
/// The paths are as in the command, relative to the current directory.
#[must_use]
pub fn objects(command: &[OsString]) -> Vec<PathBuf> {
    let found = match position(command) {
        Some(at) if command.get(at).is_some_and(|word| is_rustc(word)) => {
            let words = command.iter().skip(at + 1).cloned();
            Rustc::parse(&response::expand_by(words, response::lines)).objects()
        }
        _ => {
            let words = command.iter().skip(1).cloned();
            written(&parse(&response::expand(words), Dialect::Compiler))
        }
    };
    found.into_iter().filter(|path| path.as_os_str() != "-").collect()
}

fn file_name(word: &OsStr) -> &OsStr {
    Path::new(word).file_name().unwrap_or(word)
}

fn is_rustc(word: &OsStr) -> bool {
    let name = file_name(word);
    name == "clippy-driver" || name == "rustc"
}

/// The objects that a compiler with arguments like gcc's writes.
fn written(arguments: &[Argument]) -> Vec<PathBuf> {
    let [compiles, prints] = [Meaning::Compile, Meaning::Nothing]
        .map(|wanted| arguments.iter().any(|argument| argument.meaning == wanted));
    if !compiles || prints {
        return Vec::new();
    }
    let own = arguments.iter().filter(|argument| !argument.is_passed_on);
    let output = own.clone().rev().find_map(|argument| match &argument.meaning {
        Meaning::Output(file) => Some(PathBuf::from(file)),
        _ => None,
    });
    if let Some(output) = output {
        return vec![output];
    }
    let sources = own.filter_map(|argument| match &argument.meaning {
        Meaning::Input(file, language) if is_source(file, language.as_deref()) => {
            Path::new(file).file_stem()
        }
        _ => None,
    });
    sources.map(|name| path(&[name.as_bytes(), b".o"].concat())).collect()
}

/// Whether this file becomes an object, by the language that `-x` names, or else by its name.
fn is_source(file: &OsStr, language: Option<&OsStr>) -> bool {
    if let Some(language) = language {
        return !language.as_bytes().ends_with(b"-header");
    }
    let extension = Path::new(file).extension();
    extension.is_some_and(|extension| SOURCES.iter().any(|known| extension == *known))
}

/// The value of the option `name`, if `word` is that option. The value may be the next of `words`.
fn value<'w>(
    name: &str,
    word: &'w [u8],
    words: &mut impl Iterator<Item = &'w [u8]>,
) -> Option<&'w [u8]> {
    let rest = word.strip_prefix(name.as_bytes())?;
    match rest.strip_prefix(b"=") {
        Some(value) => Some(value),
        None if rest.is_empty() => words.next(),
        // The value may directly follow an option of one letter.
        None => (name.len() == 2).then_some(rest),
    }
}

/// The command line of rustc.
#[derive(Default)]
struct Rustc {
    /// Each kind of output, with its file if there is one.
    emit: Vec<(Vec<u8>, Option<PathBuf>)>,
    output: Option<PathBuf>,
    folder: PathBuf,
    name: Vec<u8>,
    suffix: Vec<u8>,
}

impl Rustc {
    fn parse(arguments: &[OsString]) -> Self {
        let mut rustc = Self::default();
        let mut crate_name = None;
        let mut words = arguments.iter().map(|word| word.as_bytes());
        while let Some(word) = words.next() {
            if let Some(kinds) = value("--emit", word, &mut words) {
                rustc.emit(kinds);
            } else if let Some(file) = value("-o", word, &mut words) {
                rustc.output = Some(path(file));
            } else if let Some(folder) = value("--out-dir", word, &mut words) {
                rustc.folder = path(folder);
            } else if let Some(name) = value("--crate-name", word, &mut words) {
                crate_name = Some(name.to_vec());
            } else if let Some(option) =
                value("-C", word, &mut words).or_else(|| value("--codegen", word, &mut words))
            {
                if let Some(suffix) = option.strip_prefix(b"extra-filename=") {
                    rustc.suffix = suffix.to_vec();
                }
            } else if let Some(stem) = word.strip_suffix(b".rs").filter(|_| rustc.name.is_empty()) {
                let name = Path::new(OsStr::from_bytes(stem)).file_name().unwrap_or_default();
                rustc.name = name.as_bytes().to_vec();
                rustc.name.iter_mut().filter(|byte| **byte == b'-').for_each(|byte| *byte = b'_');
            }
        }
        rustc.name = crate_name.unwrap_or(rustc.name);
        rustc
    }

    fn emit(&mut self, kinds: &[u8]) {
        for kind in kinds.split(|byte| *byte == b',') {
            let mut parts = kind.splitn(2, |byte| *byte == b'=');
            let name = parts.next().unwrap_or_default().to_vec();
            self.emit.push((name, parts.next().map(path)));
        }
    }

    fn objects(self) -> Vec<PathBuf> {
        let Some((_, file)) = self.emit.iter().find(|(kind, _)| kind == b"obj") else {
            return Vec::new();
        };
        let object = match (file, self.output) {
            (Some(file), _) => file.clone(),
            (None, Some(output)) if self.emit.len() == 1 => output,
            (None, Some(output)) => output.with_extension("o"),
            (None, None) => self.folder.join(path(&[&self.name, &self.suffix[..], b".o"].concat())),
        };
        vec![object]
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines, and the objects they write.
    const CASES: &[(&str, &[&str])] = &[
        ("gcc -c a.c", &["a.o"]),
        ("gcc -c a.c -o x.o", &["x.o"]),
        ("gcc -ox.o -c a.c", &["x.o"]),
        ("clang --output=x.o --compile a.c", &["x.o"]),
        ("clang --output x.o -c a.c", &["x.o"]),
        ("gcc -c src/a.c b.cc ../c.S d.tar.f90", &["a.o", "b.o", "c.o", "d.tar.o"]),
        ("gcc -c a.c lib.a other.o -lm", &["a.o"]),
        ("gcc -c a.h", &[]),
        ("gcc -c -xc a b.txt -x none c.c d.txt", &["a.o", "b.o", "c.o"]),
        ("gcc -c -x c++-header a.h -o a.h.gch", &["a.h.gch"]),
        ("gcc -c -xc-header a.h -xnone b.c", &["b.o"]),
        ("gcc -c -xc -", &["-.o"]),
        ("gcc -c -xc - -o -", &[]),
        ("gcc -c a.c -MD -MF d.c -MT e.c -MQ f.c", &["a.o"]),
        ("gcc -c a.c -include b.c -imacros c.c -Xclang d.c -D e.c --param f.c", &["a.o"]),
        ("gcc -c a.c -MF -o", &["a.o"]),
        ("gcc -S a.c -o a.s", &[]),
        ("gcc -S -c a.c -o a.s", &[]),
        ("gcc -E a.c -c", &[]),
        ("gcc -M -c a.c", &[]),
        ("gcc -MM -c a.c", &[]),
        ("gcc -MMD -c a.c", &["a.o"]),
        ("clang -fsyntax-only -c a.c", &[]),
        ("gcc a.c b.c -o program", &[]),
        ("gcc a.o -o program", &[]),
        ("gcc -### -c a.c", &[]),
        ("gcc --version", &[]),
        ("gcc -print-file-name=libc.a -c a.c", &[]),
        ("clang -c -- -a.c", &["-a.o"]),
        ("ccache gcc-12.c -c a.c -o x.o", &["x.o"]),
        ("distcc /usr/bin/gcc -c a.c", &["a.o"]),
        ("rustc --emit=obj -o x.o a.rs", &["x.o"]),
        ("sccache /usr/bin/rustc --emit obj=y.o a.rs", &["y.o"]),
        ("rustc --emit=link,obj=y.o -o x a.rs", &["y.o"]),
        ("rustc --emit=asm,obj -o x.bin a.rs", &["x.o"]),
        ("rustc --emit asm --emit obj a-b.rs", &["a_b.o"]),
        ("rustc --emit=obj --crate-name n --out-dir=d -Cextra-filename=-1 a.rs", &["d/n-1.o"]),
        ("rustc --emit=obj --crate-name n --out-dir d -C extra-filename=-1 a.rs", &["d/n-1.o"]),
        ("rustc --emit=obj=- a.rs", &[]),
        ("rustc -vV", &[]),
        ("rustc --emit=link a.rs", &[]),
        ("gcc -c @missing a.c", &["a.o"]),
        ("gcc -c --output=x.o --output y.o a.c", &["y.o"]),
        ("gcc -c --language c a --language=none b", &["a.o"]),
        ("gcc -c -Wl,-o,x.o a.c", &["a.o"]),
        ("gcc -c -dumpdir x- a.c", &["a.o"]),
    ];

    #[test]
    fn objects_of_command_lines() {
        for (line, expected) in CASES {
            let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(objects(&command), expected, "{line}");
        }
    }

    #[test]
    fn objects_that_response_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let files = [
            ("r", format!("-c 'a\tc.c' @{}\n", file("s"))),
            ("s", "-o \"a \"b\\.o".to_owned()),
            ("lines", "--emit=obj\n-o\na b.o\n".to_owned()),
            ("loop", format!("@{}", file("loop"))),
        ];
        for (name, text) in files {
            crate::commit::write_new(&folder.path().join(name), text.as_bytes()).unwrap();
        }
        for (line, name, expected) in
            [("gcc", "r", "a b.o"), ("rustc", "lines", "a b.o"), ("gcc -c a.c", "loop", "a.o")]
        {
            let mut command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            command.push(format!("@{}", file(name)).into());
            assert_eq!(objects(&command), [PathBuf::from(expected)], "{line} @{name}");
        }
    }
}
