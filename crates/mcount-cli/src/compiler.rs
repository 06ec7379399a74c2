//! What a compiler's command line says: which objects it writes.
//!
//! Its own file because it is about compilers and knows nothing of recording. Follows the manuals
//! of gcc ("Invoking GCC", "Overall Options"), clang ("Clang command line argument reference") and
//! rustc ("Command-line Arguments").
//!
//! A wrong guess does no harm: an object that is not there is not recorded, and a file that is no
//! object is left alone. What matters is to overlook none.

use crate::response::words;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How deep response files may lie in each other.
const NESTING: usize = 16;

/// The largest response file, in bytes.
const RESPONSE_LIMIT: usize = 64 << 20;

/// Options that print something, or stop before there is machine code.
const NO_OBJECT: &[&str] = &[
    "-S",
    "--assemble",
    "-E",
    "--preprocess",
    "-M",
    "--dependencies",
    "-MM",
    "--user-dependencies",
    "-fsyntax-only",
    "--analyze",
    "--precompile",
    "-emit-ast",
    "-###",
    "--version",
    "--help",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpmachine",
    "-dumpspecs",
];

/// Options whose argument is the next word. It is no source, whatever it looks like.
const WITH_ARGUMENT: &[&str] = &[
    "-A",
    "-B",
    "-D",
    "-F",
    "-I",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-Xanalyzer",
    "-Xassembler",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xlinker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-arch",
    "-aux-info",
    "-cxx-isystem",
    "-dependency-dot",
    "-dependency-file",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-e",
    "-framework",
    "-gcc-toolchain",
    "-idirafter",
    "-iframework",
    "-imacros",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-mllvm",
    "-module-dependency-dir",
    "-mthread-model",
    "-serialize-diagnostics",
    "-target",
    "-u",
    "-wrapper",
    "-z",
    "--assert",
    "--config",
    "--define-macro",
    "--entry",
    "--force-link",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--library-directory",
    "--param",
    "--prefix",
    "--serialize-diagnostics",
    "--specs",
    "--sysroot",
    "--undefine-macro",
];

/// Ends of the names of files that become an object. Headers are none of them.
const SOURCES: &[&str] = &[
    "c", "i", "ii", "m", "mi", "mm", "M", "mii", "cc", "cp", "cxx", "cpp", "CPP", "c++", "C",
    "cppm", "ixx", "s", "S", "sx", "f", "for", "ftn", "F", "FOR", "fpp", "FPP", "FTN", "f90",
    "f95", "f03", "f08", "F90", "F95", "F03", "F08", "go", "d", "ads", "adb", "mod", "rs", "cu",
    "cl", "hip", "ll", "bc",
];

/// The objects that `command`, a compiler with its arguments and perhaps launchers before it,
/// writes; as it names them, relative to the current directory.
///
/// `read` reads a response file, and returns `None` where there is none.
pub fn objects(command: &[OsString], read: impl Fn(&Path) -> Option<Vec<u8>>) -> Vec<PathBuf> {
    let is_option = |word: &&OsString| !word.as_bytes().starts_with(b"-");
    let rustc = command.iter().take_while(is_option).position(|word| is_rustc(word));
    let found = if let Some(rustc) = rustc {
        let lines = |text: &[u8]| {
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| OsString::from_vec(line.to_vec())).collect()
        };
        let arguments = expand(command.get(rustc + 1..).unwrap_or_default(), &read, &lines, 0);
        Rustc::parse(&arguments).objects()
    } else {
        Driver::parse(&expand(command.get(1..).unwrap_or_default(), &read, &words, 0)).objects()
    };
    found.into_iter().filter(|path| path.as_os_str() != "-").collect()
}

fn is_rustc(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or(word).as_bytes();
    name == b"rustc" || name == b"clippy-driver"
}

/// `arguments` with `@file` replaced by what `split` makes of that file. One that cannot be read
/// stands for itself.
fn expand(
    arguments: &[OsString],
    read: &impl Fn(&Path) -> Option<Vec<u8>>,
    split: &impl Fn(&[u8]) -> Vec<OsString>,
    depth: usize,
) -> Vec<OsString> {
    let mut expanded = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let file = argument.as_bytes().strip_prefix(b"@").filter(|_| depth < NESTING);
        let text = file.and_then(|file| read(Path::new(OsStr::from_bytes(file))));
        match text.filter(|text| text.len() <= RESPONSE_LIMIT) {
            Some(text) => expanded.extend(expand(&split(&text), read, split, depth + 1)),
            None => expanded.push(argument.clone()),
        }
    }
    expanded
}

/// The command line of a driver in the manner of gcc.
#[derive(Default)]
struct Driver {
    compiles: bool,
    stops_early: bool,
    output: Option<PathBuf>,
    sources: Vec<PathBuf>,
    /// By `-x`; `None` is by the file's name.
    language: Option<Vec<u8>>,
}

