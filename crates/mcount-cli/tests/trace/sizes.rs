//! How large traces of many threads are that make few calls each, and that nothing is missing from them.

use crate::Test;
use crate::attach::{Attached, worker};
use crate::truth::{Also, Room, kill_one, same_with, tracer_with, until};
use mcount_trace::layout::header;
use nix::sys::signal::Signal;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;
use testkit::trace::Trace;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// Bytes of the trace for each call, at most. The records of a call have 16.
const MOST: u64 = 40;

/// Calls of a thread of `short-threads.c`.
const CALLS: u64 = 68;

/// Name, and the program's arguments: how many threads, how many at a time, whether all of these are there at once.
const WAYS: &[(&str, &[&str])] = &[
    ("alone", &["4000", "1", "apart"]),
    ("few", &["4000", "20", "apart"]),
    ("few-together", &["4000", "20", "together"]),
    ("some-together", &["4000", "400", "together"]),
    ("many", &["4000", "4000", "apart"]),
    ("many-together", &["3000", "3000", "together"]),
    ("forked", &["1000", "20", "together", "fork"]),
];

pub(crate) fn tests() -> Vec<Test> {
    type Run = fn() -> Result<(), String>;
    let ways = WAYS
        .iter()
        .map(|(name, arguments)| test(format!("bytes-a-call::{name}"), move || bytes(arguments)));
    let others: [(&str, Run); 3] =
        [("killed", killed), ("limited", limited), ("attached", attached)];
    let others = others.map(|(name, run)| test(format!("short-threads::{name}"), run));
    let rings: [(&str, Run); 2] = [("behind", ring_behind), ("of-the-gone", ring_of_the_gone)];
    let rings = rings.map(|(name, run)| test(format!("ring::{name}"), run));
    ways.chain(others).chain(rings).collect()
}

fn test(name: String, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Test {
    Test { name, wants: vec!["gcc"], open: None, run: Box::new(run) }
}

fn size(room: &Room, name: &str) -> Result<u64, String> {
    let file = room.path(name).join("trace.mcount");
    std::fs::metadata(file).map(|file| file.len()).map_err(|error| error.to_string())
}

/// All calls are there, and take no more than so many bytes each.
fn check_size(room: &Room, trace: &Trace, most: u64) -> Result<(), String> {
    /// What a trace has besides calls: its head, a directory, metadata, and the shadows of the first stack.
    const BESIDES: u64 = 10 << 16;
    let (size, calls) = (size(room, "traced")?, trace.total());
    let most = BESIDES + calls * most;
    if size <= most { Ok(()) } else { Err(format!("{size} bytes for {calls} calls, not {most}")) }
}

fn bytes(arguments: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "short-threads.c")?;
    let change = |command: &mut Command| {
        command.args(arguments);
    };
    same_with(&room, &program, &[], change, Also::Nesting)?;
    check_size(&room, &room.trace("traced")?, MOST)
}

/// The program is killed when its threads have ended.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "short-threads.c")?;
    let mut command = tracer_with(&[], &program);
    command.args(["500", "50", "together", "kill"]);
    let ended = room.run("traced", &mut command)?;
    let trace = room.trace("traced")?;
    let (found, expected) = (trace.total(), 500 * CALLS);
    if (ended.code, found, trace.dropped) == (137, expected, 0) {
        Ok(())
    } else {
        Err(format!("{found} of {expected} calls, dropped {}: {ended:?}", trace.dropped))
    }
}

