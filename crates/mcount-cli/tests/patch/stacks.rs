//! Threads that are in the way, in every manner.

use crate::Check;
use crate::program::{HOOKS, Room, command, patch, run, text, until, with};
use std::path::Path;
use std::process::{Child, Stdio};
use testkit::elsewhere;
use testkit::served::Served;

pub(crate) const TESTS: [(&str, Check); 10] = [
    ("stacks::in-a-function", in_a_function),
    ("stacks::in-another-function", in_another_function),
    ("stacks::recursion", recursion),
    ("stacks::other-stack", other_stack),
    ("stacks::static", in_a_static_program),
    ("stacks::musl", in_musl),
    ("stacks::waits", waits),
    ("stacks::interrupted", interrupted),
    ("stacks::new-function", new_function),
    ("stacks::exceptions", exceptions),
];

/// A thread is held by `how`: it's named, with the function that it's in.
fn held(compiler: &str, flags: &[&str], how: &str, function: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", compiler, flags, &["served.c"])?;
    let fix = room.fix("slow.so", &[], &["slow.c"])?;
    let fix = fix.to_string_lossy().into_owned();
    let mut served = Served::start(&program)?;
    let before = served.code()?;
    let thread = served.hold(how)?;
    let only = ["--wait", "20ms", "--function", function];
    let ended = with(&served, &only, &[&fix])?;
    let expected = format!("not patched: thread {thread} (");
    ended.is(1, &expected)?;
    ended.is(1, &format!(") will return to {function}+0x"))?;
    if served.code()? != before {
        return Err("something has changed".to_owned());
    }
    served.ask("free", if how == "deep" { "22" } else { "2" })?;
    with(&served, &only, &[&fix])?.is(0, "slow.so replaces")?;
    served.tell(how)?;
    let new = if how == "deep" { "1020" } else { "101" };
    if how == "hold" {
        served.line()?;
        served.ask("free", new)?;
        return served.end();
    }
    served.says(new)
}

fn in_a_function() -> Result<(), String> {
    held("gcc", HOOKS, "hold", "slow")
}

/// Hooks are calls, and the caller's address is behind one; or it's signed.
fn in_another_function() -> Result<(), String> {
    let flags: [&str; 3] = if cfg!(target_arch = "aarch64") {
        ["-O2", "-mbranch-protection=standard", "-fpatchable-function-entry=2"]
    } else {
        ["-O2", "-pg", "-mfentry"]
    };
    held("gcc", &flags, "hold", "slow")
}

fn recursion() -> Result<(), String> {
    held("gcc", HOOKS, "deep", "deep")
}

/// The function is interrupted by a signal whose handler has a stack of its own.
fn other_stack() -> Result<(), String> {
    held("gcc", HOOKS, "signal", "signalled")
}

fn in_a_static_program() -> Result<(), String> {
    held("gcc", &["-O2", "-static", "-fpatchable-function-entry=5"], "hold", "slow")
}

/// musl has no unwind information: what looks like an address on the stack counts.
fn in_musl() -> Result<(), String> {
    if testkit::tools::find("musl-gcc").is_none() {
        return Ok(());
    }
    let flags =
        ["-O2", "-static", "-fpatchable-function-entry=5", "-fno-asynchronous-unwind-tables"];
    let room = Room::new()?;
    let program = room.compile("served", "musl-gcc", &flags, &["served.c"])?;
    let fix = room.fix("slow.so", &[], &["slow.c"])?;
    let fix = fix.to_string_lossy().into_owned();
    let mut served = Served::start(&program)?;
    let thread = served.hold("hold")?;
    let only = ["--wait", "20ms", "--function", "slow"];
    let expected = format!("thread {thread} (waiter) may return to slow+0x");
    with(&served, &only, &[&fix])?.is(1, &expected)?;
    served.ask("free", "2")?;
    with(&served, &["--function", "slow"], &[&fix])?.is(0, "slow.so replaces slow")?;
    served.end()
}

/// A program with a thread in the function that's to be replaced, and `mcount patch`, which waits for it.
fn waiting(errors: Stdio) -> Result<(Room, Served, Child), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("slow.so", &[], &["slow.c"])?;
    let mut served = Served::start(&program)?;
    served.hold("hold")?;
    let id = served.id().to_string();
    let patching = command(&["--wait", "1m", &id]).arg(fix).stderr(errors).spawn().map_err(text)?;
    until("it brings the object", || is_brought(&served))?;
    Ok((room, served, patching))
}

