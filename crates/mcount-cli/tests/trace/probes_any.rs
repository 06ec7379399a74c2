//! Probes in programs as they're installed: without symbols, without debug information, static.

use crate::Test;
use crate::attach::{Attached, text};
use crate::programs::compiler;
use crate::truth::{Also, Room, same_with, tracer_with};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::sample::one_in;
use testkit::served::Served;

/// No hooks, and no copies of functions.
const NO_HOOKS: &[&str] =
    &["-O2", "-fno-ipa-cp", "-fno-ipa-sra", "-fno-ipa-icf", "-fno-partial-inlining"];

/// How often the functions of `deterministic.c` are called, as callgrind counts them.
const COUNTS: [(&str, u64); 9] = [
    ("main", 1),
    ("visit", 3),
    ("begins_with_call", 50),
    ("collatz", 99),
    ("next", 350),
    ("even", 644),
    ("odd", 639),
    ("ackermann", 110),
    ("compare", 2086),
];

/// Compiler and flags of programs that are linked in other ways than most.
const LINKED: [(&str, &str, &str); 5] = [
    ("glibc-static", "gcc", "-static"),
    ("glibc-static-pie", "gcc", "-static-pie"),
    ("musl-static", "musl-gcc", "-static"),
    ("musl", "musl-gcc", "-pie"),
    ("musl-fixed", "musl-gcc", "-no-pie"),
];

/// These programs: exceptions, threads that end in many ways, jumps out of functions, processes.
const LINKED_PROGRAMS: [&str; 5] =
    ["deterministic.c", "jumps.c", "thread-ends.cpp", "unwind.cpp", "fork.c"];

