//! Markers that programs set (`include/mcount/mark.h`): those of `marks.c` are in the trace, in their threads and between
//! the right calls, however the program was made and whatever else is recorded.

use crate::Test;
use crate::attach::{Attached, Waiting};
use crate::truth::Room;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a test does.
type Check = fn() -> Result<(), String>;

/// Compiler and flags.
type Build = (&'static str, &'static str, &'static [&'static str]);

const HOOKS: &str = "-fpatchable-function-entry=5";

const BUILDS: &[Build] = &[
    ("gcc", "gcc", &["-O2", HOOKS]),
    ("gcc-O0", "gcc", &["-O0", HOOKS]),
    ("gcc-fentry", "gcc", &["-O2", "-pg", "-mfentry"]),
    ("gcc-pg", "gcc", &["-O2", "-pg"]),
    ("gcc-lto", "gcc", &["-O3", "-flto", HOOKS]),
    ("gcc-static", "gcc", &["-O2", "-static", HOOKS]),
    ("gcc-before", "gcc", &["-O2", "-fpatchable-function-entry=7,2"]),
    ("gcc-cet", "gcc", &["-O2", "-fcf-protection", HOOKS]),
    ("g++", "g++", &["-O2", "-x", "c++", "-fpermissive", HOOKS]),
    ("clang", "clang", &["-O2", HOOKS]),
    ("clang-O3", "clang", &["-O3", "-flto", "-fuse-ld=lld", HOOKS]),
    ("clang++", "clang++", &["-O2", "-x", "c++", HOOKS]),
];

/// Options of `mcount trace`, and how many calls of `step` there are then, if the trace says what is between markers.
type Options = (&'static str, &'static [&'static str], u64);

const OPTIONS: &[Options] = &[
    ("filter", &["--filter", "step"], 12),
    ("not-under", &["--not-under", "phase"], 0),
    ("only-under", &["--only-under", "phase"], 12),
    ("depth", &["--depth", "1"], 0),
    ("min-duration", &["--min-duration", "1h"], 0),
    ("entries", &["--entries"], 12),
    ("no-clock", &["--clock", "none"], 12),
    ("no-clock-entries", &["--clock", "none", "--entries"], 12),
    ("ring", &["--ring", "1M"], 12),
    ("compress", &["--compress"], 12),
];

/// What `marks.c` says in its first thread, and in its second.
const SAID: [&[&str]; 2] = [
    &["begin", "in a handler", LONG, "line 1\\nline 2", "", "3 steps", "end"],
    &["7 steps", "2 steps"],
];

/// The first 64 bytes of what is longer.
const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123...";

pub(crate) fn tests() -> Vec<Test> {
    let builds = BUILDS.iter().map(|(name, compiler, flags)| Test {
        name: format!("marks::{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || traced(compiler, flags, &[], 12)),
    });
    let options = OPTIONS.iter().map(|(name, options, steps)| Test {
        name: format!("marks::{name}"),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(move || traced("gcc", &["-O2", HOOKS], options, *steps)),
    });
    let others: [(&str, Check); 3] =
        [("marks::attach", attached), ("marks::formats", formats), ("marks::excluded", excluded)];
    let others = others.map(|(name, run)| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    });
    builds.chain(options).chain(others).collect()
}

fn traced(compiler: &str, flags: &[&str], options: &[&str], steps: u64) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, "marks.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain"]).args(options).arg("-o").arg(&trace).arg("--").arg(&program);
    let ended = room.run("traced", &mut command)?;
    if ended != untraced {
        return Err(format!("{ended:?} instead of {untraced:?}"));
    }
    check(&room, &trace, steps)
}

/// A program that runs already.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", HOOKS], "marks.c")?;
    let served = Waiting::start(&room, &program)?;
    let attached = Attached::start(&room, "attached", &["--filter", "step"], served.child.id())?;
    served.go_on()?;
    attached.finish()?;
    check(&room, &room.path("attached/trace.mcount"), 12)
}

/// Who doesn't want them leaves them out.
fn excluded() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", HOOKS], "marks.c")?;
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command
        .args(["trace", "--plain", "--exclude", "mcount_mark", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&program);
    let ended = room.run("traced", &mut command)?;
    let calls = replay(&room, &trace)?;
    let has_marks = calls.iter().any(|call| call.get("mark").is_some());
    if has_marks || calls.is_empty() || !ended.stderr.is_empty() {
        return Err(format!("{} calls, {ended:?}", calls.len()));
    }
    Ok(())
}

/// What is known of a thread while its calls are read.
#[derive(Default)]
struct Thread {
    id: u64,
    /// What it said.
    said: Vec<String>,
    /// How many steps are still to come.
    left: u64,
}

/// Each thread has the markers that it set, in their order, and what it called in between.
fn check(room: &Room, trace: &Path, steps: u64) -> Result<(), String> {
    let calls = replay(room, trace)?;
    let mut threads: Vec<Thread> = Vec::new();
    let mut seen = 0;
    for call in &calls {
        let id = call.get("thread").and_then(Value::as_u64).ok_or("no thread")?;
        if !threads.iter().any(|thread| thread.id == id) {
            threads.push(Thread { id, ..Thread::default() });
        }
        let Some(thread) = threads.iter_mut().find(|thread| thread.id == id) else { continue };
        let function = call.get("function").and_then(Value::as_str).unwrap_or_default();
        if let Some(mark) = call.get("mark").and_then(Value::as_str) {
            if thread.left != 0 && steps != 0 {
                return Err(format!("{} steps are missing before {mark:?}", thread.left));
            }
            let count = mark.split(' ').next().and_then(|word| word.parse().ok());
            thread.left = count.filter(|_| mark.ends_with(" steps")).unwrap_or(0);
            thread.said.push(mark.to_owned());
        } else if function.starts_with("step") {
            seen += 1;
            thread.left = thread.left.checked_sub(1).ok_or("a step too many")?;
        }
    }
    let said: Vec<Vec<String>> = threads.into_iter().map(|thread| thread.said).collect();
    if said == SAID && seen == steps { Ok(()) } else { Err(format!("{said:?}, {seen} steps")) }
}

/// As each format has them.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", HOOKS], "marks.c")?;
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "-o"]).arg(&trace).arg("--").arg(&program);
    room.run("traced", &mut command)?;
    let rows = [
        ("text", "|     /* 3 steps */\n", 1),
        ("text", "mcount_mark", 0),
        ("text", "/* line 1\\nline 2 */\n", 1),
        ("chrome", "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"mark\",\"name\":\"7 steps\",\"pid\":", 1),
        ("perfetto", "7 steps", 1),
    ];
    for (format, expected, count) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["replay", "--format", format]).arg(&trace).current_dir(room.path(""));
        let printed = command.output().map_err(text)?;
        let printed = String::from_utf8_lossy(&printed.stdout);
        if printed.matches(expected).count() != count {
            return Err(format!("{format}: {expected}: {printed}"));
        }
    }
    Ok(())
}

/// The calls of a trace, as `mcount replay --format jsonl` has them.
fn replay(room: &Room, trace: &Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    ended.stdout.lines().map(line).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text<E: ToString>(error: E) -> String {
    error.to_string()
}
