//! `mcount attach` while the process makes others by `fork`, which end when they like; and processes that have odd names.

use crate::Test;
use crate::attach::{Attached, compare, text};
use crate::truth::{Room, kill_one, sources, until};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use testkit::served::Served;

/// Name, and what is done.
type Row = (&'static str, fn() -> Result<(), String>);

pub(crate) fn tests() -> Vec<Test> {
    let rows: [Row; 4] = [
        ("attach::first-thread-ends", first_thread_ends),
        ("attach::forks-end", forks_end),
        ("attach::forks-of-a-claim", forks_of_a_claim),
        ("attach::odd-names", odd_names),
    ];
    let test = |(name, run): Row| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    };
    rows.map(test).into()
}

/// Children end while they're looked for. The process lives: what it has recorded isn't lost. It was once in two of five attempts.
fn forks_end() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], "forks.c")?;
    let mut forks = room.start("running", Command::new(program).args(["60", "0", "60", "40"]))?;
    let process = forks.id();
    for round in 0..10 {
        let name = format!("attached-{round}");
        let options = ["--probe", "work", "--duration", "100ms"];
        let trace = Attached::start(&room, &name, &options, process)?.finish()?;
        if trace.processes.is_empty() {
            return Err(format!("round {round}: nothing was recorded"));
        }
    }
    kill_one(process.into(), Signal::SIGKILL);
    room.wait("running", &mut forks).map(|_| ())
}

/// Children that a process makes while it's being attached to, and before anything is armed, may be attached to by others: they have the
/// agent, but no recorder.
fn forks_of_a_claim() -> Result<(), String> {
    let room = Room::new()?;
    let many = sources().join("../live/many.c").display().to_string();
    let program = room.compile("gcc", &["-O1", &many], "forks.c")?;
    let mut forks =
        room.start("running", Command::new(program).args(["60", "10", "60000", "1000"]))?;
    let process = forks.id();
    // Ten thousand probes take a while.
    let attached = Attached::start(&room, "attached", &["--probe", "*"], process)?;
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).map_err(text)?;
    let mut of_a_claim = 0;
    for child in children.split_whitespace() {
        let maps = std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default();
        if !maps.contains("mcount-agent") || maps.contains("trace.mcount") {
            continue;
        }
        let child = child.parse().map_err(text)?;
        let name = format!("child-{child}");
        let options = ["--probe", "work", "--duration", "10ms"];
        match Attached::start(&room, &name, &options, child) {
            Ok(attached) => attached.finish().map(|_| ())?,
            // It has ended, or does so.
            Err(_) if !std::path::Path::new(&format!("/proc/{child}/exe")).exists() => continue,
            Err(said) => return Err(format!("child {child}: {said}")),
        }
        of_a_claim += 1;
    }
    attached.stop()?;
    kill_one(process.into(), Signal::SIGKILL);
    room.wait("running", &mut forks)?;
    if of_a_claim == 0 { Err("there was no such child".to_owned()) } else { Ok(()) }
}

/// The name of a thread needn't be UTF-8. The kernel cuts off what's longer than 15 bytes, in the middle of a letter, too.
fn odd_names() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "served.c")?;
    for name in ["fifteen-bytes-é".as_bytes(), b"\xff\xfe) Z ", b"in two\nlines"] {
        let odd = program.with_file_name(OsStr::from_bytes(name));
        std::fs::rename(&program, &odd).map_err(text)?;
        let mut served = Served::start(&odd)?;
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let mut second = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let second = room.run("second", second.arg("attach").arg(served.id().to_string()))?;
        let says = ["is attached to it already", "traces it already"];
        if second.code != 2 || !says.iter().any(|one| second.stderr.contains(one)) {
            return Err(format!("the second one: {second:?}"));
        }
        let counts = served.work()?;
        compare(&counts, &attached.stop()?)?;
        served.end()?;
        std::fs::rename(&odd, &program).map_err(text)?;
    }
    Ok(())
}

/// A process whose first thread has ended hasn't.
fn first_thread_ends() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-pthread"], "first-ends.c")?;
    let mut running = room.start("running", &mut Command::new(program))?;
    let stat = format!("/proc/{}/stat", running.id());
    until("its first thread ends", || {
        std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z"))
    })?;
    let mut attach = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("attached", attach.arg("attach").arg(running.id().to_string()))?;
    kill_one(running.id().into(), Signal::SIGKILL);
    room.wait("running", &mut running)?;
    let is_said = ended.stderr.contains("its first thread has ended");
    if ended.code == 2 && is_said { Ok(()) } else { Err(format!("{ended:?}")) }
}
