//! Faults in system calls, by `strace -e inject`: at each that writes, one run.

use super::report;
use super::way::{Outcome, Runs, Way, completes, furnish, judge, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::room::Room;

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    kind: Kind,
}

enum Kind {
    /// The call is not made, and the process ends.
    Killed,
    /// The signal comes when the call is about to be made.
    Signalled(Signal),
    /// The call fails.
    Fails(&'static str),
    /// The call fails and so do all of its kind after it: undoing may not work either.
    FailsFromThere(&'static str),
    /// The call fails, and the process is killed while it undoes what it did.
    KilledUndoing,
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "SIGKILL", kind: Kind::Killed },
    Fault { name: "SIGINT", kind: Kind::Signalled(Signal::SIGINT) },
    Fault { name: "SIGTERM", kind: Kind::Signalled(Signal::SIGTERM) },
    Fault { name: "ENOSPC", kind: Kind::Fails("ENOSPC") },
    Fault { name: "EIO", kind: Kind::Fails("EIO") },
    Fault { name: "ENOSPC from there on", kind: Kind::FailsFromThere("ENOSPC") },
    Fault { name: "EIO, then SIGKILL", kind: Kind::KilledUndoing },
];

/// System calls that change a file or a folder. Those that open do, if they create.
const WRITING: &[&str] = &[
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "sendfile",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "fchownat",
    "fsync",
    "fdatasync",
];
const OPENING: &[&str] = &["open", "openat", "creat"];
const UNDOING: &str = "ftruncate,unlink,unlinkat,rmdir";

/// A system call of a run: its name, and how many of that name came before, itself counted.
struct Call {
    name: String,
    nth: usize,
}

/// Long enough for the signal to be sent while the call waits.
const DELAY: Duration = Duration::from_millis(100);

/// A run of `way` for each call that it makes.
pub(crate) fn all(way: &'static Way, fault: &'static Fault) -> Result<(), String> {
    let calls = learn(way)?;
    if calls.is_empty() {
        return Err("no call that writes was seen".to_owned());
    }
    for call in &calls {
        let outcome = one(way, &fault.kind, call)
            .map_err(|error| format!("{} at {} {}: {error}", fault.name, call.name, call.nth))?;
        report::count(way.name, fault.name, outcome);
    }
    Ok(())
}

/// `way` under strace, which writes to `log` what it traces: a process of its own, so that the
/// program's exit is seen as it is.
fn traced(way: &Way, room: &Room, log: &str, options: &[String]) -> Command {
    let names = WRITING.iter().chain(OPENING).copied().collect::<Vec<_>>().join(",");
    let mut command = Command::new("strace");
    command.args(["-D", "-qq", "-o", log, "-e", &format!("trace={names}")]).args(options);
    command.args(follow(way)).args(words(way)).current_dir(room.path(".")).stdin(Stdio::null());
    command
}

/// All threads, or the first alone where programs are run that are not to be disturbed.
fn follow(way: &Way) -> &'static [&'static str] {
    if way.runs == Runs::Nothing { &["-f"] } else { &[] }
}

/// The calls that write in an undisturbed run.
fn learn(way: &Way) -> Result<Vec<Call>, String> {
    let room = furnish(way)?;
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let log = folder.path().join("log");
    // Not detached: it ends when the log is whole.
    let names = WRITING.iter().chain(OPENING).copied().collect::<Vec<_>>().join(",");
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", &log.display().to_string(), "-e", &format!("trace={names}")]);
    testkit::process::run(command.args(follow(way)).args(words(way)).current_dir(room.path(".")))?;
    let log = String::from_utf8_lossy(&testkit::files::read(&log)?).into_owned();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for (name, line) in log.lines().filter_map(call_in) {
        let nth = counts.entry(name).or_default();
        *nth += 1;
        if !OPENING.contains(&name) || line.contains("O_CREAT") {
            calls.push(Call { name: name.to_owned(), nth: *nth });
        }
    }
    Ok(calls)
}

/// The name of the call that begins in this line of a log, perhaps after the number of the process.
fn call_in(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let (name, _) = rest.split_once('(')?;
    (WRITING.contains(&name) || OPENING.contains(&name)).then_some((name, line))
}

fn one(way: &'static Way, kind: &Kind, call: &Call) -> Result<Outcome, String> {
    let room = furnish(way)?;
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let log = folder.path().join("log").display().to_string();
    let Call { name, nth } = call;
    let inject = |what: &str| vec!["-e".to_owned(), format!("inject={name}:{what}")];
    let options = match kind {
        Kind::Killed => inject(&format!("signal=SIGKILL:when={nth}")),
        Kind::Signalled(_) => inject(&format!("delay_enter={}:when={nth}", DELAY.as_micros())),
        Kind::Fails(error) => inject(&format!("error={error}:when={nth}")),
        Kind::FailsFromThere(error) => inject(&format!("error={error}:when={nth}+")),
        Kind::KilledUndoing => {
            let undoing = vec!["-e".to_owned(), format!("inject={UNDOING}:signal=SIGKILL:when=1")];
            [inject(&format!("error=EIO:when={nth}")), undoing].concat()
        }
    };
    let mut command = traced(way, &room, &log, &options);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Kind::Signalled(signal) = kind {
        interrupt(&mut child, *signal, call, &log)?;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let is_killed = output.status.signal() == Some(9);
    // What cannot be removed stays, and the next run tries again.
    let stays = way.runs == Runs::Linker && UNDOING.split(',').any(|undoing| undoing == name);
    let outcome = judge(way, &room.path("."), is_killed || stays)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Where no write works, no message can be written.
    let is_said = !stderr.is_empty() || matches!(kind, Kind::FailsFromThere(_)) && name == "write";
    is_right(way, kind, output.status, outcome, is_said)
        .map_err(|error| format!("{error}; {outcome:?}; it said: {stderr}"))?;
    completes(way, &room.path("."))?;
    Ok(outcome)
}

/// Sends `signal` while `call` waits.
fn interrupt(child: &mut Child, signal: Signal, call: &Call, log: &str) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_reached = || {
        let text = testkit::files::read(log.as_ref()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let of_name = |line: &str| call_in(line).is_some_and(|(name, _)| name == call.name);
        // A call that waits has no end of line yet.
        text.lines().filter(|line| of_name(line)).count() >= call.nth
    };
    while !is_reached() {
        let has_ended = child.try_wait().map_err(|error| error.to_string())?.is_some();
        if has_ended || Instant::now() > deadline {
            return Err("the call was not seen".to_owned());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
    kill(Pid::from_raw(pid), signal).map_err(|error| error.to_string())
}

/// Whether the process ended as it should.
fn is_right(
    way: &Way,
    kind: &Kind,
    status: ExitStatus,
    outcome: Outcome,
    is_said: bool,
) -> Result<(), String> {
    let code = status.code();
    let succeeded = code == Some(0) && outcome == Outcome::New;
    let failed =
        code.is_some_and(|code| way.fails_with(code)) && outcome == Outcome::Old && is_said;
    let ended_by = |signal: i32| status.signal() == Some(signal);
    let is_right = match kind {
        Kind::Killed => ended_by(9),
        // It may come so late that the work is done.
        Kind::Signalled(signal) => ended_by(*signal as i32) || succeeded,
        Kind::Fails(_) | Kind::FailsFromThere(_) => succeeded || failed,
        Kind::KilledUndoing => ended_by(9) || succeeded || failed,
    };
    if is_right { Ok(()) } else { Err(format!("it ended with {status}")) }
}
