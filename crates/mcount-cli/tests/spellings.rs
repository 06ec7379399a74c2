//! The tables of `arguments.rs` against the programs themselves: which options take the next word for
//! their value.
//!
//! The options are those that the programs list in their help, and the judge is the program. A linker is
//! given the option, then `--version`: if it prints its version, that was no value. A compiler is given
//! the option, then two sources: if it compiles only the second, the first was a value.
//!
//! One table serves all linkers, and one all compilers. It has what any of them takes.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_cli::arguments::{Argument, Dialect, Meaning, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Whether `option` takes the next word, in our tables.
fn takes_next(option: &str, dialect: Dialect) -> bool {
    let arguments = parse(&[option, "next"].map(OsString::from), dialect);
    let is_file = |argument: &Argument| argument.meaning == Meaning::Input("next".into(), None);
    !arguments.iter().any(|argument| is_file(argument) && !argument.is_passed_on)
}

fn help(room: &Room, program: &str, words: &[&str]) -> String {
    room.run(Path::new(program), words).unwrap().stdout
}

/// The options at the beginning of each line of a help text: all of `-e ADDRESS, --entry ADDRESS`.
fn options(help: &str) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for line in help.lines().map(str::trim_start) {
        for part in line.split(", ").take_while(|part| part.starts_with('-')) {
            let end = part.find([' ', '=', '[', '<', ',']).unwrap_or(part.len());
            options.insert(part[..end].to_owned());
        }
    }
    options.remove("--");
    options
}

/// Options of linkers that end them.
const LINKER_ENDS: &[&str] = &[
    "--help",
    "-v",
    "-V",
    "--version",
    "--run",
    "--print-sysroot",
    "--print-output-format",
    "--target-help",
];

/// Options that need another one before them, which a linker says before it prints its version.
const LINKER_PAIRS: &[&str] = &["-)", "--end-group", "--end-lib", "--pop-state"];

/// Options that take a value in one linker and none in another. No table is right for all; what is
/// lost is a word that is taken for a file, and is none.
const LINKER_DISPUTED: &[&str] =
    &["--threads", "--shuffle-sections", "--unique", "--package-metadata"];

/// `None` where the linker does not know the option.
fn linker_takes_next(room: &Room, linker: &str, option: &str) -> Option<bool> {
    let words = ["-e", "start", "start.o", "-o", "made", option, "--version"];
    let outcome = room.run(Path::new(linker), &words).unwrap();
    let is_version = ["GNU ld", "GNU gold", "LLD", "mold "];
    if is_version.iter().any(|start| outcome.stdout.contains(start)) {
        return Some(false);
    }
    let is_unknown = [
        "unknown argument",
        "unknown command line option",
        "unrecognized option",
        "unknown option",
    ];
    (!is_unknown.iter().any(|message| outcome.stderr.contains(message))).then_some(true)
}

#[test]
fn options_of_linkers() {
    let linkers = ["ld.bfd", "ld.gold", "ld.lld", "ld.mold"];
    need(linkers.into_iter().chain(["as"]));
    let room = Room::new().unwrap();
    room.put("start.s", b".globl start\nstart: nop\n").unwrap();
    room.run(Path::new("as"), &["start.s", "-o", "start.o"]).unwrap();
    let mut found: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for linker in linkers {
        let options = options(&help(&room, linker, &["--help"]));
        assert!(options.len() > 90, "{linker}: {options:?}");
        for option in options {
            if let Some(takes) = linker_takes_next(&room, linker, &option) {
                found.entry(option).or_default().insert(takes);
            }
        }
    }
    let skipped = [LINKER_ENDS, LINKER_PAIRS, LINKER_DISPUTED].concat();
    found.retain(|option, _| !skipped.contains(&option.as_str()));
    let wrong: Vec<_> = found
        .iter()
        .filter(|(option, takes)| {
            let dialects = [Dialect::Linker, Dialect::Gold];
            let is_ours = dialects.iter().any(|dialect| takes_next(option, *dialect));
            is_ours != takes.contains(&true)
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// How a compiler shows, under `-###`, which source it compiles.
const GCC: &str = "-dumpbase ";
const CLANG: &str = "\"-main-file-name\" ";

/// `None` where the compiler does not know the option.
fn compiler_takes_next(room: &Room, compiler: &str, option: &str) -> Option<bool> {
    room.put("one.c", b"int one;\n").unwrap();
    room.put("two.c", b"int two;\n").unwrap();
    let words = ["-###", "-c", option, "one.c", "two.c"];
    let shown = room.run(Path::new(compiler), &words).unwrap().stderr;
    let mark = if compiler == "gcc" { GCC } else { CLANG };
    let is_compiled = |name: &str| {
        shown.contains(&format!("{mark}{name}")) || shown.contains(&format!("{mark}\"{name}"))
    };
    match (is_compiled("one.c"), is_compiled("two.c")) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

/// The options of a compiler that may take a value in the next word.
fn compiler_options(room: &Room, compiler: &str) -> BTreeSet<String> {
    if compiler == "gcc" {
        return options(&help(room, compiler, &["--help=separate"]));
    }
    let help = help(room, compiler, &["--help-hidden"]);
    let separate = help.lines().filter(|line| {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        matches!(words[..], [option, value] if !option.contains('=') && value.starts_with('<'))
    });
    options(&separate.collect::<Vec<_>>().join("\n"))
}

#[test]
fn options_of_compilers() {
    need(["gcc", "clang"]);
    let room = Room::new().unwrap();
    let mut found: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for compiler in ["gcc", "clang"] {
        let options = compiler_options(&room, compiler);
        assert!(options.len() > 40, "{compiler}: {options:?}");
        for option in options {
            if let Some(takes) = compiler_takes_next(&room, compiler, &option) {
                found.entry(option).or_default().insert(takes);
            }
        }
    }
    // gcc compiles the second source, and shows the value for its name.
    let named = ["-dumpbase", "--dumpbase", "-o", "--output"];
    found.retain(|option, _| !named.contains(&option.as_str()));
    let wrong: Vec<_> = found
        .iter()
        .filter(|(option, takes)| takes_next(option, Dialect::Compiler) != takes.contains(&true))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
