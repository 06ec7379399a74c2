//! Traces that a program records of itself have exactly the calls that it counted.

use crate::Test;
use crate::build::{FENTRY, Hooks, LINKS, Link, PATCHABLE, PG, Room, USUAL, sources};
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use testkit::trace::Trace;

pub(crate) fn tests() -> Vec<Test> {
    let fixed = LINKS.iter().find(|link| link.name == "static").copied().unwrap_or(USUAL);
    [
        ("gcc", PATCHABLE, USUAL),
        ("clang", FENTRY, USUAL),
        ("gcc", PG, USUAL),
        ("gcc", PATCHABLE, fixed),
    ]
    .into_iter()
    .map(|(compiler, hooks, link)| Test {
        name: format!("traces/{compiler}/{}/{}", hooks.name, link.name),
        wants: vec![compiler],
        run: Box::new(move || check_in(&Room::new()?, compiler, hooks, link)),
    })
    .chain(["file-size", "disk", "closed"].map(|what| Test {
        name: format!("traces/full/{what}"),
        wants: vec!["gcc"],
        run: Box::new(move || full(what)),
    }))
    .chain([Test { name: "traces/killed".to_owned(), wants: vec!["gcc"], run: Box::new(killed) }])
    .collect()
}

/// The program is killed: the trace has what was recorded so far, which is all.
fn killed() -> Result<(), String> {
    const CALLS: u64 = 300_000;
    let room = Room::new()?;
    let program = room.program("gcc", PATCHABLE.flags, USUAL, &[sources("live").join("full.c")])?;
    let path = room.path("trace");
    let mut command = Command::new(program);
    command.arg(&path).args(["killed", &CALLS.to_string()]);
    let status = command.status().map_err(|error| error.to_string())?;
    let trace = Trace::read(&path)?;
    let calls = (trace.count(0, "leaf"), trace.total());
    let found = (status.signal(), calls, trace.dropped, trace.finished);
    if found == (Some(9), (CALLS, CALLS), 0, false) { Ok(()) } else { Err(format!("{found:?}")) }
}

/// There's no more room for the trace: it has all calls but those that are said to be missing.
fn full(what: &str) -> Result<(), String> {
    const CALLS: u64 = 2_000_000;
    let room = Room::new()?;
    let program = room.program("gcc", PATCHABLE.flags, USUAL, &[sources("live").join("full.c")])?;
    let disk = room.path("disk");
    std::fs::create_dir(&disk).map_err(|error| error.to_string())?;
    if what == "disk" {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&disk);
        if let Err(why) = testkit::process::run(&mut mount) {
            testkit::trial::ignore(why);
        }
    }
    let path = disk.join("trace");
    let mut command = Command::new(program);
    command.arg(&path).args([what, &CALLS.to_string()]).current_dir(room.path(""));
    let result = testkit::process::run(&mut command).and_then(|_| Trace::read(&path));
    if what == "disk" {
        testkit::process::run(Command::new("umount").arg(&disk))?;
    }
    let trace = result?;
    let found = trace.count(0, "leaf");
    if found > 1000 && trace.dropped > 1000 && found + trace.dropped == CALLS && trace.finished {
        return Ok(());
    }
    Err(format!("{found} calls, {} dropped, finished {}", trace.dropped, trace.finished))
}

/// The program starts and ends many traces, and lists how many calls each must have.
pub(crate) fn check_in(
    room: &Room,
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
) -> Result<(), String> {
    let program = room.program(compiler, hooks.flags, link, &[sources("live").join("traces.c")])?;
    let late = if hooks.after_prologue { "after-prologue" } else { "" };
    testkit::process::run(room.machine.execute(&program).arg(late).current_dir(room.path("")))?;
    let text = room.text("truth")?;
    let mut traces: HashMap<&str, Trace> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, process, function, count] = words.as_slice() else {
            return Err(format!("not a count: {line}"));
        };
        if !traces.contains_key(name) {
            let mut trace = Trace::read(&room.path(name))?;
            trace.check_nesting().map_err(|error| format!("{name}: {error}"))?;
            traces.insert(name, trace);
        }
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{line}: {error}"));
        let (process, count) = (number(process)?, number(count)?);
        let process = u32::try_from(process).map_err(|error| error.to_string())?;
        let found = traces.get(name).map_or(0, |trace| trace.count(process, function));
        if count != 0 && found != count {
            return Err(format!("{name}: {function}: {found} calls instead of {count}"));
        }
    }
    for (name, trace) in &traces {
        if trace.dropped != 0 || !trace.finished {
            return Err(format!("{name}: dropped {}, finished {}", trace.dropped, trace.finished));
        }
    }
    if traces.len() < 30 { Err(format!("only {} traces", traces.len())) } else { Ok(()) }
}
