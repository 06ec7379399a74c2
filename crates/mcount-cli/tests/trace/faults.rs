//! What goes wrong around the program: it's killed, the tracer is killed, the disk is full. The program doesn't
//! notice, and what was recorded is there.

use crate::Test;
use crate::truth::{Ended, Room, kill_group, kill_one, traced_process, tracer, until};
use nix::sys::signal::Signal;
use rustix::fs::{FlockOperation, flock};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;
use testkit::trace::{Trace, word};

type Run = fn() -> Result<(), String>;

/// Name, why it fails so far, what it does.
const TESTS: &[(&str, Option<&str>, Run)] = &[
    ("refused", None, refused),
    ("refused-hooks", None, refused_hooks),
    ("no-such-program", None, no_such_program),
    ("no-such-folder", None, no_such_folder),
    ("output-is-a-device", None, device),
    ("output-is-standard", None, standard_output),
    ("refused-keeps-trace", None, keeps_trace),
    ("two-tracers", None, two_tracers),
    ("no-proc", None, no_proc),
    ("stripped", None, stripped),
    ("interrupt-handled", None, || interrupt(true)),
    ("interrupt", None, || interrupt(false)),
    ("stop-and-continue", None, stop),
    ("kill-program", None, kill_program),
    ("kill-maker", None, kill_maker),
    ("shadow-stack", None, shadow_stack),
    ("kill-tracer", None, || kill_tracer(false)),
    ("kill-tracer-then-dlopen", None, || kill_tracer(true)),
    ("kill-tracer-at-dlopen", None, kill_tracer_that_was_asked),
    ("kill-tracer-early", None, kill_tracer_early),
    ("trace-deleted", None, deleted),
    ("disk-full", None, disk_full),
    ("disk-small", None, disk_small),
    ("stale-agents", None, stale_agents),
    ("file-size-limit", None, file_size_limit),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = |(name, open, run): &(&str, Option<&'static str>, Run)| Test {
        name: format!("fault::{name}"),
        wants: vec!["gcc"],
        open: *open,
        run: Box::new(*run),
    };
    TESTS.iter().map(test).collect()
}

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];
const LIBRARY: &[&str] = &["-O2", "-fpatchable-function-entry=5", "-shared", "-fPIC"];

/// `mcount` ended with 2 and one line that has `text`, and the program didn't run.
fn is_refused(room: &Room, command: &mut Command, text: &str) -> Result<(), String> {
    let ended = room.run("traced", command)?;
    let is_one_line = ended.stderr.lines().count() == 1 && ended.stderr.contains(text);
    let has_run = room.path("traced").join("mark").exists();
    let is_one_line = is_one_line && !ended.stderr.contains("os error");
    if ended.code == 2 && is_one_line && ended.stdout.is_empty() && !has_run {
        return Ok(());
    }
    Err(format!("{ended:?}, has run: {has_run}"))
}

/// No trace is left of a program that wasn't run.
fn no_trace(room: &Room) -> Result<(), String> {
    let is_left = room.path("traced").join("trace.mcount").exists();
    if is_left { Err("a trace is left".to_owned()) } else { Ok(()) }
}

/// A program without hooks doesn't run.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "bare.c")?;
    is_refused(&room, tracer(&program).arg("mark"), "no function has a hook")?;
    no_trace(&room)
}

/// It's said why, where there are hooks.
fn refused_hooks() -> Result<(), String> {
    let lost = "neither symbols nor unwind information say where its function begins";
    let none = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let short = ["-O2", "-fpatchable-function-entry=2"];
    let nameless = [&["-O2", "-fpatchable-function-entry=5", "-s"], &none[..]].concat();
    // One instruction is enough elsewhere.
    let short = cfg!(target_arch = "x86_64").then_some((&short[..], "too few bytes"));
    let rows = short.into_iter().chain([(&nameless[..], lost)]);
    let compiled = rows.map(|(flags, expected)| {
        let room = Room::new()?;
        let program = room.compile("gcc", flags, "bare.c")?;
        Ok((room, program, expected))
    });
    for (room, program, expected) in compiled.collect::<Result<Vec<_>, String>>()? {
        is_refused(&room, tracer(&program).arg("mark"), expected)?;
        no_trace(&room)?;
    }
    Ok(())
}

fn no_such_program() -> Result<(), String> {
    let room = Room::new()?;
    is_refused(&room, tracer(&room.path("nothing")).arg("mark"), "No such file")?;
    no_trace(&room)
}

