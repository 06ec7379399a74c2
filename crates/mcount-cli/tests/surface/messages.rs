//! What commands say: plain words, one line for each thing that is wrong, and numbers that agree with their
//! nouns.

use crate::{MCOUNT, RECORDMCOUNT, commands, mcount, options, room, tool};
use std::fs;
use std::path::Path;
use testkit::room::Room;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

/// Whether a message speaks to the one who reads it, and not of what a program is made of.
fn is_plain(said: &str) -> bool {
    let of_programs = [
        "Error",
        "Some(",
        "None",
        "Kind",
        "{",
        "}",
        "::",
        "os error",
        "unwrap",
        "panicked",
        "digit found",
        "operation on",
        "`Err`",
    ];
    of_programs.iter().all(|part| !said.contains(part))
}

#[test]
fn every_number_is_refused_in_plain_words() {
    let room = Room::new().unwrap();
    let mut refused = 0;
    for command in commands(&room) {
        for (name, _) in options(&room, &command).iter().filter(|(_, takes_value)| *takes_value) {
            for value in ["x", "", "-1", "+1", "99999999999999999999999", "1.5"] {
                let value = format!("{name}={value}");
                let said = mcount(&room, &[&command, &value]).stderr;
                let first = said.lines().next().unwrap_or_default();
                assert!(is_plain(first), "{command} {value}: {said}");
                refused += usize::from(first.contains("number"));
            }
        }
    }
    assert!(refused > 30, "only {refused} were refused");
}

