//! Reads the command line of a compiler or a linker into arguments with a meaning.
//!
//! For example, `gcc -xc -Wl,-o,program m.txt -T script.ld` has four arguments: a language, an output, a
//! file and a linker script. `cc` and `link` only ask about these, so only this file knows how options
//! are spelled.
//!
//! Sources: the manuals of gcc ("Invoking GCC") and clang ("Clang command line argument
//! reference"), GNU ld ("Command-line Options"), and what `--help` of gold, lld and mold prints.
//! `tests/spellings.rs` compares the tables below with what these programs do.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// The program that the command line is for. The same option means different things to different
/// programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// gcc, clang, and programs with such names.
    Compiler,
    /// GNU ld, lld, mold.
    Linker,
    /// gold, which reads `-output` as `--output`. The others read it as `-o utput`.
    Gold,
}

/// The meaning of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// A file to compile or link, and the language that `-x` gave it.
    Input(OsString, Option<OsString>),
    /// The name of the output.
    Output(OsString),
    /// Makes objects, and doesn't link them (`-c`).
    Compile,
    /// Makes neither an object nor an image, but prints something or stops earlier (`-S`, `-E`).
    Nothing,
    /// Links objects into one object (`-r`).
    Relocatable,
    /// The language of the files that follow; `None` if their names tell it.
    Language(Option<OsString>),
    /// A linker script that replaces the linker's own.
    Script,
    /// The ELF header isn't loaded, so nothing can refer to it (`-N`).
    NoHeaders,
    /// Makes something other than ELF (`--oformat binary`).
    OtherFormat,
    /// A folder in which the compiler looks for its programs first (`-B`).
    ProgramFolder,
    /// The linker for the compiler to run (`-fuse-ld=`): a path, or `lld` for `ld.lld`.
    UseLinker(OsString),
    /// The path of the linker (`--ld-path=`).
    LinkerPath(OsString),
    /// The file that lists the linker's inputs for make (`--dependency-file`).
    DependencyFile(OsString),
    /// Any other option, with its value if it has one.
    Option(Option<OsString>),
}

/// One argument of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The indices of its words.
    pub words: Range<usize>,
    /// Its meaning.
    pub meaning: Meaning,
    /// Whether a compiler passes it on to the linker (`-Wl,` or `-Xlinker`).
    pub is_passed_on: bool,
}

/// The arguments in `words`, which are those after the name of the program.
#[must_use]
pub fn parse(words: &[OsString], dialect: Dialect) -> Vec<Argument> {
    let pieces = words.iter().enumerate().map(|(index, word)| (index, word.as_bytes()));
    match dialect {
        Dialect::Compiler => parse_compiler(&pieces.collect::<Vec<_>>()),
        Dialect::Linker | Dialect::Gold => parse_linker(&pieces.collect::<Vec<_>>(), dialect),
    }
}

/// A piece of text, and the index of the word that it is in. `-Wl,-o,program` has two.
type Piece<'a> = (usize, &'a [u8]);

