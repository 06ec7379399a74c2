//! What can't be done is refused with the reason, exit code 2, and nothing has changed.

use crate::Check;
use crate::program::{HOOKS, Room, command, patch, run, with};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::served::Served;

pub(crate) const TESTS: [(&str, Check); 6] = [
    ("refused::objects", objects),
    ("refused::programs", programs),
    ("refused::static-names", static_names),
    ("refused::stripped", stripped),
    ("refused::processes", processes),
    ("refused::arguments", arguments),
];

/// Source, flags, what's said.
const OBJECTS: &[(&str, &[&str], &str)] = &[
    (
        "__thread int own; int answer(int x) { return own++; }",
        &[],
        "thread-local variables of its own",
    ),
    (
        "__attribute__((constructor)) void start(void) {} int answer(int x) { return 0; }",
        &[],
        "it has constructors, which aren't run",
    ),
    (
        "static int one(int x) { return x; } static void *choose(void) { return one; }\n\
         int chosen(int) __attribute__((ifunc(\"choose\"))); int answer(int x) { return chosen(x); }",
        &[],
        "chosen when it's loaded",
    ),
    (
        "int missing(int); int answer(int x) { return missing(x); }",
        &[],
        "the program has no missing",
    ),
    (
        "extern int calls_of_nobody; int answer(int x) { return calls_of_nobody; }",
        &[],
        "the program has no calls_of_nobody",
    ),
    ("int unhooked(int x) { return 5; }", &[], "unhooked: it has no hook that is large enough"),
    ("int new_one(int x) { return 5; }", &[], "defines no function that"),
    ("static int answer(int x) { return 5; }", &[], "defines no function that others can see"),
    (
        "extern int local; int answer(int x) { return local; }",
        &[],
        "local is thread-local there and not",
    ),
    (
        "extern __thread int counter; int answer(int x) { return counter; }",
        &[],
        "counter is thread-local there and not",
    ),
    (
        "extern int counter; int answer(int x) { return counter; }",
        &["-fno-pic", "-mcmodel=large"],
        "its code has relocations",
    ),
    ("int answer(int x) { return 5; }", &["-nostdlib", "-Wl,-N"], "writable and executable"),
];

/// Is the program as it was?
fn unchanged(served: &mut Served, before: &[u8]) -> Result<(), String> {
    if served.code()? != before {
        return Err("its code has changed".to_owned());
    }
    with(served, &["--list"], &[]).and_then(|listed| {
        let is_empty = listed.stdout.is_empty();
        if is_empty { listed.is(0, "") } else { Err(listed.stdout) }
    })
}

fn objects() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    // What's compiled elsewhere is asked for before anything runs.
    let object = room.compile("fix.o", "gcc", &["-c", "-fPIC"], &["slow.c"])?;
    let fixes = OBJECTS.iter().enumerate().map(|(number, (source, flags, says))| {
        let source = room.source(&format!("{number}.c"), source)?;
        Ok((room.fix(&format!("{number}.so"), flags, &[&source.to_string_lossy()])?, *says))
    });
    let fixes = fixes.collect::<Result<Vec<_>, String>>()?;
    let mut served = Served::start(&program)?;
    let before = served.code()?;
    for (fix, says) in fixes {
        patch(&served, &fix)?.is(2, says)?;
        unchanged(&mut served, &before)?;
    }
    for (name, bytes) in [("empty", Vec::new()), ("text", b"no object\n".to_vec())] {
        let path = room.path(name);
        testkit::files::write(&path, &bytes)?;
        patch(&served, &path)?.is(2, "it isn't a 64-bit ELF file")?;
    }
    patch(&served, &room.path("nowhere.so"))?.is(2, "nowhere.so: ")?;
    patch(&served, &room.path("served"))?.is(2, "")?;
    patch(&served, &object)?.is(2, "link it with -shared -fPIC")?;
    unchanged(&mut served, &before)?;
    served.ask("go", "8 4 8 5 1")?;
    served.end()
}

/// Flags of programs without hooks that would do, and what's said.
#[cfg(target_arch = "x86_64")]
const UNHOOKED: [(&[&str], &str); 3] = [
    (&["-O2"], "answer: it has no hook that is large enough"),
    (&["-O2", "-pg"], "its hook is after the prologue: compile with -pg -mfentry"),
    (&["-O2", "-fpatchable-function-entry=2"], "it has no hook that is large enough"),
];
#[cfg(not(target_arch = "x86_64"))]
const UNHOOKED: [(&[&str], &str); 2] = [
    (&["-O2"], "answer: it has no hook that is large enough"),
    (&["-O2", "-pg"], "its hook is after the prologue: compile with -fpatchable-function-entry="),
];