impl Driver {
    fn parse(arguments: &[OsString]) -> Self {
        let mut driver = Self::default();
        let mut words = arguments.iter().map(|word| word.as_bytes());
        while let Some(word) = words.next() {
            match word {
                b"--" => words.by_ref().for_each(|file| driver.input(file)),
                b"-c" | b"--compile" => driver.compiles = true,
                b"-o" | b"--output" => driver.output = words.next().map(path),
                b"-x" | b"--language" => driver.speak(words.next().unwrap_or_default()),
                _ if is_in(NO_OBJECT, word) || word.starts_with(b"-print-") => {
                    driver.stops_early = true;
                }
                _ if is_in(WITH_ARGUMENT, word) => drop(words.next()),
                _ => driver.joined(word),
            }
        }
        driver
    }

    /// A word that is whole: a file, or an option with its argument in it.
    fn joined(&mut self, word: &[u8]) {
        if let Some(file) = word.strip_prefix(b"--output=").or(word.strip_prefix(b"-o")) {
            self.output = Some(path(file));
        } else if let Some(name) = word.strip_prefix(b"--language=").or(word.strip_prefix(b"-x")) {
            self.speak(name);
        } else if !word.starts_with(b"-") || word == b"-" {
            self.input(word);
        }
    }

    fn speak(&mut self, language: &[u8]) {
        self.language = (language != b"none").then(|| language.to_vec());
    }

    fn input(&mut self, word: &[u8]) {
        let file = path(word);
        let is_source = match &self.language {
            Some(language) => !language.ends_with(b"-header"),
            None => file.extension().is_some_and(|end| is_in(SOURCES, end.as_bytes())),
        };
        if is_source {
            self.sources.push(file);
        }
    }

    fn objects(self) -> Vec<PathBuf> {
        if !self.compiles || self.stops_early {
            return Vec::new();
        }
        if let Some(output) = self.output {
            return vec![output];
        }
        let names = self.sources.iter().filter_map(|source| source.file_stem());
        names.map(|name| path(&[name.as_bytes(), b".o"].concat())).collect()
    }
}

/// The command line of rustc.
#[derive(Default)]
struct Rustc {
    /// Each kind of output, with its file where one is given.
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
            let mut value = |name: &str| {
                let rest = word.strip_prefix(name.as_bytes())?;
                match rest.strip_prefix(b"=") {
                    Some(value) => Some(value),
                    None if rest.is_empty() => words.next(),
                    // One dash, one letter: the argument may follow at once.
                    None => (name.len() == 2).then_some(rest),
                }
            };
            if let Some(kinds) = value("--emit") {
                rustc.emit(kinds);
            } else if let Some(file) = value("-o") {
                rustc.output = Some(path(file));
            } else if let Some(folder) = value("--out-dir") {
                rustc.folder = path(folder);
            } else if let Some(name) = value("--crate-name") {
                crate_name = Some(name.to_vec());
            } else if let Some(option) = value("-C").or_else(|| value("--codegen")) {
                if let Some(suffix) = option.strip_prefix(b"extra-filename=") {
                    rustc.suffix = suffix.to_vec();
                }
            } else if let Some(stem) = word.strip_suffix(b".rs").filter(|_| rustc.name.is_empty()) {
                let name = Path::new(OsStr::from_bytes(stem)).file_name().unwrap_or_default();
                let letter = |byte: &u8| if *byte == b'-' { b'_' } else { *byte };
                rustc.name = name.as_bytes().iter().map(letter).collect();
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

fn is_in(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|entry| entry.as_bytes() == word)
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
        ("gcc @r", &["a b.o"]),
        ("gcc -c @missing a.c", &["a.o"]),
        ("rustc @lines", &["a b.o"]),
        ("gcc @loop -c a.c", &["a.o"]),
    ];

    fn file(path: &Path) -> Option<Vec<u8>> {
        match path.to_str()? {
            "r" => Some(b"-c 'a\tc.c' @s\n".to_vec()),
            "s" => Some(b"-o \"a \"b\\.o".to_vec()),
            "lines" => Some(b"--emit=obj\n-o\na b.o\n".to_vec()),
            "loop" => Some(b"@loop".to_vec()),
            _ => None,
        }
    }

    #[test]
    fn objects_of_command_lines() {
        for (line, expected) in CASES {
            let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(objects(&command, file), expected, "{line}");
        }
    }

    #[test]
    fn words_of_response_files() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \n\t", &[]),
            ("a  b\nc", &["a", "b", "c"]),
            ("'a b' \"c ' d\" e\\ f", &["a b", "c ' d", "e f"]),
            ("a'b'\"c\" '' \\\\", &["abc", "", "\\"]),
            ("'open \\", &["open "]),
            ("\"a\\\"b\"", &["a\"b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text.as_bytes()), *expected, "{text:?}");
        }
    }
}