/// The arguments of a compiler. It passes words on to its linker one by one, so an option of the linker
/// may come in pieces: `-Wl,-o -Wl,program`. Those are read together, after the rest.
fn parse_compiler(pieces: &[Piece<'_>]) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut passed_on: Vec<Piece<'_>> = Vec::new();
    let mut language: Option<OsString> = None;
    let mut rest = pieces.iter().copied();
    while let Some((start, word)) = rest.next() {
        if word == b"--" {
            arguments.extend(rest.by_ref().map(|(index, file)| Argument {
                words: index..index + 1,
                meaning: Meaning::Input(string(file), language.clone()),
                is_passed_on: false,
            }));
            continue;
        }
        let split = Split::of_compiler(word);
        let (end, value) = match split.value {
            Value::Next => rest.next().map_or((start, None), |(end, value)| (end, Some(value))),
            Value::Joined(value) => (start, Some(value)),
            Value::None => (start, None),
        };
        match (split.name, value) {
            (b"-Wl", Some(list)) => {
                passed_on.extend(list.split(|byte| *byte == b',').map(|piece| (end, piece)));
                continue;
            }
            (b"-Xlinker" | b"--for-linker", Some(piece)) => {
                passed_on.push((end, piece));
                continue;
            }
            _ => {}
        }
        let meaning = compiler_meaning(split.name, value, language.as_ref());
        if let Meaning::Language(new) = &meaning {
            language.clone_from(new);
        }
        arguments.push(Argument { words: start..end + 1, meaning, is_passed_on: false });
    }
    let passed_on = parse_linker(&passed_on, Dialect::Linker).into_iter();
    arguments.extend(passed_on.map(|argument| Argument { is_passed_on: true, ..argument }));
    arguments
}

/// The meaning of the option `name` of a compiler, or of a file of that name.
fn compiler_meaning(name: &[u8], value: Option<&[u8]>, language: Option<&OsString>) -> Meaning {
    let kept = value.map(string);
    match name {
        b"-o" | b"--output" => Meaning::Output(kept.unwrap_or_default()),
        b"-x" | b"--language" => Meaning::Language(kept.filter(|language| language != "none")),
        b"-c" | b"--compile" => Meaning::Compile,
        b"-r" => Meaning::Relocatable,
        b"-T" => script_meaning(value),
        b"-n" | b"-N" => Meaning::NoHeaders,
        b"-B" | b"--prefix" => Meaning::ProgramFolder,
        b"-fuse-ld" => Meaning::UseLinker(kept.unwrap_or_default()),
        b"--ld-path" => Meaning::LinkerPath(kept.unwrap_or_default()),
        _ if is_in(NOTHING, name) || has_start(NOTHING_STARTS, name) => Meaning::Nothing,
        _ if name.starts_with(b"-") && name != b"-" => Meaning::Option(kept),
        _ => Meaning::Input(string(name), language.cloned()),
    }
}

/// The arguments of a linker.
fn parse_linker(pieces: &[Piece<'_>], dialect: Dialect) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut rest = pieces.iter().copied();
    while let Some((start, word)) = rest.next() {
        let split = Split::of_linker(word, dialect);
        let (end, value) = match split.value {
            Value::Next => rest.next().map_or((start, None), |(end, value)| (end, Some(value))),
            Value::Joined(value) => (start, Some(value)),
            Value::None => (start, None),
        };
        let meaning = linker_meaning(split.name, value);
        arguments.push(Argument { words: start..end + 1, meaning, is_passed_on: false });
    }
    arguments
}

/// The meaning of the option `name` of a linker, or of a file of that name.
fn linker_meaning(name: &[u8], value: Option<&[u8]>) -> Meaning {
    let kept = value.map(string);
    let Some(option) = name.strip_prefix(b"-").filter(|option| !option.is_empty()) else {
        return Meaning::Input(string(name), None);
    };
    match option.strip_prefix(b"-").unwrap_or(option) {
        b"o" | b"output" => Meaning::Output(kept.unwrap_or_default()),
        b"r" | b"i" | b"Ur" | b"relocatable" => Meaning::Relocatable,
        b"T" => script_meaning(value),
        b"c" | b"mri-script" | b"script" | b"dT" | b"default-script" => Meaning::Script,
        b"n" | b"N" | b"nmagic" | b"omagic" => Meaning::NoHeaders,
        b"oformat" if !value.is_some_and(|format| format.starts_with(b"elf")) => {
            Meaning::OtherFormat
        }
        b"version" | b"help" | b"print-output-format" | b"print-sysroot" => Meaning::Nothing,
        b"dependency-file" => Meaning::DependencyFile(kept.unwrap_or_default()),
        _ => Meaning::Option(kept),
    }
}

/// Whether this is `-T`. Options that set an address begin with it too.
fn script_meaning(value: Option<&[u8]>) -> Meaning {
    const ADDRESSES: &[&str] = &["text", "data", "bss", "rodata-segment", "ldata-segment"];
    match value {
        Some(value) if has_start(ADDRESSES, value) => Meaning::Option(Some(string(value))),
        _ => Meaning::Script,
    }
}

/// A word, split into the name of an option and its value. A file only has a name.
struct Split<'a> {
    name: &'a [u8],
    value: Value<'a>,
}

/// Where the value of an option is.
enum Value<'a> {
    /// It has none.
    None,
    /// In the same word.
    Joined(&'a [u8]),
    /// In the next word.
    Next,
}

impl<'a> Split<'a> {
    fn of_compiler(word: &'a [u8]) -> Self {
        if is_in(COMPILER_SEPARATE, word) || is_in(COMPILER_EITHER, word) {
            return Self { name: word, value: Value::Next };
        }
        if let Some(list) = word.strip_prefix(b"-Wl,") {
            return Self { name: b"-Wl", value: Value::Joined(list) };
        }
        let mut short = COMPILER_EITHER.iter().filter(|option| option.len() == 2);
        match short.find(|option| word.starts_with(option.as_bytes())) {
            Some(_) => {
                let (name, value) = word.split_at_checked(2).unwrap_or_default();
                Self { name, value: Value::Joined(value) }
            }
            None => Self::at_equals(word),
        }
    }

    /// In all programs, only long options have a value behind `=`.
    fn at_equals(word: &'a [u8]) -> Self {
        let at = word.iter().position(|byte| *byte == b'=').filter(|_| word.starts_with(b"-"));
        match at.and_then(|at| Some((word.get(..at)?, word.get(at + 1..)?))) {
            Some((name, value)) => Self { name, value: Value::Joined(value) },
            None => Self { name: word, value: Value::None },
        }
    }

    /// Linkers accept long options with one dash or two. If they begin with `o`, they need two.
    fn of_linker(word: &'a [u8], dialect: Dialect) -> Self {
        let Some(option) = word.strip_prefix(b"-").filter(|option| !option.is_empty()) else {
            return Self { name: word, value: Value::None };
        };
        let (long, dashes) = option.strip_prefix(b"-").map_or((option, 1), |long| (long, 2));
        let is_output = dashes == 1 && option.starts_with(b"o") && dialect != Dialect::Gold;
        if !is_output {
            let split = Self::at_equals(word);
            let stem = split.name.get(dashes..).unwrap_or_default();
            // GNU ld accepts abbreviated names.
            let is_cut = dashes == 2 && stem.starts_with(b"outp") && b"output".starts_with(stem);
            let name = if is_cut { &b"--output"[..] } else { split.name };
            // -Tname=1.ld is a script, but -Ttext=1 isn't.
            let is_script = dashes == 1 && stem.starts_with(b"T") && !is_in(LINKER_LONG, stem);
            match split.value {
                Value::Joined(_) if stem.len() > 1 && !is_script => return Self { name, ..split },
                _ if is_cut || is_in(LINKER_LONG, long) => {
                    return Self { name, value: Value::Next };
                }
                _ => {}
            }
        }
        match option {
            [letter] if LINKER_LETTERS.contains(letter) => Self { name: word, value: Value::Next },
            [letter, value @ ..] if dashes == 1 && is_joined(*letter, value) => {
                Self { name: word.get(..2).unwrap_or_default(), value: Value::Joined(value) }
            }
            _ => Self { name: word, value: Value::None },
        }
    }
}

/// Whether `value` is the value of the linker option `letter`, and not the rest of a longer name.
fn is_joined(letter: u8, value: &[u8]) -> bool {
    // No option that matters begins with another of these letters.
    matches!(letter, b'o' | b'T') && !value.is_empty()
}

fn is_in(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|entry| entry.as_bytes() == word)
}