/// It's done as soon as the thread is out.
fn waits() -> Result<(), String> {
    let (_room, mut served, mut patching) = waiting(Stdio::null())?;
    served.ask("free", "2")?;
    until("it patches", || !matches!(patching.try_wait(), Ok(None)))?;
    let status = patching.wait().map_err(text)?;
    if !status.success() {
        return Err(status.to_string());
    }
    served.hold("hold")?;
    served.ask("free", "101")?;
    served.end()
}

/// Has something been mapped that isn't patched in yet?
fn is_brought(served: &Served) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", served.id())).unwrap_or_default();
    maps.lines().filter(|line| line.contains("mcount-patch")).count() > 3
}

/// ^C while it waits.
fn interrupted() -> Result<(), String> {
    let (_room, mut served, mut patching) = waiting(Stdio::piped())?;
    let process = i32::try_from(patching.id()).map_err(text)?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGINT)
        .map_err(text)?;
    until("it ends", || !matches!(patching.try_wait(), Ok(None)))?;
    if patching.wait().map_err(text)?.code() != Some(1) {
        return Err("it ended with something else".to_owned());
    }
    served.ask("free", "2")?;
    with(&served, &["--list"], &[])?.is(0, "").and_then(|()| served.end())
}

/// A thread in a new function is waited for when that's reverted, or replaced again.
fn new_function() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("slow.so", &[], &["slow.c"])?;
    let mut served = Served::start(&program)?;
    patch(&served, &fix)?.is(0, "")?;
    let thread = served.hold("hold")?;
    let expected = format!("not reverted: thread {thread} (waiter) will return to slow+0x");
    with(&served, &["--revert", "--wait", "20ms"], &[])?.is(1, &expected)?;
    let fix = fix.to_string_lossy().into_owned();
    let expected = format!("not patched: thread {thread} (waiter) will return to slow+0x");
    with(&served, &["--wait", "20ms"], &[&fix])?.is(1, &expected)?;
    served.ask("free", "101")?;
    with(&served, &["--revert"], &[])?.is(0, "reverted 1 (slow.so)")?;
    served.hold("hold")?;
    served.ask("free", "2")?;
    served.end()
}

/// Programs that throw exceptions.
const THROWING: [(&str, &[&str]); 4] = [
    ("g++", HOOKS),
    ("g++", &["-O2", "-static", "-fpatchable-function-entry=5"]),
    #[cfg(target_arch = "x86_64")]
    ("g++", &["-O2", "-pg", "-mfentry"]),
    #[cfg(not(target_arch = "x86_64"))]
    ("g++", &["-O0", "-mbranch-protection=standard", "-fpatchable-function-entry=2"]),
    ("clang++", HOOKS),
];

/// Exceptions pass through new functions, and are caught there.
fn exceptions() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-shared", "-fPIC", "-O2"];
    let fix = room.compile("fix.so", "g++", &flags, &["throw-fix.cpp"])?;
    let is_there =
        |compiler| elsewhere::folder().is_some() || testkit::tools::find(compiler).is_some();
    let builds = THROWING.iter().filter(|(compiler, _)| is_there(compiler)).enumerate();
    // All at first, so that what's compiled elsewhere is asked for.
    let programs = builds.map(|(number, (compiler, flags))| {
        let program = room.compile(&format!("throw-{number}"), compiler, flags, &["throw.cpp"]);
        Ok((program?, format!("{compiler} {flags:?}")))
    });
    for (program, how) in programs.collect::<Result<Vec<_>, String>>()? {
        thrown(&program, &fix).map_err(|error| format!("{how}: {error}"))?;
    }
    Ok(())
}

fn thrown(program: &Path, fix: &Path) -> Result<(), String> {
    let mut served = Served::start(program)?;
    served.ask("", "1 1")?;
    let ended = run(command(&[&served.id().to_string()]).arg(fix))?;
    ended.is(0, "replaces through(int)")?;
    if ended.stderr.contains("warning") {
        return Err(ended.stderr);
    }
    for round in 1..=20 {
        served.ask("", &format!("10 {}", 1 + 100 * round))?;
    }
    with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    served.ask("", "1 2002")?;
    served.end()
}