fn no_such_folder() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command
        .args(["trace", "--plain", "-o", "/nonexistent/trace.mcount", "--"])
        .arg(program)
        .arg("mark");
    is_refused(&room, &mut command, "/nonexistent/trace.mcount: No such file")
}

/// What isn't a file isn't replaced by one. A pipe stands for `/dev/null`.
fn device() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let place = room.path("pipe");
    testkit::process::run(Command::new("mkfifo").arg(&place))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "-o"]).arg(&place).arg("--").arg(program).arg("mark");
    is_refused(&room, &mut command, "pipe: ")?;
    let is_file = std::fs::metadata(&place).map_or(true, |found| found.is_file());
    if is_file { Err("the pipe is gone".to_owned()) } else { Ok(()) }
}

/// The program maps its trace, so that can't be standard output.
fn standard_output() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "-o", "-", "--"]).arg(program).arg("mark");
    is_refused(&room, &mut command, "it has to be a file: --output NAME")
}

/// A trace that's there is only replaced by another one.
fn keeps_trace() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "bare.c")?;
    room.run("traced", &mut Command::new("true"))?;
    let trace = room.path("traced").join("trace.mcount");
    testkit::files::write(&trace, b"of before")?;
    is_refused(&room, tracer(&program).arg("mark"), "no function has a hook")?;
    match testkit::files::read(&trace)?.as_slice() {
        b"of before" => Ok(()),
        _ => Err("the trace of before is gone".to_owned()),
    }
}

/// Somebody else traces the program already: it isn't run.
fn two_tracers() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "--children", "-o", "outer.mcount", "--"]);
    command.arg(env!("CARGO_BIN_EXE_mcount")).args([
        "trace",
        "--plain",
        "-o",
        "trace.mcount",
        "--",
    ]);
    is_refused(&room, command.arg(program).arg("mark"), "another program traces it")?;
    no_trace(&room)
}

/// Needs to be allowed to unmount.
fn no_proc() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let mut allowed = Command::new("unshare");
    if let Err(why) = testkit::process::run(allowed.args(["-m", "umount", "-l", "/proc"])) {
        testkit::trial::ignore(why);
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_mcount")).args([
        "trace",
        "--plain",
        "-o",
        "trace.mcount",
        "--",
    ]);
    is_refused(&room, command.arg(program).arg("mark"), "/proc isn't mounted")?;
    no_trace(&room)
}

/// Functions without names are called by their addresses.
fn stripped() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "options.c")?;
    let symbols = testkit::process::run(Command::new("nm").arg(&program))?;
    let is_main = |line: &&str| line.ends_with(" T main");
    let line = symbols.lines().find(is_main).unwrap_or_default();
    let address = u64::from_str_radix(line.split(' ').next().unwrap_or_default(), 16);
    let address = address.map_err(|error| error.to_string())?;
    testkit::process::run(Command::new("strip").arg(&program))?;
    ended_with(&room.run("traced", &mut tracer(&program))?, 0, "29\n")?;
    let mut replay = Command::new(env!("CARGO_BIN_EXE_mcount"));
    replay.args(["replay", "--format", "csv"]).arg(room.path("traced").join("trace.mcount"));
    let text = testkit::process::run(&mut replay)?;
    let first = text.lines().nth(1).unwrap_or_default();
    if first.contains(&format!(",{address:#x},")) { Ok(()) } else { Err(text) }
}

fn ended_with(ended: &Ended, code: i32, stdout: &str) -> Result<(), String> {
    if ended.code == code && ended.stdout == stdout { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// ^C goes to the whole group: the program decides, and the trace is finished.
fn interrupt(is_handled: bool) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "interrupt.c")?;
    let mut command = tracer(&program);
    command.args(is_handled.then_some("handle"));
    let mut child = room.start("traced", &mut command)?;
    until("it begins", || room.printed("traced") == "ready\n")?;
    kill_group(&child, Signal::SIGINT);
    let ended = room.wait("traced", &mut child)?;
    let trace = room.trace("traced")?;
    if !trace.finished || trace.count(0, "wait_for_it") != 1 {
        return Err("the trace isn't finished".to_owned());
    }
    if is_handled {
        ended_with(&ended, 5, "ready\ninterrupted\n")?;
        return room.compare_counts("traced", &trace);
    }
    ended_with(&ended, 128 + 2, "ready\n")
}

