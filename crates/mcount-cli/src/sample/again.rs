//! Sampling a program whenever it runs: its process is found, sampled by an `mcount sample` of its own, and looked for again when it
//! has ended.

use crate::trace::attach::find::{age, processes_of};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// The program, and how it's sampled.
pub struct Again<'a> {
    /// The file name of the program, or its path.
    pub program: &'a OsStr,
    /// Arguments of an `mcount` that samples a process, but for its number and the time.
    pub arguments: Vec<OsString>,
    /// For how long altogether.
    pub duration: Option<Duration>,
    /// Says what it does.
    pub say: fn(&str),
}

/// How often it looks for a process.
const LOOK: Duration = Duration::from_millis(500);
/// A process that is younger than this may still be loading its libraries.
const YOUNGEST: Duration = Duration::from_secs(1);

/// Samples the program until it's told to end, or the time is over; an exit code.
///
/// # Errors
///
/// No process can be made, or signals can't be heard.
pub fn sample_again(again: &Again<'_>) -> io::Result<u8> {
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
    let end = again.duration.map(|duration| Instant::now() + duration);
    let name = again.program.display();
    let mut is_said = false;
    let (mut refused, mut has_sampled) = (BTreeSet::new(), false);
    loop {
        if signals.pending().any(|signal| signal != SIGCHLD) {
            return Ok(0);
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            if !has_sampled {
                return Err(io::Error::other("no process of it could be sampled"));
            }
            return Ok(0);
        }
        let mut found = processes_of(again.program);
        found.retain(|process| !refused.contains(process));
        let Some((process, since)) = found.first().copied() else {
            if !is_said {
                (again.say)(&format!("waiting for {name}"));
                is_said = true;
            }
            std::thread::sleep(left.map_or(LOOK, |left| left.min(LOOK)));
            continue;
        };
        if age(since).is_some_and(|age| age < YOUNGEST) {
            std::thread::sleep(LOOK / 5);
            continue;
        }
        if found.len() > 1 {
            (again.say)(&format!("{} processes run {name}: {process} is the oldest", found.len()));
        }
        match sample(again, process, left, &mut signals)? {
            Status::Told(status) => return Ok(code_of(status)),
            // Its process has ended, or has executed a program.
            Status::Ended(status) if status.success() => has_sampled = true,
            // It has ended before, or can't be sampled, which was said. Another one may be.
            Status::Ended(_) => _ = refused.insert((process, since)),
        }
        is_said = false;
    }
}

/// How sampling one process ended.
enum Status {
    Ended(ExitStatus),
    /// It was told to.
    Told(ExitStatus),
}

fn code_of(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// Samples one process.
fn sample(
    again: &Again<'_>,
    process: i32,
    left: Option<Duration>,
    signals: &mut Signals,
) -> io::Result<Status> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(&again.arguments).arg(format!("--parent={}", std::process::id()));
    if let Some(left) = left {
        command.arg(format!("--duration={}ns", left.as_nanos()));
    }
    command.arg("--").arg(process.to_string());
    let mut child = command.spawn()?;
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if is_told { Status::Told(status) } else { Status::Ended(status) });
        }
        for signal in signals.wait() {
            if signal != SIGCHLD
                && let Some(signal) = Signal::from_named_raw(signal)
                && let Some(id) = Pid::from_raw(child.id().cast_signed())
            {
                is_told = true;
                // It's this process's child, so its number isn't another's.
                let _ = kill_process(id, signal);
            }
        }
    }
}
