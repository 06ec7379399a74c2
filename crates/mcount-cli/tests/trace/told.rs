//! What is said to a recorder that runs: to pause and to go on, and to write what its ring keeps. The trace has the calls of the
//! other times, and no others. And which processes and source files it's told to leave alone.

use crate::Test;
use crate::attach::{Attached, compare, text};
use crate::truth::{Room, kill_one, until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;
use testkit::trace::Trace;

/// What a test does.
type Check = fn() -> Result<(), String>;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, Check); 13] = [
        ("told::ignored", ignored),
        ("told::pause-attach", pause_attach),
        ("told::pause-trace", || pause_trace(HOOKS, &[])),
        ("told::pause-short-jumps", || {
            pause_trace(&["-O2", "-fpatchable-function-entry=7,5"], &[])
        }),
        ("told::pause-static", || {
            pause_trace(&["-O2", "-static", "-fpatchable-function-entry=5"], &[])
        }),
        ("told::pause-library-calls", pause_library_calls),
        ("told::pause-budget", pause_budget),
        ("told::pause-budget-attach", pause_budget_attach),
        ("told::write-attach", write_attach),
        ("told::write-trace", write_trace),
        ("told::no-ring", no_ring),
        ("told::files", files),
        ("told::files-attach", files_attach),
    ];
    let alone = ["fork.c", "spawn.c", "daemon.c"].map(|source| Test {
        name: format!("told::no-children/{source}"),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(move || alone(source)),
    });
    let test = |(name, run): (&str, Check)| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    };
    rows.map(test).into_iter().chain(alone).collect()
}

type Counts = BTreeMap<String, u64>;

fn sum(all: &[Counts]) -> Counts {
    let mut sum = Counts::new();
    for (name, count) in all.iter().flatten() {
        *sum.entry(name.clone()).or_default() += count;
    }
    sum
}

/// Sends a signal to a recorder, and waits until it has said this once more.
pub(crate) fn tell(recorder: u32, signal: Signal, said: &Path, answer: &str) -> Result<(), String> {
    let count = || std::fs::read_to_string(said).unwrap_or_default().matches(answer).count();
    let before = count();
    kill_one(recorder.into(), signal);
    until(answer, || count() > before)
}

const PAUSED: &str = "paused: send SIGUSR1 again to go on\n";
const GOES_ON: &str = "recording again\n";

/// Works, and pauses twice; what the trace is to have.
fn work(served: &mut Served, recorder: u32, said: &Path) -> Result<Counts, String> {
    let mut all = vec![served.work()?];
    for _ in 0..2 {
        tell(recorder, Signal::SIGUSR1, said, PAUSED)?;
        served.work()?;
        tell(recorder, Signal::SIGUSR1, said, GOES_ON)?;
        all.push(served.work()?);
    }
    Ok(sum(&all))
}

fn pause_attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let said = room.path("attached/stderr");
    let expected = work(&mut served, attached.child.id(), &said)?;
    let mut trace = attached.stop()?;
    compare(&expected, &trace)?;
    trace.check_nesting()?;
    has_notes(&trace)?;
    served.end()
}

/// Each pause is in the trace, with its beginning and with its end.
fn has_notes(trace: &Trace) -> Result<(), String> {
    let paused = trace.notes.iter().filter(|note| note.contains("SIGUSR1 paused the recording"));
    let count = |text: &str| paused.clone().filter(|note| note.contains(text)).count();
    let found = [" s on", " s to "].map(count);
    if found == [2, 2] { Ok(()) } else { Err(format!("{:?}", trace.notes)) }
}

/// A program that `mcount trace` runs; what it says goes to a file.
pub(crate) fn run(room: &Room, program: &Path, options: &[&str]) -> Result<Served, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain"]).args(options).arg("-o").arg(room.path("trace.mcount"));
    command.arg("--").arg(program);
    testkit::files::write(&room.path("said"), b"")?;
    let said = OpenOptions::new().append(true).open(room.path("said")).map_err(text)?;
    command.stderr(said);
    Served::command(&mut command)
}

/// Calls of the C library pause as well.
fn pause_library_calls() -> Result<(), String> {
    let flags = [HOOKS, &["-fno-builtin", "-DCALLS"]].concat();
    pause_trace(&flags, &["--library-calls", "labs"])
}