/// Where there's room for some of the calls only, what's missing is counted. In a ring, each thread has a chunk of its own, which may be
/// almost empty, and those of threads that are just ending, too: eight or more here, of 32.
fn limited() -> Result<(), String> {
    /// A quarter of what there's room for.
    const LEAST: u64 = (2 << 20) / 16 / 4;
    for (options, most) in [(["--max-size", "2M"], 3 << 20), (["--ring", "2M"], 4 << 20)] {
        let room = Room::new()?;
        let program = room.compile("gcc", HOOKS, "short-threads.c")?;
        let mut command = tracer_with(&options, &program);
        command.args(["4000", "4", "together"]);
        let ended = room.run("traced", &mut command)?;
        let trace = room.trace("traced")?;
        let (found, expected) = (trace.total(), 4000 * CALLS);
        if ended.code != 0
            || trace.dropped == 0
            || found + trace.dropped != expected
            || found < LEAST
        {
            let dropped = trace.dropped;
            return Err(format!("{options:?}: {found} + {dropped} of {expected}: {ended:?}"));
        }
        if size(&room, "traced")? > most {
            return Err(format!("{options:?}: {} bytes", size(&room, "traced")?));
        }
    }
    Ok(())
}

/// Attached to again and again, while threads come and go.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "short-threads.c")?;
    for _ in 0..3 {
        one_attached(&room, &program)?;
    }
    Ok(())
}

fn one_attached(room: &Room, program: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["4000", "20", "together", "served"]);
    let mut served = Served::command(&mut command)?;
    let before = Attached::start(room, "before", &[], served.id())?;
    before.stop()?;
    let attached = Attached::start(room, "traced", &[], served.id())?;
    served.tell("go")?;
    let sum = served.line()?;
    let mut trace = attached.stop()?;
    served.last()?;
    let expected = 4000 * CALLS;
    if sum.is_empty() || trace.total() != expected {
        return Err(format!("{} of {expected} calls, {sum}", trace.total()));
    }
    trace.check_nesting()?;
    check_size(room, &trace, MOST)
}

/// More threads than a ring has chunks have ended. The one that's left gets theirs.
fn ring_of_the_gone() -> Result<(), String> {
    /// Three quarters of the ring.
    const LEAST: u64 = (1 << 20) / 16 / 4 * 3;
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-pthread"]].concat(), "gone-threads.c")?;
    let ended = room.run("traced", &mut tracer_with(&["--ring", "1M"], &program))?;
    let trace = room.trace("traced")?;
    let (found, all) = (trace.total(), trace.total() + trace.dropped);
    if (ended.code, all) == (0, 100_000 + 2 * 40) && found >= LEAST {
        Ok(())
    } else {
        Err(format!("{found} of {all} calls: {ended:?}"))
    }
}

/// The recorder stands while threads fill all that it has made room for. When it goes on, the ring becomes as large as it's to be.
fn ring_behind() -> Result<(), String> {
    /// Chunks of the ring, which are more than there is room for ahead.
    const CHUNKS: u64 = 1024;
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-pthread"]].concat(), "busy-threads.c")?;
    let mut child = room.start("busy", &mut Command::new(program))?;
    until("it begins", || room.printed("busy").ends_with('\n'))?;
    let options = ["--plain", "--ring", "64M"];
    let attached = Attached::start(&room, "attached", &options, child.id())?;
    let all = [worker(&attached)?, attached.child.id().into()];
    let trace = room.path("attached").join("trace.mcount");
    let field = |at: usize| {
        let mut word = [0; 8];
        let file = OpenOptions::new().read(true).open(&trace).ok();
        let is_read = file.is_some_and(|file| file.read_exact_at(&mut word, at as u64).is_ok());
        if is_read { u64::from_ne_bytes(word) } else { 0 }
    };
    for one in all {
        kill_one(one, Signal::SIGSTOP);
    }
    let turns = || field(header::RING_NEXT);
    until("each chunk of the ring has had its turn", || turns() > 2 * CHUNKS)?;
    let before = field(header::NEXT_CHUNK);
    for one in all {
        kill_one(one, Signal::SIGCONT);
    }
    if before >= CHUNKS {
        return Err(format!("there was room for {before} chunks"));
    }
    let found = until("the ring has all its chunks", || field(header::NEXT_CHUNK) >= CHUNKS);
    kill_one(child.id().into(), Signal::SIGTERM);
    let ended = room.wait("busy", &mut child)?;
    found?;
    if (ended.code, &*ended.stdout) == (0, "ready\nright\n") {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}
