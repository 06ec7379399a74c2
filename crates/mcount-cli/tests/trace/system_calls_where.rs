//! `--system-calls` where numbers of threads, the file system or the end of recording differ from the usual.

use crate::Test;
use crate::system_calls::{SOURCE, at, calls, is_forbidden, tracer};
use crate::truth::Room;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

pub(crate) fn tests() -> Vec<Test> {
    type Check = fn() -> Result<(), String>;
    let all: [(&str, Check); 5] = [
        ("ends", ends),
        ("ring", ring),
        ("executes", executes),
        ("unmounted", unmounted),
        ("namespace", namespace),
    ];
    let test = |(name, run): (&str, Check)| Test {
        name: format!("system-calls::{name}"),
        wants: vec!["gcc"],
        open: is_forbidden(),
        run: Box::new(run),
    };
    all.into_iter().map(test).collect()
}

/// Calls of functions and system calls begin and end together, though it takes the recorder a while to come and to go.
fn ends() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-fpatchable-function-entry=5"], "naps-until.c")?;
    let served = Served::start(&program)?;
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["attach", "--system-calls", "--duration", "600ms", "-o"]).arg(&trace);
    room.run("attached", command.arg(served.id().to_string()))?;
    drop(served);
    let calls = calls(&room, &trace, &[])?;
    let count = |name: &str| calls.iter().filter(|call| call["function"] == name).count();
    let counts = ["usleep", "linux:clock_nanosleep"].map(count);
    let is_well = counts[0] >= 100 && counts[0].abs_diff(counts[1]) <= 20;
    if is_well { Ok(()) } else { Err(format!("{counts:?}")) }
}

/// In a ring, newer calls take the place of older ones, and `mcount` says of how many.
fn ring() -> Result<(), String> {
    const COUNT: u64 = 60_000;
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], "busy-calls.c")?;
    let trace = room.path("trace.mcount");
    let mut command = tracer(&trace, &["--plain", "--ring", "1M"]);
    let ended = room.run("traced", command.arg(&program).arg(COUNT.to_string()))?;
    let kept = calls(&room, &trace, &[])?.len();
    let number = |line: &str| line.split(' ').nth(1)?.replace(',', "").parse::<u64>().ok();
    let dropped =
        ended.stderr.lines().find(|line| line.contains("older system calls were dropped"));
    let all = dropped.and_then(number).map(|dropped| dropped + kept as u64);
    let has_all = all.is_some_and(|all| (COUNT..COUNT + 1000).contains(&all));
    if has_all && kept > 1000 { Ok(()) } else { Err(format!("{kept}, {all:?}, {ended:?}")) }
}

/// Where nobody has mounted tracefs, nobody has to.
fn unmounted() -> Result<(), String> {
    const SCRIPT: &str = "set -e; mount --make-rprivate /; \
        for kind in tracefs debugfs; do \
            grep -E \" - $kind \" /proc/self/mountinfo | cut -d' ' -f5 | while read folder; do umount -l $folder; done; \
        done; \
        if grep -E ' - (tracefs|debugfs) ' /proc/self/mountinfo; then exit 1; fi; \
        exec \"$@\"";
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], SOURCE)?;
    let confined = || {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", SCRIPT, "sh"]);
        command
    };
    if let Err(why) = testkit::process::run(confined().arg("true")) {
        testkit::trial::ignore(why);
    }
    counted(&room, &program, confined())
}

/// In a namespace of processes, threads have other numbers than the kernel's.
fn namespace() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], SOURCE)?;
    let confined = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    if let Err(why) = testkit::process::run(confined().arg("true")) {
        testkit::trial::ignore(why);
    }
    counted(&room, &program, confined())?;
    let calls = calls(&room, &room.path("trace.mcount"), &[])?;
    let is_inner = |call: &Value| matches!(call["process"].as_u64(), Some(1..100));
    if calls.iter().all(is_inner) { Ok(()) } else { Err(format!("{calls:?}")) }
}

/// A thread that isn't the first one executes a program.
fn executes() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-pthread"], "executes.c")?;
    counted(&room, &program, Command::new("env"))?;
    let calls = calls(&room, &room.path("trace.mcount"), &[])?;
    let execs = calls.iter().filter(|call| call["function"] == "linux:execve");
    // The second one began in the thread that still had a number of its own.
    let of_first = |call: &Value| call["process"] == call["thread"];
    let results: Vec<_> =
        execs.map(|call| (of_first(call), at(call, "/result/value").as_i64())).collect();
    let exits = calls
        .iter()
        .filter(|call| call["function"] == "linux:exit_group" && call["process"] == call["thread"]);
    // The kernel only says which thread it is.
    let is_known = |call: &Value| call["process"].as_u64().is_some_and(|process| process > 0);
    match (&results[..], exits.count()) {
        ([(true, Some(0)), (false, Some(0))], 1) if calls.iter().all(is_known) => Ok(()),
        found => Err(format!("{found:?}")),
    }
}

/// Traces a program that makes 50 calls of `getppid` and exits with 7, by this command.
fn counted(room: &Room, program: &Path, mut by: Command) -> Result<(), String> {
    let trace = room.path("trace.mcount");
    let tracer = tracer(&trace, &[]);
    by.arg(tracer.get_program()).args(tracer.get_args()).arg(program);
    let ended = room.run("traced", &mut by)?;
    let calls = calls(room, &trace, &[])?;
    let found = calls.iter().filter(|call| call["function"] == "linux:getppid").count();
    if ended.code == 7 && ended.stderr.is_empty() && found == 50 {
        return Ok(());
    }
    Err(format!("{found}, {ended:?}"))
}
