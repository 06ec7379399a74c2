//! `--context-switches`, held against the kernel's own counts: those of `naps.c`, by getrusage, lie between what the trace has
//! within its inner functions and within its outer ones.

use crate::Test;
use crate::attach::{Attached, Waiting};
use crate::programs::{PROGRAMS, as_untraced, compiler};
use crate::told;
use crate::truth::{Room, until};
use nix::libc;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use testkit::sample::one_in;
use testkit::served::Served;

/// What a test does.
type Check = fn() -> Result<(), String>;

const HOOKS: &[&str] = &["-O2", "-pthread", "-fpatchable-function-entry=5"];

/// Programs that make processes and threads, and end them: the kernel's events are handed down to all of these.
const SOURCES: [&str; 8] =
    ["fork.c", "vfork.c", "exec.c", "spawn.c", "daemon.c", "clone.c", "threads.c", "waits.c"];

/// What the trace calls them: those that a thread wanted, and the others.
const NAMES: [&str; 2] = ["linux:schedule", "linux:schedule (preempted)"];

/// Other options of `mcount trace`, with which it's the same.
const OPTIONS: &[(&str, &[&str])] = &[
    ("alone", &[]),
    ("ring", &["--ring", "1M"]),
    ("compress", &["--compress"]),
    ("depth", &["--depth", "9"]),
    ("min-duration", &["--min-duration", "1us"]),
    ("filter", &["--filter", "*_inner", "--filter", "*_outer"]),
];

pub(crate) fn tests() -> Vec<Test> {
    let options = OPTIONS.iter().map(|(name, options)| Test {
        name: format!("off-cpu::{name}"),
        wants: vec!["gcc"],
        open: is_forbidden(),
        run: Box::new(move || traced(options)),
    });
    let others: [(&str, Check); 4] = [
        ("attach", attached),
        ("still-away", still_away),
        ("formats", formats),
        ("snapshot", snapshot),
    ];
    let others = others.map(|(name, run)| Test {
        name: format!("off-cpu::{name}"),
        wants: vec!["gcc"],
        open: is_forbidden(),
        run: Box::new(run),
    });
    let programs = PROGRAMS.iter().filter(|program| SOURCES.contains(&program.source));
    let programs = programs.map(|program| Test {
        name: format!("off-cpu::program::{}", program.name),
        wants: vec![compiler(program.source)],
        open: program.open.or(is_forbidden()),
        run: Box::new(|| as_untraced(&Room::new()?, program, &["--context-switches"])),
    });
    let forbidden = Test {
        name: "off-cpu::forbidden".to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(forbidden),
    };
    one_in(3, options.chain(programs).collect())
        .into_iter()
        .chain(others)
        .chain([forbidden])
        .collect()
}

/// Whether the kernel tells nothing here.
fn is_forbidden() -> Option<&'static str> {
    if testkit::elsewhere::folder().is_some() {
        // Where it's asked which programs are wanted, the kernel is another one's.
        return None;
    }
    // A software event that counts nothing, of this thread: `struct perf_event_attr` has type and size, config, and what is 0 here;
    // bits 5 and 6 of the flags leave the kernel and the hypervisor out.
    let mut attributes = [0_u64; 17];
    attributes[0] = 1 | 136 << 32;
    attributes[1] = 9;
    attributes[5] = 3 << 5;
    // SAFETY: the attributes are as long as they say.
    let result =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0) };
    if result < 0 {
        return Some("perf_event_open isn't allowed here");
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(i32::try_from(result).unwrap_or(-1)) };
    None
}

fn traced(options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "naps.c")?;
    let trace = room.path("trace.mcount");
    let ended = room.run("traced", tracer(options, &trace).arg(&program))?;
    if !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    check(&room, &trace, &ended.stdout)
}

fn tracer(options: &[&str], trace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "--context-switches"]).args(options);
    command.arg("-o").arg(trace).arg("--");
    command
}