/// Files that are no object, each command, and one line for each.
#[test]
fn what_is_wrong_with_a_file_is_one_plain_line() {
    let room = room();
    let object = room.get("done.o").unwrap();
    fs::create_dir(room.path("folder")).unwrap();
    room.put("empty", b"").unwrap();
    room.put("text", b"int main;\n").unwrap();
    room.put("half", object.split_at(object.len() / 2).0).unwrap();
    room.put("head", object.split_at(40).0).unwrap();
    room.put("short.a", b"!<arch>\nshort").unwrap();
    room.put("zip.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    let bad = ["empty", "text", "half", "head", "short.a", "zip.gz", "missing", "missing/x"];
    for file in bad {
        for command in ["scan", "list", "check", "record", "nop", "sort", "table", "why", "report"]
        {
            let rest: &[&str] = match command {
                "why" => &["f"],
                "report" => &["-o", "page"],
                _ => &[],
            };
            let outcome = mcount(&room, &[&[command, file], rest].concat());
            let said = outcome.stderr;
            assert_eq!(outcome.code, Some(2), "{command} {file}: {said}");
            assert_eq!(said.lines().count(), 1, "{command} {file}: {said}");
            assert!(said.starts_with(&format!("mcount: {file}")), "{command} {file}: {said}");
            assert!(is_plain(&said), "{command} {file}: {said}");
        }
        for command in [["trace", file], ["replay", file]] {
            let said = mcount(&room, &command).stderr;
            assert!(said.starts_with("mcount: ") && is_plain(&said), "{command:?}: {said}");
        }
        let outcome = mcount(&room, &["diff", file, file]);
        assert_eq!(outcome.stderr.lines().count(), 1, "diff {file} twice: {outcome:?}");
        let outcome = room.run(Path::new(RECORDMCOUNT), &[file]).unwrap();
        let said = &outcome.stderr;
        assert_eq!((outcome.code, said.lines().count()), (Some(1), 1), "{file}: {said}");
        assert!(said.starts_with(&format!("{file}: failed: ")) && is_plain(said), "{said}");
    }
    for words in [&["sort", "folder"][..], &["table", "folder"], &["why", "folder", "f"]] {
        let outcome = mcount(&room, words);
        assert_eq!(outcome.stderr, "mcount: folder: is a folder\n", "{words:?}");
    }
    let outcome = room.run(Path::new(RECORDMCOUNT), &["folder"]).unwrap();
    assert_eq!(outcome.stderr, "folder: failed: is a folder\n");
}

/// The name of a file neither ends a line nor speaks to the terminal.
#[test]
fn the_drop_in_escapes_names() {
    let room = Room::new().unwrap();
    let (bad, good) = ("b\n\x1b[31m.o", "g\r.o");
    room.put(bad, b"text").unwrap();
    room.put_prebuilt(good, "x86_64-fentry-table").unwrap();
    let said = room.run(Path::new(RECORDMCOUNT), &[bad, good]).unwrap().stderr;
    let expected = "b\\n\\u{1b}[31m.o: failed: not an ELF file\n\
                    warning: __mcount_loc already exists: g\\r.o\n";
    assert_eq!(said, expected);
    let said = room.run(Path::new(RECORDMCOUNT), &["--a\nb"]).unwrap().stderr;
    assert_eq!(said.lines().count(), 2, "{said:?}");
}
/// Commands whose messages count something: their arguments, and what one of them says when there is one.
const COUNTERS: &[(&[&str], &str)] = &[
    (&["scan", "one.o"], ", 1 site\n"),
    (&["scan", "--count", "one.o"], "1  one.o\n"),
    (&["scan", "--count", "--by", "section", "a.o", "one.o"], "3  .text\n"),
    (&["list", "recorded.o"], ", 1 entry\n"),
    (&["check", "--policy", "all", "one.o"], "1 hook and no table"),
    (&["check", "--policy", "all", "one.o"], "1 file checked, 1 error, 0 warnings"),
    (&["check", "recorded.o"], "1 file checked, nothing found"),
    (&["check", "area.o"], "3 bytes of NOPs"),
    (&["check", "tiny.o"], "1 byte of NOPs"),
    (&["check", "moved.o"], "1 byte before"),
    (&["check", "--coverage", "one.o", "none.o"], "0 of 1 function has no hook"),
    (&["check", "--coverage", "none.o"], "1 of 1 function has no hook\n  1 in a file"),
    (&["check", "--coverage", "linked"], "1 of 2 functions has no hook\n  1 for reasons"),
    (&["check", "--coverage", "cold.o"], "1 cold part of a function, "),
    (&["check", "--coverage", "text", "a.o"], "1 error"),
    (&["diff", "one.o", "recorded.o"], "1 recorded\n"),
    (&["diff", "old", "new"], "1 file in one folder only\n"),
    (&["why", "linked", "f"], "recorded"),
    (&["table", "linked"], ", 1 site\n"),
    (&["record", "-v", "--policy", "all", "-o", "new.o", "one.o"], "recorded, 1 entry\n"),
    (&["record", "-v", "-o", "new.o", "init.o"], "1 NOP made, 0 calls left alone\n"),
    (&["nop", "-v", "-o", "new.o", "recorded.o"], "1 NOP made, 0 calls not in the table\n"),
    (&["nop", "-v", "-o", "new.o", "one.o"], "0 NOPs made, 1 call not in the table\n"),
    (&["nop", "-o", "new.o", "moved.o"], "1 entry of the table leads to no call"),
    (&["sort", "-v", "linked"], "unchanged, 1 entry, 0 stale\n"),
    (&["link", "-v", "--", "ld", "-e", "f", "-o", "out", "one.o", "hook.o"], "link 1: 1 site, "),
    (&["link", "--max-passes", "1", "--", "ld", "-r", "one.o"], ""),
    (&["cc", "--", "gcc", "-O2", "-pg", "-mfentry", "-c", "-o", "new.o", "one.c"], ""),
    (&["report", "-o", "-", "linked"], "1 entry in the table"),
    (&["report", "-o", "-", "linked"], "1 of 2 functions has a hook, 50 %"),
    (&["report", "-o", "-", "--policy", "all", "one.o"], "<small>1 error</small>"),
];

/// Commands that count nothing, or always the same; and those with tests of their own.
const NO_COUNTERS: &[&str] = &[
    "completions",
    "man",
    "demo",
    "trace",
    "attach",
    "patch",
    "top",
    "sample",
    "replay",
    "stats",
    "graph",
    "tui",
    "compress",
    "query",
];

/// Adds files to the room in which there is one of each thing.
fn one_of_each(room: &Room) {
    let source = b"int f(int x) { return x + 1; }\n";
    room.put("one.c", source).unwrap();
    room.put("none.c", b"int g(int x) { return x; }\n").unwrap();
    room.put("init.c", &[b"__attribute__((section(\".skip\"))) ", &source[..]].concat()).unwrap();
    let cold = "void f(void) { asm volatile(\".pushsection .text.unlikely\\n.type f.cold,@function\\n\
                f.cold: ret\\n.size f.cold,1\\n.popsection\"); }\n";
    room.put("cold.c", cold.as_bytes()).unwrap();
    for name in ["one", "init", "cold"] {
        let source = format!("{name}.c");
        tool(room, "gcc", &["-O2", "-g", "-pg", "-mfentry", "-fno-pie", "-c", &source]);
    }
    tool(room, "gcc", &["-O2", "-c", "none.c"]);
    for (count, name) in [("3", "area.o"), ("1", "tiny.o")] {
        let entry = format!("-fpatchable-function-entry={count}");
        tool(room, "gcc", &["-O2", &entry, "-c", "-o", name, "one.c"]);
    }
    tool(room, MCOUNT, &["record", "--policy", "all", "-o", "recorded.o", "one.o"]);
    let link = ["-nostdlib", "-static", "-Wl,-e,f", "-o", "linked", "recorded.o", "hook.o"];
    tool(room, "gcc", &link);
    // The table of one entry, and the entry leads to the byte behind the hook.
    tool(room, "gcc", &["-O2", "-pg", "-mfentry", "-fno-pie", "-S", "one.c"]);
    let code = String::from_utf8(room.get("one.s").unwrap()).unwrap();
    let table = "\t.section __mcount_loc,\"a\"\n\t.quad f + 1\n\t.text\n";
    room.put("moved.s", format!("{code}{table}").as_bytes()).unwrap();
    tool(room, "gcc", &["-c", "moved.s"]);
    for (folder, files) in [("old", &["one.o"][..]), ("new", &["one.o", "none.o"])] {
        fs::create_dir(room.path(folder)).unwrap();
        for file in files {
            room.put(&format!("{folder}/{file}"), &room.get(file).unwrap()).unwrap();
        }
    }
}

/// `nop` warns of an entry that leads to no hook, and does the rest; an object and an image are the same to it.
#[test]
fn an_entry_that_leads_to_no_hook_is_a_warning() {
    let room = room();
    one_of_each(&room);
    // One entry that is right, and one that leads to the byte behind its hook.
    tool(&room, "ld", &["-r", "-o", "both.o", "moved.o", "done.o", "-z", "muldefs"]);
    tool(&room, "ld", &["-e", "f", "-z", "muldefs", "-o", "both", "both.o", "hook.o"]);
    for file in ["both.o", "both"] {
        let outcome = mcount(&room, &["nop", "-v", file]);
        let warning = format!(
            "mcount: warning: {file}: 1 entry of the table leads to no call or NOP that is known\n"
        );
        assert_eq!((outcome.code, &outcome.stderr), (Some(0), &warning), "{file}");
        assert_eq!(outcome.stdout, format!("{file}: 2 NOPs made, 1 call not in the table\n"));
    }
}

/// A file with a recorded call that has no NOP stays as it is.
#[test]
fn a_call_without_a_nop_is_an_error() {
    let room = Room::new().unwrap();
    // C-SKY's `jsri` without the `push` before it.
    let mut object = Object::new(252, false, false, true);
    let call = Relocation { offset: 0, symbol: 2, kind: 40, addend: 0 };
    let code = Section::code(".text", &[0xe0, 0xea, 0, 0]);
    object.sections.push(Section { relocations: vec![call], ..code });
    object.symbols.push(Symbol::function("f", 1, 1, 0, 4));
    object.symbols.push(Symbol::undefined("_mcount"));
    room.put("csky.o", &object.build()).unwrap();
    tool(&room, MCOUNT, &["record", "csky.o"]);
    let before = room.get("csky.o").unwrap();
    let outcome = mcount(&room, &["nop", "csky.o"]);
    let said = "mcount: csky.o: 1 call has no NOP, the first in f (--keep leaves functions out); the file is \
                unchanged\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said));
    assert!(room.get("csky.o").unwrap() == before);
    let outcome = mcount(&room, &["nop", "--keep", "f", "csky.o"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

/// The first number in `said` whose noun doesn't go with it.
fn miscounted(said: &str) -> Option<String> {
    let singular = ["site", "entry", "hook", "call", "NOP", "file", "function", "byte", "error"];
    let singular = [&singular[..], &["warning", "link", "relocation", "area", "other"]].concat();
    let many = |noun: &str| match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    let words = said.split_ascii_whitespace();
    let mut pairs = words.clone().zip(words.skip(1));
    let wrong = pairs.find(|(number, noun)| {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let noun = noun.trim_end_matches(|c: char| !c.is_alphabetic());
        let is_wrong = |one: &&str| noun == if *number == "1" { many(one) } else { (*one).into() };
        is_number && singular.iter().any(is_wrong)
    });
    wrong.map(|(number, noun)| format!("{number} {noun}"))
}

#[test]
fn one_thing_is_counted_as_one() {
    let room = room();
    one_of_each(&room);
    for command in commands(&room) {
        let is_here = COUNTERS.iter().any(|(arguments, _)| arguments[0] == command);
        assert!(is_here || NO_COUNTERS.contains(&command.as_str()), "{command} is not tested");
    }
    for (arguments, expected) in COUNTERS {
        let outcome = mcount(&room, arguments);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(miscounted(&said), None, "{arguments:?}: {said}");
    }
}
