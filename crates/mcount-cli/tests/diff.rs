//! `mcount diff`: every kind of change, on pairs of objects that are compiled here, in files and in
//! folders, and in every format.
#![expect(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// Runs a tool that must succeed.
fn tool(room: &Room, program: &str, arguments: &[&str]) {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {outcome:?}");
}

fn room() -> Room {
    need(["gcc", "ld", "xz"]);
    Room::new().unwrap()
}

/// Compiles `source` to the object `name`, and records it.
fn compile(room: &Room, name: &str, source: &str) {
    room.put("source.c", source.as_bytes()).unwrap();
    tool(room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-c", "-o", name, "source.c"]);
    tool(room, env!("CARGO_BIN_EXE_mcount"), &["record", name]);
}

const NOTRACE: &str = "__attribute__((no_instrument_function))";
const EXIT: &str = "__attribute__((section(\".exit.text\")))";

/// What is before and after, and the change; nothing for no difference.
type Row = (&'static str, &'static str, Option<(&'static str, &'static str)>);

const ROWS: &[Row] = &[
    ("int f(void) { return 1; }", "int f(void) { return 2; }", None),
    ("int f(void) { return 1; }", "NOTRACE int f(void) { return 1; }", Some(("lost", "f"))),
    ("NOTRACE int f(void) { return 1; }", "int f(void) { return 1; }", Some(("gained", "f"))),
    ("int f(void) { return 1; }", "EXIT int f(void) { return 1; }", Some(("excluded", "f"))),
    ("EXIT int f(void) { return 1; }", "int f(void) { return 1; }", Some(("included", "f"))),
    ("int g;", "int f(void) { return 1; }", Some(("added", "f"))),
    ("int f(void) { return 1; }", "int g;", Some(("removed", "f"))),
    // Without a site before and after, there is nothing to tell.
    ("int g;", "NOTRACE int f(void) { return 1; }", None),
    ("int g;", "EXIT int f(void) { return 1; }", None),
];

fn source(text: &str) -> String {
    text.replace("NOTRACE", NOTRACE).replace("EXIT", EXIT)
}

/// Change and function of each line of `mcount diff --format jsonl`.
fn changes(room: &Room, arguments: &[&str]) -> Vec<(String, String)> {
    let outcome = mcount(room, &[&["diff", "--format", "jsonl"], arguments].concat());
    assert_eq!(outcome.stderr, "", "{arguments:?}");
    let lines: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(outcome.code, Some(i32::from(!lines.is_empty())), "{arguments:?}: {lines:?}");
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    lines.iter().map(|line| (text(&line["change"]), text(&line["function"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(change, name)| ((*change).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn every_change() {
    let room = room();
    for (old, new, change) in ROWS {
        compile(&room, "old.o", &source(old));
        compile(&room, "new.o", &source(new));
        let expected = pairs(change.as_slice());
        assert_eq!(changes(&room, &["old.o", "new.o"]), expected, "{old} {new}");
    }
    compile(&room, "old.o", "int f(void) { return 1; } int g(void) { return 2; }");
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "--nop-all", "-o", "new.o", "old.o"]);
    assert_eq!(changes(&room, &["old.o", "new.o"]), pairs(&[("kind", "f"), ("kind", "g")]));
    tool(&room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-c", "-o", "new.o", "source.c"]);
    let expected = pairs(&[("unrecorded", "f"), ("unrecorded", "g")]);
    assert_eq!(changes(&room, &["old.o", "new.o"]), expected);
    let expected = pairs(&[("recorded", "f"), ("recorded", "g")]);
    assert_eq!(changes(&room, &["new.o", "old.o"]), expected);
    assert!(changes(&room, &["old.o", "old.o"]).is_empty());
}

/// What a compiler calls a clone changes from build to build, and says nothing.
#[test]
fn clones() {
    let room = room();
    let named =
        |name: &str| format!("int f(int) __asm__(\"{name}\"); int f(int x) {{ return x; }}");
    let suffixes = ["f.isra.0", "f.constprop.0", "f.part.3", "f.constprop.1.isra.0", "f.llvm.123"];
    compile(&room, "old.o", &named("f"));
    for name in suffixes {
        compile(&room, "new.o", &named(name));
        assert!(changes(&room, &["old.o", "new.o"]).is_empty(), "{name}");
        let exact = changes(&room, &["--exact", "old.o", "new.o"]);
        assert_eq!(exact, pairs(&[("removed", "f"), ("added", name)]));
    }
    // Two clones of one function are one function.
    let two = named("f.isra.0") + "int g(int) __asm__(\"f.part.0\"); int g(int x) { return x; }";
    compile(&room, "new.o", &two);
    assert!(changes(&room, &["old.o", "new.o"]).is_empty());
    compile(
        &room,
        "new.o",
        &format!(
            "{NOTRACE} {}",
            named("f.isra.0").replace("int f(int x)", &format!("{NOTRACE} int f(int x)"))
        ),
    );
    assert_eq!(changes(&room, &["old.o", "new.o"]), pairs(&[("lost", "f")]));
}

/// A file whose symbols don't tell source files, such as a kernel without symbols, against one with them.
#[test]
fn clones_where_only_one_side_tells_files() {
    let room = room();
    let call = "call __fentry__; ret";
    let source = format!(
        ".file \"a.c\"\n.text\n.type f.part.0,@function\nf.part.0: {call}\n.size f.part.0,.-f.part.0\n\
         .globl f\n.type f,@function\nf: {call}\n.size f,.-f\n"
    );
    room.put("a.s", source.as_bytes()).unwrap();
    // In one of a single file, the global functions are of that file, too.
    room.put("b.s", b".file \"b.c\"\n.text\nnop\n").unwrap();
    tool(&room, "gcc", &["-c", "a.s", "b.s"]);
    tool(&room, "ld", &["-r", "-o", "old.o", "a.o", "b.o"]);
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "old.o"]);
    tool(&room, "objcopy", &["--wildcard", "--strip-symbol=*.c", "old.o", "new.o"]);
    for pair in [["old.o", "new.o"], ["new.o", "old.o"]] {
        assert!(changes(&room, &pair).is_empty(), "{pair:?}");
    }
    assert!(changes(&room, &["--exact", "old.o", "new.o"]).is_empty());
}

/// Static functions of several files in one object.
#[test]
fn static_functions_of_one_name() {
    let room = room();
    let file = |room: &Room, name: &str, notrace: &str| {
        let used = "__attribute__((used))";
        let text = format!("static {used} {notrace} int init(void) {{ return 1; }}\n");
        room.put(&format!("{name}.c"), text.as_bytes()).unwrap();
        let source = format!("{name}.c");
        tool(room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-c", &source]);
    };
    let link = |output: &str, files: &[&str]| {
        tool(&room, "ld", &[&["-r", "-o", output], files].concat());
        tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", output]);
    };
    for name in ["a", "b", "c"] {
        file(&room, name, "");
    }
    link("old.o", &["a.o", "b.o", "c.o"]);
    link("other.o", &["c.o", "a.o", "b.o"]);
    assert!(changes(&room, &["old.o", "other.o"]).is_empty());
    file(&room, "b", NOTRACE);
    link("new.o", &["a.o", "b.o", "c.o"]);
    let outcome = mcount(&room, &["diff", "old.o", "new.o"]);
    let expected = "  lost       init (b.c): recorded call -> no site\n1 lost\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), expected));
    link("new.o", &["a.o", "c.o"]);
    let outcome = mcount(&room, &["diff", "old.o", "new.o"]);
    assert_eq!(outcome.stdout, "  removed    init (b.c): recorded call -> -\n1 removed\n");
    // Where no symbol tells the files, they are counted.
    for name in ["old.o", "new.o"] {
        tool(&room, "objcopy", &["--wildcard", "--strip-symbol=*.c", name]);
    }
    assert_eq!(changes(&room, &["old.o", "new.o"]), pairs(&[("removed", "init")]));
}

#[test]
fn folders_and_formats() {
    let room = room();
    for folder in ["old/kernel/fs", "new/kernel/fs"] {
        std::fs::create_dir_all(room.path(folder)).unwrap();
    }
    compile(&room, "old/kernel/same.ko", "int f(void) { return 1; }");
    compile(&room, "new/kernel/same.ko", "int f(void) { return 1; }");
    compile(&room, "old/kernel/fs/a.ko", "int f(void) { return 1; }");
    compile(&room, "new/kernel/fs/a.ko", &source("NOTRACE int f(void) { return 1; }"));
    compile(&room, "old/kernel/gone.ko", "int f(void) { return 1; }");
    compile(&room, "new/kernel/come.ko", "int f(void) { return 1; }");
    tool(&room, "xz", &["new/kernel/fs/a.ko", "old/kernel/same.ko"]);
    let text = mcount(&room, &["diff", "old", "new"]);
    let expected = "\
kernel/come.ko: only in the new folder
kernel/fs/a.ko
  lost       f (source.c): recorded call -> no site
kernel/gone.ko: only in the old folder
2 files in one folder only, 1 lost
";
    assert_eq!((text.code, text.stdout.as_str()), (Some(1), expected));
    let lines = mcount(&room, &["diff", "--format", "jsonl", "old", "new"]).stdout;
    let line: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let side = |state: &str, kind: Value| json!({ "state": state, "kind": kind, "symbol": "f", "section": ".text" });
    let expected = json!({
        "file": "kernel/fs/a.ko", "change": "lost", "function": "f", "source_file": "source.c",
        "old": side("recorded", json!("call")), "new": side("no-site", Value::Null),
    });
    assert_eq!(line, expected);
    let markdown = mcount(&room, &["diff", "--format", "markdown", "old", "new"]);
    let row = "| lost | `f` | `kernel/fs/a.ko` `source.c` | recorded call | no site |";
    assert!(markdown.stdout.lines().any(|line| line == row), "{markdown:?}");
    assert!(markdown.stdout.contains("| file added | | `kernel/come.ko` | | |\n"));
    let same = mcount(&room, &["diff", "--format", "markdown", "old", "old"]);
    assert_eq!(same.code, Some(0));
    assert!(same.stdout.ends_with("\n\nNo difference.\n"));
}

#[test]
fn what_cannot_be_compared() {
    let room = room();
    std::fs::create_dir(room.path("folder")).unwrap();
    compile(&room, "a.o", "int f(void) { return 1; }");
    room.put("text", b"text").unwrap();
    room.put("a.a", b"!<arch>\n").unwrap();
    let rows = [
        (["a.o", "folder"], "folder: is a folder, but a.o is not"),
        (["a.o", "text"], "text: not an ELF file"),
        (["none", "a.o"], "none: No such file"),
        (["a.o", "a.a"], "a.a: is an archive: compare its members"),
        (["a.o", "--policy=some"], "some"),
    ];
    for (arguments, why) in rows {
        let outcome = mcount(&room, &[&["diff"][..], &arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(why), "{arguments:?}: {outcome:?}");
    }
}

/// What has lost its names is not taken for what has lost its functions without a word.
#[test]
fn stripped_images_are_said_to_be() {
    let room = room();
    need(["objcopy"]);
    let source = "static __attribute__((noinline)) int g(int a) { return a * a * a; }
                  int f(int a) { return g(a) + a; }";
    compile(&room, "a.o", source);
    tool(&room, "ld", &["-shared", "-z", "notext", "-o", "a.so", "a.o"]);
    tool(&room, "objcopy", &["--strip-all", "a.so", "b.so"]);
    let whole = mcount(&room, &["diff", "a.so", "a.so"]);
    assert_eq!((whole.code, whole.stderr.as_str()), (Some(0), ""));
    for arguments in [["diff", "a.so", "b.so"], ["why", "b.so", "g"]] {
        let outcome = mcount(&room, &arguments);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.starts_with("mcount: warning: b.so: stripped: "), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
}