fn has_start(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|entry| word.starts_with(entry.as_bytes()))
}

fn string(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// Options of compilers that make neither an object nor an image.
const NOTHING: &[&str] = &[
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
    "-ccc-print-bindings",
    "-ccc-print-phases",
    "--version",
    "-help",
    "--help",
    "--help-hidden",
    "--target-help",
    "--autocomplete",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpmachine",
    "-dumpspecs",
];

/// The beginnings of others.
const NOTHING_STARTS: &[&str] = &["-print-", "--print-"];

/// Options of compilers whose value is in the same word or is the next word.
const COMPILER_EITHER: &[&str] =
    &["-o", "--output", "-x", "--language", "-T", "-B", "--prefix", "--for-linker"];

/// Options of compilers whose value is the next word. Some may also have it in the same word, which
/// doesn't matter here.
const COMPILER_SEPARATE: &[&str] = &[
    "--analyzer-output",
    "--assert",
    "--config",
    "--define-macro",
    "--dump",
    "--dumpbase",
    "--dumpbase-ext",
    "--dumpdir",
    "--entry",
    "--force-link",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--library-directory",
    "--output-pch=",
    "--param",
    "--serialize-diagnostics",
    "--specs",
    "--sysroot",
    "--undefine-macro",
    "-A",
    "-D",
    "-F",
    "-G",
    "-Hd",
    "-Hf",
    "-I",
    "-J",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-R",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-U",
    "-V",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xassembler",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xf",
    "-Xlinker",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-Y",
    "-arch",
    "-arcmt-migrate-report-output",
    "-aux-info",
    "-b",
    "-ccc-arcmt-migrate",
    "-ccc-gcc-name",
    "-ccc-install-dir",
    "-ccc-objcmt-migrate",
    "-cxx-isystem",
    "-darwin-target-variant",
    "-darwin-target-variant-triple",
    "-dependency-dot",
    "-dependency-file",
    "-dsym-dir",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-e",
    "-fexperimental-openacc-macro-override",
    "-fintrinsic-modules-path",
    "-fmodules-user-build-path",
    "-framework",
    "-gcc-toolchain",
    "-gen-cdb-fragment-path",
    "-gnatO",
    "-h",
    "-hlsl-entry",
    "-iapinotes-modules",
    "-idirafter",
    "-iframework",
    "-iframeworkwithsysroot",
    "-imacros",
    "-imultiarch",
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
    "-m",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-resource-dir",
    "-serialize-diagnostics",
    "-specs",
    "-stdlib++-isystem",
    "-target",
    "-u",
    "-vfsoverlay",
    "-working-directory",
    "-wrapper",
    "-y",
    "-z",
];

/// Options of linkers with one letter whose value is the next word.
const LINKER_LETTERS: &[u8] = b"ACFILOPRTYabcefhlmouyz";

/// Other options of linkers whose value is the next word.
const LINKER_LONG: &[&str] = &[
    "Map",
    "Tbss",
    "Tdata",
    "Tldata-segment",
    "Trodata-segment",
    "Ttext",
    "Ttext-segment",
    "android-memtag-mode",
    "architecture",
    "assert",
    "audit",
    "auxiliary",
    "build-id-chunk-size-for-treehash",
    "build-id-min-file-size-for-treehash",
    "call-graph-ordering-file",
    "chroot",
    "compress-debug-sections",
    "compress-sections",
    "ctf-share-types",
    "dT",
    "debug",
    "default-script",
    "defsym",
    "depaudit",
    "dependency-file",
    "directory",
    "dynamic-linker",
    "dynamic-list",
    "entry",
    "error-handling-script",
    "error-limit",
    "exclude-libs",
    "export-dynamic-symbol",
    "export-dynamic-symbol-list",
    "filter",
    "fini",
    "flto-partition",
    "format",
    "fuse-ld",
    "gpsize",
    "hash-bucket-empty-fraction",
    "hash-size",
    "hash-style",
    "icf",
    "icf-iterations",
    "ignore-unresolved-symbol",
    "image-base",
    "in-implib",
    "incremental-base",
    "incremental-patch",
    "init",
    "just-symbols",
    "keep-unique",
    "library",
    "library-path",
    "load-pass-plugin",
    "lto-known-safe-vtables",
    "max-cache-size",
    "mllvm",
    "mri-script",
    "oformat",
    "opt-remarks-filename",
    "opt-remarks-format",
    "opt-remarks-hotness-threshold",
    "opt-remarks-passes",
    "optimize",
    "orphan-handling",
    "out-implib",
    "output",
    "pack-dyn-relocs",
    "plugin",
    "plugin-opt",
    "print-symbol-counts",
    "print-symbol-order",
    "remap-inputs",
    "reproduce",
    "require-defined",
    "retain-symbols-file",
    "rosegment-gap",
    "rpath",
    "rpath-link",
    "rsp-quoting",
    "script",
    "section-ordering-file",
    "section-start",
    "soname",
    "sort-section",
    "spare-dynamic-tags",
    "split-stack-adjust-size",
    "stub-group-size",
    "symbol-ordering-file",
    "sysroot",
    "target2",
    "task-link",
    "thinlto-cache-policy",
    "thread-count",
    "thread-count-final",
    "thread-count-initial",
    "thread-count-middle",
    "time-trace-granularity",
    "trace-symbol",
    "undefined",
    "undefined-glob",
    "unresolved-symbols",
    "version-exports-section",
    "version-script",
    "warn-backrefs-exclude",
    "wrap",
];
