//! `mcount attach`: traces a process that runs already, and leaves it as it was.
//!
//! Two processes do it. The one that was started waits: for signals, and for the other, the *worker*, which it has
//! made. The worker is the tracer and has the trace. It's in a process group of its own, so signals from a terminal don't reach
//! it; and whatever happens to the first process, SIGKILL included, the worker notices by a pipe, makes all hooks
//! idle, and finishes the trace. If it's the worker that is killed, the first one makes the hooks idle. If both are, the next
//! `mcount attach` does.

mod block;
mod control;
pub mod find;
mod forked;
mod free;
mod front;
mod handle;
mod instrumented;
mod launch;
mod list;
mod maps;
#[cfg(can_patch)]
pub mod patch;
mod program;
mod puns;
mod sample;
mod sandbox;
mod session;
mod sites;
mod survey;
mod terminal;
mod unwinders;
mod wanted;
mod watch;
mod words;
mod worker;

pub use self::front::attach;
pub use self::handle::{Call, Finished, Options, Session};
pub use self::list::list;
pub use self::sample::{
    Caller, IDLE_PROBE, Lot, Named, Observer, Opened, Progress, Quiet, Sampled, Sampling, Thinned,
};
use super::file::Size;
use super::processor;
use super::scope::Scope;
use crate::commit::Failure;
use mcount_ptrace::stop::{self, refused};
use mcount_ptrace::{Tracee, proc_text};
use nix::libc;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What to trace.
pub struct Request {
    /// The process; 0 if it's to be started.
    pub process: i32,
    /// The program to start and its arguments, if it doesn't run yet. It's ended with the trace.
    pub command: Vec<OsString>,
    /// The trace; by default it's named after the program. If there is a view, it's written when that's wished.
    pub output: Option<PathBuf>,
    /// Which calls, and what of them.
    pub scope: Scope,
    /// How large the trace may get.
    pub size: Size,
    /// For how long.
    pub duration: Option<Duration>,
    /// How many calls.
    pub calls: Option<u64>,
    /// The part of the program's processor time that tracing may cost.
    pub budget: Option<f64>,
    /// The reader of the calls.
    pub view: Option<Box<dyn View>>,
    /// Windows of calls instead of all.
    pub sampling: Option<Sampling>,
    /// Say which modules have hooks, and how long the program was stopped.
    pub verbose: bool,
    /// Says something, while it's being traced.
    pub say: Arc<dyn Fn(&str)>,
    /// Says what is wrong or missing; the exit code for an error.
    pub complain: Arc<dyn Fn(&str) -> u8>,
}

impl Request {
    /// Is the trace for somebody who looks at it, and then nobody's?
    fn is_hidden(&self) -> bool {
        self.view.is_some() || self.sampling.is_some()
    }
}

/// One function, as of now.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name, demangled.
    pub function: Arc<str>,
    /// The path of its module.
    pub module: Arc<str>,
    /// Calls that ended since the last picture.
    pub calls: u64,
    /// Calls that ended since the beginning.
    pub total_calls: u64,
    /// How long those since the last picture took together, in nanoseconds.
    pub total: u64,
    /// The same without what they called.
    pub own: u64,
    /// How long the longest of them took, in nanoseconds.
    pub longest: u64,
    /// Calls are still recorded.
    pub is_armed: bool,
    /// If it's a function that waits, the one that called it for longest, as far as that's known, demangled.
    pub caller: Option<Arc<str>>,
}

/// A function that a thread was in while others waited for a lock. Names are demangled.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The function that the others waited in.
    pub lock: Arc<str>,
    /// The function that the thread was in.
    pub function: Arc<str>,
    /// The function that called it.
    pub caller: Option<Arc<str>>,
}

/// The state of the work.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The path of the program.
    pub program: String,
    /// The process.
    pub process: i32,
    /// For how long it has been traced.
    pub running: Duration,
    /// Since the last picture.
    pub elapsed: Duration,
    /// Unread calls, as they came too fast.
    pub missed: u64,
    /// All functions.
    pub rows: Vec<Row>,
    /// What had the lock that threads waited for longest, as far as that can be seen.
    pub holder: Option<Holder>,
}