type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Vec::new();
    }
    let mut tests = Vec::new();
    for (libc, compiler_of_c, flag) in LINKED {
        for source in LINKED_PROGRAMS {
            let is_c = compiler(source) == "gcc";
            if !is_c && libc.starts_with("musl") {
                continue;
            }
            let compiler = if is_c { compiler_of_c } else { compiler(source) };
            // So it is with compilers' hooks.
            let is_open = !is_c && cfg!(target_arch = "aarch64");
            tests.push(Test {
                name: format!("probes::linked::{libc}::{source}"),
                wants: vec![compiler],
                open: is_open.then_some("a static unwinder doesn't find the agent"),
                run: Box::new(move || is_as_untraced(compiler, flag, source)),
            });
        }
    }
    tests = one_in(3, tests);
    let rows: [(&str, &[&'static str], Check); 5] = [
        ("named-by-debug-file", &["gcc", "objcopy"], named_by_debug_file),
        ("named-by-compressed-symbols", &["gcc", "objcopy", "xz"], named_by_compressed_symbols),
        ("signatures", &["gcc"], signatures),
        ("wrong-signature", &["gcc"], wrong_signature),
        ("attached-otherwise", &["gcc"], attached_otherwise),
    ];
    tests.extend(rows.map(|(name, wants, run)| Test {
        name: format!("probes::{name}"),
        wants: wants.to_vec(),
        open: None,
        run: Box::new(run),
    }));
    tests
}

/// A program with all functions probed does what it does untraced.
fn is_as_untraced(compiler: &str, flag: &str, source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let flags = [NO_HOOKS, &[flag, "-pthread"]].concat();
    let program = room.compile(compiler, &flags, source)?;
    if source != "deterministic.c" {
        return same_with(&room, &program, &["--probe", "*"], |_| (), Also::Nesting);
    }
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let traced = room.run("traced", &mut tracer_with(&["--probe", "*"], &program))?;
    if (traced.code, &traced.stdout) != (untraced.code, &untraced.stdout) {
        return Err(format!("{untraced:?}, traced {traced:?}"));
    }
    has_counts(&room)?;
    let mut stats = Command::new(env!("CARGO_BIN_EXE_mcount"));
    stats.arg("stats").arg(room.path("traced/trace.mcount"));
    let stats = room.run("stats", &mut stats)?;
    // Its thread-local storage comes to another place while it starts.
    if stats.stdout.starts_with("1 thread spent ") { Ok(()) } else { Err(format!("{stats:?}")) }
}

/// The trace has the calls that callgrind counts. How often the library compares is its own matter.
fn has_counts(room: &Room) -> Result<(), String> {
    let trace = room.trace("traced")?;
    let own = COUNTS.iter().filter(|(name, _)| *name != "compare");
    let wrong: Vec<_> = own.filter(|(name, count)| trace.count(0, name) != *count).collect();
    let compares = trace.count(0, "compare");
    if wrong.is_empty() && compares > 1000 { Ok(()) } else { Err(format!("{wrong:?}, {compares}")) }
}

fn tool(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(text)?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A program, and a file with only its symbols.
fn with_symbols_apart(room: &Room) -> Result<(PathBuf, PathBuf), String> {
    let program = room.compile("gcc", NO_HOOKS, "deterministic.c")?;
    let symbols = room.path("deterministic.debug");
    tool("objcopy", &[Path::new("--only-keep-debug"), &program, &symbols])?;
    tool("strip", &[&program])?;
    Ok((program, symbols))
}

/// A stripped program is traced by the names that are elsewhere, and listed by them.
fn is_named(room: &Room, program: &Path) -> Result<(), String> {
    let own = format!("*@{}", program.display());
    let ended = room.run("traced", &mut tracer_with(&["--probe", &own], program))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    has_counts(room)?;
    let mut list = Command::new(env!("CARGO_BIN_EXE_mcount"));
    list.args(["trace", "--list", "--probe", "ackermann", "--"]).arg(program);
    let listed = room.run("listed", &mut list)?;
    if listed.stdout.starts_with("ackermann@") { Ok(()) } else { Err(format!("{listed:?}")) }
}

fn named_by_debug_file() -> Result<(), String> {
    let room = Room::new()?;
    let (program, symbols) = with_symbols_apart(&room)?;
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    tool("objcopy", &[Path::new(&link), &program])?;
    is_named(&room, &program)
}

/// As Fedora does it.
fn named_by_compressed_symbols() -> Result<(), String> {
    let room = Room::new()?;
    let (program, symbols) = with_symbols_apart(&room)?;
    tool("xz", &[&symbols])?;
    let section = format!(".gnu_debugdata={}.xz", symbols.display());
    tool("objcopy", &[Path::new("--add-section"), Path::new(&section), &program])?;
    is_named(&room, &program)
}

/// Signatures tell what debug information doesn't. Where both do, the signature counts.
fn signatures() -> Result<(), String> {
    let mut programs = Vec::new();
    // Both are asked for before one is used, as they may be compiled elsewhere.
    for debug in [&[][..], &["-g"]] {
        let room = Room::new()?;
        let program = room.compile("gcc", &[NO_HOOKS, debug].concat(), "deterministic.c")?;
        programs.push((debug, room, program));
    }
    for (debug, room, program) in programs {
        let own = format!("*@{}", program.display());
        let options = ["--probe", &own, "--args", "ackermann(i32, _) -> u64"];
        let options = [&options[..], &["--args", "collatz(u8)", "--results", "collatz"]].concat();
        let traced = room.run("traced", &mut tracer_with(&options, &program))?;
        let calls = replay(&room)?;
        let first = |name: &str| {
            let is_it = |call: &&Value| call.get("function") == Some(&json!(name));
            calls.iter().find(is_it).cloned().unwrap_or_default()
        };
        let (ackermann, collatz) = (first("ackermann"), first("collatz"));
        let value = |call: &Value, place: &str| call.pointer(place).cloned();
        let is_right = value(&ackermann, "/arguments/0/value") == Some(json!(2))
            && value(&ackermann, "/arguments/1/value").is_none_or(|value| value.is_null())
            && value(&ackermann, "/result/value") == Some(json!(21))
            && value(&collatz, "/arguments/0/value") == Some(json!(1));
        // What's returned is known from debug information alone.
        let result = value(&collatz, "/result/value");
        let is_said = traced.stderr.contains("no debug information");
        let expected = if debug.is_empty() { None } else { Some(json!(3)) };
        if !is_right || result != expected || is_said {
            return Err(format!("{debug:?}: {ackermann} {collatz} {}", traced.stderr));
        }
    }
    Ok(())
}

fn replay(room: &Room) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--format", "jsonl"]).arg(room.path("traced/trace.mcount"));
    let ended = room.run("replayed", &mut command)?;
    ended.stdout.lines().map(|line| serde_json::from_str(line).map_err(text)).collect()
}

/// An unknown type is an error, and the program doesn't run.
fn wrong_signature() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "deterministic.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--args", "even(i32, int)", "--"]).arg(&program);
    let ended = room.run("traced", &mut command)?;
    let is_said = ended.stderr.contains("'int' is no type; there are i8, ");
    if ended.code == 2 && is_said && ended.stdout.is_empty() {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}

/// Attaches with other options each time, so that what is written differs from what an earlier trace has left.
fn attached_otherwise() -> Result<(), String> {
    const OPTIONS: [&[&str]; 5] =
        [&[], &["--entries"], &["--clock", "none"], &["--exclude", "leaf"], &["--depth", "2"]];
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for more in OPTIONS.iter().chain(&OPTIONS) {
        let options = [&["--probe", "*"], *more].concat();
        let attached = Attached::start(&room, "attached", &options, served.id())?;
        let counts = served.work()?;
        let trace = attached.stop()?;
        if counts != expected || served.work()? != expected || trace.total() == 0 {
            return Err(format!("{more:?}: {counts:?}, {} calls", trace.total()));
        }
    }
    served.end()
}