fn programs() -> Result<(), String> {
    let room = Room::new()?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let programs = UNHOOKED.iter().enumerate().map(|(number, (flags, says))| {
        Ok((room.compile(&format!("served-{number}"), "gcc", flags, &["served.c"])?, *says))
    });
    for (program, says) in programs.collect::<Result<Vec<_>, String>>()? {
        let mut served = Served::start(&program)?;
        patch(&served, &fix)?.is(2, says)?;
        served.ask("go", "8 4 8 5 1")?;
        served.end()?;
    }
    Ok(())
}

/// Names that two source files have.
fn static_names() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("two", "gcc", HOOKS, &["a.c", "b.c"])?;
    let fix = |name: &str, source: &str| -> Result<PathBuf, String> {
        let source = room.source(&format!("{name}.c"), source)?;
        room.fix(&format!("{name}.so"), &[], &[&source.to_string_lossy()])
    };
    let number = fix("number", "extern int number; int value(void) { return number; }")?;
    let same = fix("same", "int same(void) { return 5; }")?;
    let one =
        "extern int number __asm__(\"\\\"b.c:number\\\"\"); int value(void) { return number; }";
    let of_b = fix("of_b", one)?;
    let one = "int same(void) __asm__(\"\\\"a.c:same\\\"\"); int same(void) { return 5; }";
    let same_of_a = fix("same_of_a", one)?;
    let mut served = Served::start(&program)?;
    served.ask("", "1 2 0")?;
    let says = "number: 2 source files have a static one (a.c, b.c): say which by __asm__(\"\\\"a.c:NAME\\\"\")";
    patch(&served, &number)?.is(2, says)?;
    patch(&served, &same)?.is(2, "same: 2 source files")?;
    served.ask("", "1 2 0")?;
    patch(&served, &of_b)?.is(0, "of_b.so replaces value")?;
    served.ask("", "1 2 2")?;
    patch(&served, &same_of_a)?.is(0, "same_of_a.so replaces same")?;
    served.ask("", "5 2 2")?;
    served.end()
}

/// A stripped program has the names that its debug file has, or those that it exports.
fn stripped() -> Result<(), String> {
    testkit::tools::need(["objcopy"]);
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let debug = room.path("served.debug");
    let strip = |arguments: &[&str]| {
        testkit::process::run(Command::new("objcopy").args(arguments).arg(&program)).map(|_| ())
    };
    let copy = Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug).status();
    copy.map_err(|error| error.to_string())?;
    strip(&["--strip-all"])?;
    let served = Served::start(&program)?;
    patch(&served, &fix)?.is(2, "the program is stripped, and there's no debug file")?;
    served.end()?;
    strip(&[&format!("--add-gnu-debuglink={}", debug.display())])?;
    let mut served = Served::start(&program)?;
    patch(&served, &fix)?.is(0, "fix.so replaces answer, hidden")?;
    served.ask("go", "4001 -8 107 6 1")?;
    served.end()
}

/// Processes that somebody else has, that aren't programs of this kind, or that aren't there.
fn processes() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let path = fix.to_string_lossy().into_owned();
    run(&mut command(&["2000000000", &path]))?.is(2, "there's no such process")?;
    run(&mut command(&["--list", "2000000000"]))?.is(2, "there's no such process")?;
    let served = Served::start(&program)?;
    with(&served, &["--revert"], &[])?.is(2, "nothing was patched in it")?;
    served.end()?;
    let mut traced = Command::new(env!("CARGO_BIN_EXE_mcount"));
    traced.args(["trace", "--output"]).arg(room.path("trace.mcount")).arg("--").arg(&program);
    let mut served = Served::command(&mut traced)?;
    let child = traced_by(served.id())?;
    run(&mut command(&[&child, &path]))?.is(2, "traces it already")?;
    served.ask("go", "8 4 8 5 1")?;
    served.end()
}

/// The process that `mcount trace` has started.
fn traced_by(tracer: u32) -> Result<String, String> {
    let path = format!("/proc/{tracer}/task/{tracer}/children");
    let text = testkit::files::read(Path::new(&path))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| "it has no child".to_owned())
}

fn arguments() -> Result<(), String> {
    let rows: [(&[&str], &str); 6] = [
        (&[], "required"),
        (&["0", "fix.so"], "numbered from 1 on"),
        (&["1"], "give the shared object with the new functions: mcount patch PID FIX.so"),
        (&["1", "a.so", "b.so"], "one shared object at a time"),
        (&["--list", "1", "a.so"], "--list takes a process and nothing else"),
        (&["--list", "--revert", "1"], "cannot be used with"),
    ];
    for (words, says) in rows {
        run(&mut command(words))?.is(2, says).map_err(|error| format!("{words:?}: {error}"))?;
    }
    run(&mut command(&["--help"]))?
        .is(0, "Exit codes: 0 if it's done, 1 if threads were in the way")
}