/// A program that runs already, with threads that have begun.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "naps.c")?;
    let served = Waiting::start(&room, &program)?;
    let attached = Attached::start(&room, "attached", &["--context-switches"], served.child.id())?;
    let said = served.go_on()?;
    attached.finish()?;
    check(&room, &room.path("attached/trace.mcount"), &said)
}

/// A thread that waits when the recorder leaves: that's what comes last in the trace.
fn still_away() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &["--context-switches"], served.id())?;
    served.work()?;
    until("it waits for input", || state(served.id()) == Some('S'))?;
    attached.stop()?;
    served.end()?;
    let calls = calls(&room, &room.path("attached/trace.mcount"))?;
    let end = |call: &Value| {
        call["start_ns"].as_u64().zip(call["duration_ns"].as_u64()).map(|(a, b)| a + b)
    };
    match calls.iter().max_by_key(|call| end(call)) {
        Some(last) if last["function"] == NAMES[0] => Ok(()),
        last => Err(format!("{last:?} of {}", calls.len())),
    }
}

/// The state of a process, as its `stat` in `/proc` has it.
fn state(process: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// Compares the trace with what the program said.
fn check(room: &Room, trace: &Path, said: &str) -> Result<(), String> {
    let found = found(&calls(room, trace)?)?;
    let mut next: BTreeMap<(String, u64), usize> = BTreeMap::new();
    let mut lines = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, thread, counts @ ..] = words.as_slice() else { return Err(line.to_owned()) };
        let id = ((*name).to_owned(), number(thread)?);
        let at = next.entry(id.clone()).or_default();
        let call = found.get(&id).and_then(|calls| calls.get(*at));
        let call = call.ok_or_else(|| format!("{line}: no such call in {found:?}"))?;
        for ((inner, outer), count) in call.iter().zip(counts) {
            let count = number(count)?;
            if !(*inner..=*outer).contains(&count) {
                return Err(format!("{line}: {call:?} in the trace"));
            }
        }
        *at += 1;
        lines += 1;
    }
    if lines == 12 { Ok(()) } else { Err(said.to_owned()) }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text}: no number"))
}

/// Of each kind, how often within the inner function and within the outer one.
type Counts = [(u64, u64); 2];

/// The calls of `NAME_outer` of each thread.
fn found(calls: &[Value]) -> Result<BTreeMap<(String, u64), Vec<Counts>>, String> {
    let mut found: BTreeMap<(String, u64), Vec<Counts>> = BTreeMap::new();
    let mut stacks: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for call in calls {
        let field = |name: &str| call[name].as_u64().ok_or_else(|| format!("{name}: {call}"));
        let name = call["function"].as_str().ok_or("no function")?;
        let (thread, depth) = (field("thread")?, field("depth")?);
        let stack = stacks.entry(thread).or_default();
        stack.truncate(usize::try_from(depth).unwrap_or(0));
        if let Some(name) = name.strip_suffix("_outer") {
            found.entry((name.to_owned(), thread)).or_default().push([(0, 0); 2]);
        }
        if let Some(kind) = NAMES.iter().position(|known| *known == name) {
            for outer in stack.iter().filter_map(|name| name.strip_suffix("_outer")) {
                let is_inner = stack.iter().any(|name| name.ends_with("_inner"));
                let counts = found.get_mut(&(outer.to_owned(), thread));
                if let Some(count) = counts.and_then(|all| all.last_mut()?.get_mut(kind)) {
                    count.0 += u64::from(is_inner);
                    count.1 += 1;
                }
            }
        }
        stack.push(name);
    }
    Ok(found)
}

/// The calls of a trace, in the order of starts.
fn calls(room: &Room, trace: &Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--format", "jsonl"]).arg(trace);
    let printed = room.run("replayed", &mut command)?;
    let text = printed.stdout;
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
}

/// How often `naps.c` sleeps.
const NAPS: usize = 10;