/// A program that stops itself is stopped, also as those see it that look, and runs on when it's told to.
fn stop() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "ends.c")?;
    let mut child = room.start("traced", tracer(&program).arg("stop"))?;
    let process = traced_process(&child)?;
    // Before that it stops as well, for the tracer.
    until("it begins", || room.printed("traced") == "stop\n")?;
    until("it stops", || state(process).is_some_and(|state| "Tt".contains(state)))?;
    sleep(Duration::from_millis(50));
    if state(process).is_none_or(|state| !"Tt".contains(state)) {
        return Err("it doesn't stay stopped".to_owned());
    }
    kill_group(&child, Signal::SIGCONT);
    ended_with(&room.wait("traced", &mut child)?, 9, "stop\n")?;
    room.compare_counts("traced", &room.trace("traced")?)
}

/// The letter that the kernel has for what a process does.
fn state(process: u64) -> Option<char> {
    let text = testkit::files::read(Path::new(&format!("/proc/{process}/stat"))).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.rsplit_once(") ")?.1.chars().next()
}

/// A thread of it stands because it's traced. While one that has just begun does, the first one may wait for it.
fn one_stands(process: u64) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let numbers = threads.filter_map(|one| one.ok()?.file_name().to_str()?.parse().ok());
    numbers.into_iter().any(|thread| state(thread) == Some('t'))
}

/// `busy.c`, traced, with what it counts.
struct Busy {
    room: Room,
    child: Child,
    counts: PathBuf,
    process: u64,
}

const THREADS: usize = 3;

impl Busy {
    fn start(loads: bool) -> Result<Self, String> {
        let room = Room::new()?;
        let program = room.compile("gcc", HOOKS, "busy.c")?;
        let counts = room.path("counts");
        let mut command = tracer(&program);
        command.arg(&counts).arg(THREADS.to_string());
        if loads {
            command.arg(room.compile("gcc", LIBRARY, "plugin.c")?);
        }
        let child = room.start("traced", &mut command)?;
        until("it begins", || room.printed("traced") == "ready\n")?;
        let process = word(&testkit::files::read(&counts)?, 511 * 8);
        Ok(Self { room, child, counts, process })
    }

    /// How many calls of `check` its threads have counted.
    fn counted(&self) -> Result<u64, String> {
        let bytes = testkit::files::read(&self.counts)?;
        Ok((0..THREADS).map(|thread| word(&bytes, 64 * thread)).sum())
    }

    /// Whatever happened, its trace has what it had counted by then.
    fn has_at_least(&self, counted: u64) -> Result<Trace, String> {
        let trace = self.room.trace("traced")?;
        let found = trace.count(0, "check");
        if found < counted || counted == 0 {
            return Err(format!("counted {counted}, in the trace {found}"));
        }
        Ok(trace)
    }

    /// Has it end by itself, without whoever started it; it must have found all its results right.
    fn end(&self) -> Result<(), String> {
        kill_one(self.process, Signal::SIGTERM);
        until("it ends", || state(self.process).is_none_or(|state| state == 'Z'))?;
        match self.room.printed("traced").as_str() {
            "ready\nwrong 0\n" => Ok(()),
            other => Err(format!("it printed {other:?}")),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Only what still is what it was: numbers of processes are soon another's.
        if matches!(self.child.try_wait(), Ok(None)) {
            kill_group(&self.child, Signal::SIGKILL);
            let _ = self.child.wait();
        }
        let program = std::fs::read_link(format!("/proc/{}/exe", self.process));
        if program.is_ok_and(|program| program == self.room.path("busy")) {
            kill_one(self.process, Signal::SIGKILL);
        }
    }
}

/// At any moment: the trace opens and has every call that the program had counted, and hardly one more.
fn kill_program() -> Result<(), String> {
    for round in 0..6 {
        let mut busy = Busy::start(false)?;
        sleep(Duration::from_micros(300 * (1 << round)));
        kill_one(busy.process, Signal::SIGKILL);
        let ended = busy.room.wait("traced", &mut busy.child)?;
        ended_with(&ended, 128 + 9, "ready\n")?;
        let counted = busy.counted()?;
        // It may have just begun.
        if counted == 0 {
            continue;
        }
        let trace = busy.has_at_least(counted)?;
        let found = trace.count(0, "check");
        if found > counted + THREADS as u64 || !trace.finished {
            return Err(format!("counted {counted}, in the trace {found}, {}", trace.finished));
        }
    }
    Ok(())
}

/// A process is killed when it has made another one and nobody has been told yet. That one goes on, and is traced.
fn kill_maker() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "orphan.c")?;
    let mut child = room.start("traced", &mut tracer(&program))?;
    until("it begins", || room.printed("traced").ends_with('\n'))?;
    let maker = room.printed("traced").trim().parse().map_err(|_| "no process")?;
    let recorder = u64::from(child.id());
    kill_one(recorder, Signal::SIGSTOP);
    until("the recorder stands", || state(recorder) == Some('T'))?;
    testkit::files::write(&room.path("traced").join("go"), b"")?;
    until("the maker stands", || state(maker) == Some('t'))?;
    kill_one(maker, Signal::SIGKILL);
    until("the maker has ended", || state(maker).is_none_or(|state| state == 'Z'))?;
    kill_one(recorder, Signal::SIGCONT);
    let ended = room.wait("traced", &mut child)?;
    if ended.code != 0 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    room.compare_counts("traced", &room.trace("traced")?)
}