fn pause_trace(flags: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "served.c")?;
    let mut served = run(&room, &program, options)?;
    let recorder = served.id();
    let expected = work(&mut served, recorder, &room.path("said"))?;
    served.end()?;
    let mut trace = Trace::read(&room.path("trace.mcount"))?;
    compare(&expected, &trace)?;
    trace.check_nesting()?;
    has_notes(&trace)
}

const GIVEN_UP: &str = "no longer traced: hot";

/// Pauses and goes on, once `hot` has been given up; then its hook is idle still, and that of `rare` is armed.
fn pause_given_up(
    (process, program): (u32, &Path),
    recorder: u32,
    said: &Path,
) -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    until("it's given up", || {
        std::fs::read_to_string(said).unwrap_or_default().contains(GIVEN_UP)
    })?;
    tell(recorder, Signal::SIGUSR1, said, PAUSED)?;
    tell(recorder, Signal::SIGUSR1, said, GOES_ON)?;
    let memory = std::fs::OpenOptions::new()
        .read(true)
        .open(format!("/proc/{process}/mem"))
        .map_err(text)?;
    let mut found = Vec::new();
    for name in ["hot", "rare"] {
        let place = testkit::standing::address_of(process, program, name)?;
        let read = |place: u64| {
            let mut word = [0; 4];
            memory.read_exact_at(&mut word, place).map(|()| word).map_err(text)
        };
        found.push(is_on(place, read)?);
    }
    if found == [false, true] { Ok(()) } else { Err(format!("{found:x?}")) }
}

/// Is the armed hook at `place` on?
#[cfg(not(any(target_arch = "aarch64", target_arch = "powerpc64", target_arch = "riscv64")))]
pub(crate) fn is_on(
    place: u64,
    read: impl Fn(u64) -> Result<[u8; 4], String>,
) -> Result<bool, String> {
    match read(place)? {
        [0xe9, ..] => Ok(true),
        [0xa9, ..] => Ok(false),
        other => Err(format!("neither: {other:x?}")),
    }
}

/// The same: two instructions jump to its stub, which begins with a NOP, or with a jump.
#[cfg(target_arch = "riscv64")]
pub(crate) fn is_on(
    place: u64,
    read: impl Fn(u64) -> Result<[u8; 4], String>,
) -> Result<bool, String> {
    let [upper, lower] = [u32::from_le_bytes(read(place)?), u32::from_le_bytes(read(place + 4)?)];
    if (upper & 0xfff, lower & 0xf_ffff) != (0x317, 0x3_0067) {
        return Err(format!("not armed: {upper:x} {lower:x}"));
    }
    let distance = i64::from((upper & !0xfff).cast_signed()) + i64::from(lower.cast_signed() >> 20);
    Ok(read(place.wrapping_add_signed(distance))?.starts_with(&[0x13, 0]))
}

/// The same: a jump to its stub, which begins with a NOP, or with a jump.
#[cfg(target_arch = "aarch64")]
pub(crate) fn is_on(
    place: u64,
    read: impl Fn(u64) -> Result<[u8; 4], String>,
) -> Result<bool, String> {
    let jump = u32::from_le_bytes(read(place)?);
    if jump >> 26 != 5 {
        return Err(format!("not armed: {jump:x}"));
    }
    let distance = i64::from((jump << 6).cast_signed() >> 4);
    Ok(read(place.wrapping_add_signed(distance))? == [0x1f, 0x20, 0x03, 0xd5])
}

/// The same.
#[cfg(target_arch = "powerpc64")]
pub(crate) fn is_on(
    place: u64,
    read: impl Fn(u64) -> Result<[u8; 4], String>,
) -> Result<bool, String> {
    let jump = u32::from_le_bytes(read(place)?);
    if jump & 0xfc00_0003 != 0x4800_0000 {
        return Err(format!("not armed: {jump:x}"));
    }
    let distance = i64::from((jump << 6).cast_signed() >> 6);
    Ok(u32::from_le_bytes(read(place.wrapping_add_signed(distance))?) == 0x6000_0000)
}