/// What who looks at it wants to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Nothing,
    /// Write the newest calls to a trace.
    Save,
    /// Stop tracing.
    End,
}

/// The reader of the calls while they're being traced.
pub trait View {
    /// It's going to be shown something.
    ///
    /// # Errors
    ///
    /// There's nothing to show it on.
    fn begin(&mut self) -> io::Result<()>;
    /// How often it wants to be shown something.
    fn interval(&self) -> Duration;
    /// A descriptor where something can be typed.
    fn input(&self) -> Option<i32>;
    /// Something was typed.
    fn typed(&mut self) -> Wish;
    /// This is going on.
    ///
    /// # Errors
    ///
    /// It can't be shown.
    fn show(&mut self, picture: Picture) -> io::Result<Wish>;
    /// This is the last picture.
    fn end(&mut self, picture: Picture);
    /// Something is to be reported.
    fn say(&mut self, text: &str);
}

/// Has a thread of the process a shadow stack that the processor keeps (CET)? Then return addresses have to stay as they
/// are.
fn has_shadow_stack(process: i32) -> bool {
    let threads = stop::threads(process).unwrap_or_default();
    threads.into_iter().any(|thread| {
        let text = proc_text(&format!("/proc/{thread}/status"));
        text.is_ok_and(|text| says_shadow_stack(&text))
    })
}

/// Does `/proc/THREAD/status` say so (the kernel's `arch/x86/shstk.rst`)?
fn says_shadow_stack(status: &str) -> bool {
    let mut features = status.lines().filter_map(|line| line.strip_prefix("x86_Thread_features:"));
    features.any(|features| features.split_whitespace().any(|feature| feature == "shstk"))
}

/// When a process that hasn't ended began, in clock ticks since the system did: with its number, that's unique.
#[must_use]
pub fn start_of(process: i32) -> Option<u64> {
    Tracee::new(process).start()
}

/// What an error of working on a process is, in words. It may end at any time.
fn why(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ESRCH) => "it has ended".to_owned(),
        _ => Failure::from(error).to_string(),
    }
}

/// Is this the error of a process that has ended, or is about to? Its memory goes first, and some kernels let nobody open it from then on.
fn has_ended(process: i32, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(libc::ESRCH)
        || start_of(process).is_none()
}

/// Can this process be attached to, as far as that's known without trying?
///
/// # Errors
///
/// It can't, and why.
fn check(process: i32) -> io::Result<()> {
    let other = |text: &str| Err(io::Error::other(text.to_owned()));
    let text = proc_text(&format!("/proc/{process}/stat"));
    let Ok(text) = text else { return other("there's no such process") };
    let state = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    if state.starts_with(['Z', 'X']) {
        // The others go on after pthread_exit() in the first thread. The kernel doesn't show their files by the process's number then.
        let is_alone = stop::threads(process).map_or(true, |threads| threads.len() < 2);
        return other(if is_alone {
            "it has ended"
        } else {
            "its first thread has ended, so mcount can't attach to the others; mcount trace follows them"
        });
    }
    if process == i32::try_from(std::process::id()).unwrap_or(0) {
        return other("it's mcount itself");
    }
    if let Some(text) = stop::traced(process) {
        return Err(io::Error::other(text));
    }
    check_program(process)
}

/// Is it a program for this processor?
fn check_program(process: i32) -> io::Result<()> {
    let other = |text: &str| Err(io::Error::other(text.to_owned()));
    let path = format!("/proc/{process}/exe");
    let head = crate::files::head::<20>(std::path::Path::new(&path));
    let head = head.map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            refused(process, io::Error::from_raw_os_error(libc::EPERM))
        }
        Some(libc::ENOENT) => io::Error::other("it's a thread of the kernel"),
        _ => error,
    })?;
    // EI_CLASS and e_machine.
    let [_, _, _, _, class, .., low, high] = head;
    if class != 2 || [low, high] != processor::MACHINE.to_le_bytes() {
        return other(processor::FOREIGN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_stacks_are_among_the_features() {
        let rows = [
            ("Name:\ta\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n", true),
            ("x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss\n", false),
            ("Name:\tshstk\n", false),
        ];
        for (text, expected) in rows {
            assert_eq!(says_shadow_stack(text), expected, "{text:?}");
        }
    }
}
