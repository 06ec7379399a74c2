//! `mcount attach` is killed by `strace` at one of its system calls, while it changes a program: the program runs on, its threads
//! get what they should, and the next one can attach.
//!
//! In CI that's some of the calls. With `MCOUNT_EVERY_CALL=1` it's each of them, and there are programs of 100 threads.

use crate::Test;
use crate::truth::Room;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

/// What threads wait in.
const KINDS: [&str; 4] = ["epoll", "futex", "read", "user"];

/// The calls by which a process is changed, and how many of them are left out each time, in CI.
const CALLS: [(&str, usize); 3] = [("ptrace", 16), ("pwrite64", 4), ("wait4", 32)];

/// More calls than any attaching makes.
const MOST: usize = 100_000;

pub(crate) fn tests() -> Vec<Test> {
    let test = |kind: &'static str| Test {
        name: format!("attach::killed-at-work-{kind}"),
        wants: vec!["gcc", "strace"],
        open: None,
        run: Box::new(move || check(kind)),
    };
    KINDS.into_iter().map(test).collect()
}

fn check(kind: &'static str) -> Result<(), String> {
    let room = Room::new()?;
    let flags = &["-O2", "-pthread", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", flags, "stands.c")?;
    let is_every = std::env::var_os("MCOUNT_EVERY_CALL").is_some();
    let first = KINDS.iter().position(|other| *other == kind).unwrap_or(0);
    for threads in ["1", "4", "100"].iter().take(if is_every { 3 } else { 2 }) {
        for (call, leap) in CALLS {
            let leap = if is_every { 1 } else { leap + threads.len() };
            let mut number = 1 + if is_every { 0 } else { first };
            while number < MOST && killed_at(&room, &program, (kind, threads), (call, number))? {
                number += leap;
            }
            // Else nothing was tried.
            if number < 4 {
                return Err(format!("only {number} calls of {call}"));
            }
        }
    }
    Ok(())
}

/// `mcount` is killed at its call of this number. `false` if it made fewer.
fn killed_at(
    room: &Room,
    program: &Path,
    (kind, threads): (&str, &str),
    (call, number): (&str, usize),
) -> Result<bool, String> {
    let at = format!("{kind}, {threads} threads, {call} {number}");
    let mut served = Served::command(Command::new(program).args([kind, threads]))?;
    let log = room.path("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e"]).arg(format!("trace={call}")).arg("-o").arg(&log);
    strace.arg("-e").arg(format!("inject={call}:signal=KILL:when={number}"));
    strace.arg(env!("CARGO_BIN_EXE_mcount")).args(["attach", "--duration", "20ms"]);
    strace.args(["--output", "trace.mcount"]).arg(served.id().to_string());
    room.run("attached", &mut strace)?;
    let log = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
    served.ask("go", "here").map_err(|error| format!("{at}: {error}"))?;
    let said = served.last().map_err(|error| format!("{at}: {error}"))?;
    if !said.starts_with("0 wrong,") {
        return Err(format!("{at}: {said:?}"));
    }
    Ok(log.contains("killed by SIGKILL"))
}