fn pause_budget() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let served = run(&room, &program, &["--budget", "2%", "--ring", "1M"])?;
    let path = format!("/proc/{0}/task/{0}/children", served.id());
    let children = std::fs::read_to_string(path).map_err(text)?;
    let process = children.trim().parse().map_err(text)?;
    pause_given_up((process, &program), served.id(), &room.path("said"))
}

fn pause_budget_attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let served = Served::start(&program)?;
    let mut attached = Attached::start(&room, "attached", &["--budget", "2%"], served.id())?;
    let said = room.path("attached/stderr");
    pause_given_up((served.id(), &program), attached.child.id(), &said)?;
    kill_one(attached.child.id().into(), Signal::SIGINT);
    room.wait("attached", &mut attached.child)?;
    Ok(())
}

fn write_attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let folder = room.path("attached");
    let all = writes(&mut served, attached.child.id(), &folder, &folder.join("stderr"))?;
    compare(&all, &attached.stop()?)?;
    served.end()
}

fn write_trace() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = run(&room, &program, &["--ring", "64M"])?;
    let recorder = served.id();
    let all = writes(&mut served, recorder, &room.path(""), &room.path("said"))?;
    served.end()?;
    compare(&all, &Trace::read(&room.path("trace.mcount"))?)
}

/// Two times, what there is so far is written, to a file of its own; all there is in the end.
fn writes(
    served: &mut Served,
    recorder: u32,
    folder: &Path,
    said: &Path,
) -> Result<Counts, String> {
    let mut all = Vec::new();
    for number in 2..4 {
        all.push(served.work()?);
        tell(recorder, Signal::SIGUSR2, said, "written to ")?;
        let trace = Trace::read(&folder.join(format!("trace-{number}.mcount")))?;
        compare(&sum(&all), &trace)?;
        if !trace.finished || trace.dropped != 0 {
            return Err(format!("finished {}, dropped {}", trace.finished, trace.dropped));
        }
    }
    all.push(served.work()?);
    Ok(sum(&all))
}

/// Without a ring nothing is written, and nothing ends.
fn no_ring() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = run(&room, &program, &[])?;
    let first = served.work()?;
    tell(served.id(), Signal::SIGUSR2, &room.path("said"), "SIGUSR2 needs --ring")?;
    let all = sum(&[first, served.work()?]);
    served.end()?;
    compare(&all, &Trace::read(&room.path("trace.mcount"))?)
}

/// A program inherits that these signals are ignored.
fn ignored() -> Result<(), String> {
    /// Signals 10, 12 and 25. Others may be a matter of the C library.
    const ALL: u64 = 1 << 9 | 1 << 11 | 1 << 24;
    let room = Room::new()?;
    let script = "trap '' USR1 USR2 XFSZ; exec \"$@\"";
    let of = ["grep", "SigIgn", "/proc/self/status"];
    let traced = ["trace", "--plain", "--children", "-o", "trace.mcount", "--"];
    let mut found = Vec::new();
    for before in [&[][..], &[&[env!("CARGO_BIN_EXE_mcount")][..], &traced[..]].concat()] {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).args(before).args(of);
        found.push(room.run("ignored", &mut shell)?.stdout);
    }
    let set = |line: &String| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    let are_ignored = |line: &String| set(line).is_some_and(|set| set & ALL == ALL);
    if found.iter().all(are_ignored) { Ok(()) } else { Err(format!("{found:?}")) }
}

/// Of a program that makes others, only its own calls are recorded, and the others don't notice.
fn alone(source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, source)?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "--no-children", "-o", "trace.mcount", "--"]).arg(&program);
    let traced = room.run("traced", &mut command)?;
    if traced != untraced {
        return Err(format!("{traced:?} instead of {untraced:?}"));
    }
    let trace = room.trace("traced")?;
    let first = trace.processes.first().copied().ok_or("no process")?;
    // Those that outlive the first one aren't waited for by `mcount` either.
    let has_others =
        || room.counted("traced").is_ok_and(|all| all.keys().any(|(process, _)| *process != first));
    until("the others' counts", has_others)?;
    let (mut others, mut wrong) = (0, Vec::new());
    for ((process, function), count) in room.counted("traced")? {
        let expected = if process == first { count } else { 0 };
        others += u64::from(process != first);
        let found = trace.count(process, &function);
        if found != expected {
            wrong.push(format!("{function} of {process}: {found} instead of {expected}"));
        }
    }
    let is_alone = trace.processes.iter().all(|process| *process == first);
    if wrong.is_empty() && is_alone && others > 0 {
        Ok(())
    } else {
        Err(format!("{wrong:?}, processes {:?}, {others} functions of others", trace.processes))
    }
}