/// A processor with a shadow stack has a function return to where it was called from, or not at all.
fn shadow_stack() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-pg"], "shadow-stack.c")?;
    let ended = room.run("traced", &mut tracer(&program))?;
    let trace = room.trace("traced")?;
    let is_said = ended.stderr.lines().count() == 1 && ended.stderr.contains("shadow stack (CET)");
    if (ended.code, ended.stdout.as_str()) != (0, "0\n") || !is_said {
        return Err(format!("{ended:?}"));
    }
    match trace.count(0, "returns") {
        10 => room.compare_counts("traced", &trace),
        other => Err(format!("{other} calls of returns")),
    }
}

/// The program runs on untouched, whatever it does then, and all that it had done is in the trace.
fn kill_tracer(loads: bool) -> Result<(), String> {
    for round in 0..3 {
        let mut busy = Busy::start(loads)?;
        sleep(Duration::from_millis(2 << (2 * round)));
        let counted = busy.counted()?;
        busy.child.kill().and_then(|()| busy.child.wait()).map_err(|error| error.to_string())?;
        if counted != 0 {
            busy.has_at_least(counted)?;
        }
        let before = busy.counted()?;
        until("it runs on", || busy.counted().is_ok_and(|now| now > before + 3000))?;
        busy.end()?;
    }
    Ok(())
}

/// The tracer is killed while the program stands and waits for it.
fn kill_tracer_that_was_asked() -> Result<(), String> {
    let mut busy = Busy::start(true)?;
    kill_one(u64::from(busy.child.id()), Signal::SIGSTOP);
    until("it stands", || one_stands(busy.process))?;
    busy.child.kill().and_then(|()| busy.child.wait()).map_err(|error| error.to_string())?;
    let before = busy.counted()?;
    until("it runs on", || busy.counted().is_ok_and(|now| now > before + 3000))?;
    busy.end()
}

/// The tracer is killed at some moment while the program starts, or shortly before or after.
fn kill_tracer_early() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    for round in 0..40 {
        let name = format!("round {round}");
        let mut child = room.start(&name, tracer(&program).arg("mark"))?;
        let process = traced_process(&child)?;
        sleep(Duration::from_micros(300 * round));
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
        until("it ends", || state(process).is_none_or(|state| state == 'Z'))?;
        if !room.path(&name).join("mark").exists() {
            return Err(format!("killed after {} microseconds, it didn't run", 300 * round));
        }
    }
    Ok(())
}

/// Somebody deletes the trace.
fn deleted() -> Result<(), String> {
    let mut busy = Busy::start(true)?;
    let path = busy.room.path("traced").join("trace.mcount");
    std::fs::remove_file(path).map_err(|error| error.to_string())?;
    let before = busy.counted()?;
    until("it runs on", || busy.counted().is_ok_and(|now| now > before + 1000))?;
    kill_one(busy.process, Signal::SIGTERM);
    ended_with(&busy.room.wait("traced", &mut busy.child)?, 0, "ready\nwrong 0\n")
}

/// Calls of `big.c`, which don't fit into 64 MiB.
const MANY: u64 = 8_000_000;

/// It printed what it prints untraced; the others are counted, and `mcount` says in a line that they're missing.
fn is_cut_off(room: &Room, ended: &Ended, trace: &Trace) -> Result<(), String> {
    let untraced = room.run("untraced", Command::new(room.path("big")).arg(MANY.to_string()))?;
    ended_with(ended, untraced.code, &untraced.stdout)?;
    let (found, dropped) = (trace.count(0, "leaf"), trace.dropped);
    if ended.stderr.lines().count() != 1 || !ended.stderr.contains("not recorded") {
        return Err(ended.stderr.clone());
    }
    // One is `main`, which may be either.
    if found == 0 || dropped == 0 || (found + dropped).abs_diff(MANY) > 1 || !trace.finished {
        return Err(format!("{found} calls, {dropped} dropped, finished {}", trace.finished));
    }
    Ok(())
}