/// Is the first thing that each call of `nap_inner` does to leave the processor? Lines are of several threads, whose numbers they have:
/// `  1.5 ms [  4711] |   nap_inner() {`. If other threads have lines in between, even the innermost call takes two.
fn is_each_nap_off(text: &str) -> bool {
    let (mut napping, mut count) = (BTreeSet::new(), 0);
    for line in text.lines() {
        let Some((thread, call)) =
            line.split_once('[').and_then(|(_, rest)| rest.split_once("] |"))
        else {
            continue;
        };
        let call = call.trim_start();
        if napping.remove(thread) && !call.starts_with("linux:schedule") {
            return false;
        }
        if call.starts_with("nap_inner() {") {
            napping.insert(thread);
            count += 1;
        }
    }
    count == NAPS && napping.is_empty()
}

/// Each format has them, beneath what they were in.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "naps.c")?;
    let trace = room.path("trace.mcount");
    room.run("traced", tracer(&[], &trace).arg(&program))?;
    let folder = room.path("uftrace");
    let folder = folder.to_str().ok_or("a path that is no text")?;
    let export: Vec<&str> = ["replay", "--format", "uftrace", "-o", folder].into();
    room.run("exported", Command::new(env!("CARGO_BIN_EXE_mcount")).args(export).arg(&trace))?;
    if std::path::Path::new("/usr/bin/uftrace").exists() {
        let mut command = Command::new("uftrace");
        let printed = room.run("uftrace", command.args(["replay", "--no-pager", "-d", folder]))?;
        if !is_each_nap_off(&printed.stdout) {
            return Err(format!("uftrace: {printed:.1000?}"));
        }
    }
    let mut replay = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let printed = room.run("text", replay.arg("replay").arg(&trace))?;
    if !is_each_nap_off(&printed.stdout) {
        return Err(format!("text: {printed:.1000?}"));
    }
    let rows: [(&str, &[&str], &str); 3] = [
        ("folded", &["replay", "--format", "folded"], ";nap_outer;nap_inner;linux:schedule "),
        ("chrome", &["replay", "--format", "chrome"], "\"linux:schedule\""),
        ("stats", &["stats", "--format", "csv"], "linux:schedule (preempted)"),
    ];
    for (name, arguments, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let printed = room.run(name, command.args(arguments).arg(&trace))?;
        let text = printed.stdout;
        if !text.contains(expected) {
            return Err(format!("{name}: {text:.1000}"));
        }
    }
    Ok(())
}

/// What a ring keeps is written with what was told until then.
fn snapshot() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "served.c")?;
    let mut served = told::run(&room, &program, &["--ring", "64M", "--context-switches"])?;
    // It waits for input in between, unless that's there already.
    for _ in 0..20 {
        served.work()?;
    }
    told::tell(served.id(), Signal::SIGUSR2, &room.path("said"), "written to ")?;
    let written = calls(&room, &room.path("trace-2.mcount"))?;
    served.end()?;
    let waits = written.iter().filter(|call| NAMES.iter().any(|name| call["function"] == *name));
    match waits.count() {
        0 => Err(format!("{} calls", written.len())),
        _ => Ok(()),
    }
}

/// Where the kernel doesn't tell, the program is traced, and that's said.
fn forbidden() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "naps.c")?;
    let forbidding = room.compile("gcc", &["-O2"], "no-perf.c")?;
    let trace = room.path("trace.mcount");
    let tracer = tracer(&[], &trace);
    let mut command = Command::new(forbidding);
    command.arg(tracer.get_program()).args(tracer.get_args()).arg(&program);
    let ended = room.run("traced", &mut command)?;
    let said = ended.stderr.clone();
    let expected = "mcount: no context switches are recorded: permission denied \
                    (allow it: sysctl kernel.perf_event_paranoid=2)\n";
    if said != expected || ended.stdout.is_empty() {
        return Err(format!("{ended:?}"));
    }
    let calls = calls(&room, &trace)?;
    let of = |name: &str| calls.iter().filter(|call| call["function"] == name).count();
    match (of("nap_outer"), of(NAMES[0])) {
        (10, 0) => Ok(()),
        counts => Err(format!("{counts:?}")),
    }
}
