//! `mcount attach`: traces a process that runs already, and leaves it as it was.
//!
//! Two processes do it. The one that was started waits: for signals, and for the other, the *worker*, which it has
//! made. The worker is the tracer and has the trace. It's in a session of its own, so signals from a terminal don't reach
//! it; and whatever happens to the first process, SIGKILL included, the worker notices by a pipe, makes all hooks
//! idle, and finishes the trace. If it's the worker that is killed, the first one makes the hooks idle. If both are, the next
//! `mcount attach` does.

mod block;
mod front;
mod inside;
mod list;
mod maps;
mod program;
mod remote;
mod session;
mod sites;
mod stop;
mod unwinders;
mod worker;

pub use self::front::attach;
pub use self::list::list;
use super::file::Size;
use super::scope::Scope;
use nix::libc;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What to trace.
pub struct Request {
    /// The process.
    pub process: i32,
    /// The trace; by default it's named after the program.
    pub output: Option<PathBuf>,
    /// Which calls, and what of them.
    pub scope: Scope,
    /// How large the trace may get.
    pub size: Size,
    /// For how long.
    pub duration: Option<Duration>,
    /// How many calls.
    pub calls: Option<u64>,
    /// Say which modules have hooks, and how long the program stood.
    pub verbose: bool,
    /// Says something, while it's being traced.
    pub say: fn(&str),
    /// Says what is wrong or missing; the exit code for an error.
    pub complain: fn(&str) -> u8,
}

/// Why process `process` can't be traced, if the kernel says `error`.
fn refused(process: i32, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    let text = match status(process, "TracerPid:") {
        Some(tracer) if tracer != 0 => format!("process {tracer} traces it already"),
        _ => "it may not be traced: it's another user's, or has privileges, or the system doesn't allow it"
            .to_owned(),
    };
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The number in a line of `/proc/PROCESS/status`.
fn status(process: i32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}

/// When a process that hasn't ended began, in ticks since the system did: with its number, that's nobody else.
fn start_of(process: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may have spaces and parentheses in it.
    let rest = text.rsplit_once(") ")?.1;
    if rest.starts_with(['Z', 'X']) {
        return None;
    }
    rest.split(' ').nth(19)?.parse().ok()
}

/// Can this process be attached to, as far as that's known without trying?
///
/// # Errors
///
/// It can't, and why.
fn check(process: i32) -> io::Result<()> {
    let other = |text: &str| Err(io::Error::other(text.to_owned()));
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let Ok(text) = text else { return other("there's no such process") };
    let state = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    if state.starts_with(['Z', 'X']) {
        return other("it has ended");
    }
    if process == i32::try_from(std::process::id()).unwrap_or(0) {
        return other("it's this one");
    }
    if let Some(tracer) = status(process, "TracerPid:").filter(|tracer| *tracer != 0) {
        return Err(io::Error::other(format!("process {tracer} traces it already")));
    }
    if status(process, "Seccomp:").is_some_and(|mode| mode != 0) {
        return other("it runs in a sandbox (seccomp), which may end it for what the agent does");
    }
    let path = format!("/proc/{process}/exe");
    let head = crate::files::head::<20>(std::path::Path::new(&path));
    let head = head.map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            refused(process, io::Error::from_raw_os_error(libc::EPERM))
        }
        Some(libc::ENOENT) => io::Error::other("it's the kernel's"),
        _ => error,
    })?;
    // EI_CLASS and e_machine.
    let [_, _, _, _, class, .., low, high] = head;
    if class != 2 || [low, high] != [62, 0] {
        return other("it isn't a 64-bit x86 program");
    }
    Ok(())
}