/// Options, functions that are traced then, and what is said.
type Row = (&'static [&'static str], &'static [&'static str], &'static str);

const FILES: &[Row] = &[
    (&["--file", "one.c"], &["main", "one", "another"], ""),
    (&["--file", "parts/*.c"], &["two"], ""),
    (
        &["--file", "t?o.c", "--file", "nothing.c"],
        &["two"],
        "warning: no function is in a file that matches nothing.c\n",
    ),
    (&["--file", "*.c", "--filter", "*o*"], &["one", "another", "two"], ""),
    (&["--file", "one.c", "--exclude", "main"], &["one", "another"], ""),
    (&["--file", "one.c", "--only-under", "two"], &[], ""),
    (&["--file", "two.c", "--only-under", "one"], &["two"], ""),
];

/// A program of two source files, one of them in a folder.
fn two_files(room: &Room, debug: &str) -> Result<std::path::PathBuf, String> {
    let folder = room.path("");
    std::fs::create_dir_all(folder.join("parts")).map_err(text)?;
    let one = "int two(int); __attribute__((noinline)) int another(int n) { __asm__(\"\"); return n; }\n\
               __attribute__((noinline)) int one(int n) { return two(n) + another(n); }\n\
               int main(void) { return one(3) - 9; }\n";
    let two = "__attribute__((noinline)) int two(int n) { __asm__(\"\"); return 2 * n; }\n";
    testkit::files::write(&folder.join("one.c"), one.as_bytes())?;
    testkit::files::write(&folder.join("parts/two.c"), two.as_bytes())?;
    let mut gcc = Command::new("gcc");
    gcc.args(HOOKS).args([debug, "one.c", "parts/two.c", "-o", "program"]).current_dir(&folder);
    testkit::process::run(&mut gcc)?;
    Ok(folder.join("program"))
}

fn files() -> Result<(), String> {
    let room = Room::new()?;
    let program = two_files(&room, "-g")?;
    for (options, functions, said) in FILES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command
            .args(["trace", "--plain", "-o", "trace.mcount"])
            .args(*options)
            .arg("--")
            .arg(&program);
        let ended = room.run("traced", &mut command)?;
        let trace = room.trace("traced")?;
        let names = ["main", "one", "another", "two"];
        let found: Vec<&str> = names.into_iter().filter(|name| trace.count(0, name) == 1).collect();
        let said = if said.is_empty() { String::new() } else { format!("mcount: {said}") };
        if found != *functions || ended.stderr != said || ended.code != 0 {
            return Err(format!("{options:?}: {found:?}, {ended:?}"));
        }
    }
    let why = "no debug information, so no source files: compile with -g";
    for (debug, glob, why) in
        [("-g", "*.h", "no hooked function matches the filter"), ("-g0", "one.c", why)]
    {
        let program = two_files(&room, debug)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command
            .args(["trace", "--plain", "-o", "trace.mcount", "--file", glob, "--"])
            .arg(&program);
        let ended = room.run("traced", &mut command)?;
        if ended.code != 2 || !ended.stderr.contains(why) {
            return Err(format!("{glob}: {ended:?}"));
        }
    }
    Ok(())
}

/// The same of a process that runs already.
fn files_attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-g"]].concat(), "served.c")?;
    let mut served = Served::start(&program)?;
    for (glob, is_there) in [("served.c", true), ("other.c", false)] {
        let options = ["--file", glob, "--list"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let listed = command.args(["attach", "--plain"]).args(options).arg(served.id().to_string());
        let listed = room.run("list", listed)?;
        if listed.stdout.contains("leaf@") != is_there {
            return Err(format!("{glob}: {listed:?}"));
        }
    }
    let attached = Attached::start(&room, "attached", &["--file", "*/served.c"], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.end()
}