/// Does something with a file system of so many MiB. Needs to be allowed to mount one.
fn on_disk(
    room: &Room,
    size: u32,
    act: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let disk = room.path("disk");
    std::fs::create_dir(&disk).map_err(|error| error.to_string())?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"]).arg(&disk);
    if let Err(why) = testkit::process::run(&mut mount) {
        testkit::trial::ignore(why);
    }
    let result = act(&disk);
    testkit::process::run(Command::new("umount").arg(&disk))?;
    result
}

fn disk_full() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "big.c")?;
    on_disk(&room, 96, |disk| {
        let place = disk.join("trace.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain", "-o"]).arg(&place).arg("--");
        let ended = room.run("traced", command.arg(program).arg(MANY.to_string()))?;
        is_cut_off(&room, &ended, &Trace::read(&place)?)?;
        // It leaves 16 MiB free, and not much more.
        let size = std::fs::metadata(&place).map_err(|error| error.to_string())?.len() >> 20;
        if (72..=80).contains(&size) { Ok(()) } else { Err(format!("{size} of 96 MiB")) }
    })
}

/// Where a trace can't begin, nothing is run, and nothing stays.
fn disk_small() -> Result<(), String> {
    let room = Room::new()?;
    on_disk(&room, 8, |disk| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "-o"]).arg(disk.join("trace.mcount"));
        let ended = room.run("traced", command.args(["--", "echo", "run"]))?;
        let left = std::fs::read_dir(disk).map_err(|error| error.to_string())?.count();
        let is_said = ended.stderr.contains("its disk has 8 MB free");
        match (ended.code, &ended.stdout[..], is_said, left) {
            (2, "", true, 0) => Ok(()),
            _ => Err(format!("{left} files, {ended:?}")),
        }
    })
}

/// What recorders left in the folder for temporary files that were killed goes, and nothing else.
fn stale_agents() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "big.c")?;
    let place = room.path("tmp");
    let folder = |name: &str| place.join(format!(".mcount-agent-{name}"));
    for name in ["killed", "held", "young"] {
        std::fs::create_dir_all(folder(name)).map_err(|error| error.to_string())?;
        room.run("made", Command::new("touch").arg(folder(name).join("agent.so")))?;
        let mut touch = Command::new("touch");
        let age = if name == "young" { "now" } else { "1 hour ago" };
        room.run("touched", touch.args(["-d", age]).arg(folder(name)))?;
    }
    let agent = folder("held").join("agent.so");
    let held = OpenOptions::new().read(true).open(agent).map_err(|error| error.to_string())?;
    flock(&held, FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command
        .env("TMPDIR", &place)
        .args(["trace", "-o", "trace.mcount", "--"])
        .arg(program)
        .arg("10");
    let ended = room.run("traced", &mut command)?;
    let left = ["killed", "held", "young"].map(|name| folder(name).exists());
    let count = std::fs::read_dir(&place).map_err(|error| error.to_string())?.count();
    match (left, count) {
        ([false, true, true], 2) => Ok(()),
        _ => Err(format!("{left:?}, {count} folders, {ended:?}")),
    }
}

/// The limit is that of the shell, for the tracer and the program.
fn file_size_limit() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "big.c")?;
    let limited = |kibibytes: u32| {
        let mut command = Command::new("bash");
        let script = format!("ulimit -f {kibibytes}; exec \"$@\"");
        command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_mcount")]);
        command.args(["trace", "--plain", "-o", "trace.mcount", "--"]);
        command.arg(&program).arg(MANY.to_string());
        command
    };
    for (kibibytes, file) in [(8, "agent.so"), (1000, "trace.mcount")] {
        let ended = room.run("traced", &mut limited(kibibytes))?;
        let text = format!("{file}: File too large: raise ulimit -f\n");
        if ended.code != 2 || !ended.stderr.ends_with(&text) || room.path("trace.mcount").exists() {
            return Err(format!("{kibibytes}: {ended:?}"));
        }
    }
    let mut top = Command::new("bash");
    let script = "ulimit -f 8; exec \"$0\" top --once -- \"$1\"";
    top.args(["-c", script, env!("CARGO_BIN_EXE_mcount")]).arg(&program);
    let ended = room.run("top", &mut top)?;
    let text = ": /memfd:mcount-agent: File too large: raise ulimit -f\n";
    if ended.code != 2 || !ended.stderr.ends_with(text) {
        return Err(format!("{ended:?}"));
    }
    let ended = room.run("traced", &mut limited(65536))?;
    is_cut_off(&room, &ended, &room.trace("traced")?)
}
