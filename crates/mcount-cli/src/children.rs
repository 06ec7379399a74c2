//! Runs other programs, so that a signal leaves nothing half done.
//!
//! When a signal ends this process, the program that we run gets the signal too, with everything that it
//! runs itself: gcc runs collect2, which runs ld. We remove files that were begun. Then the process ends
//! as the signal would have ended it. [`signals`] does this for commands that don't run programs, by
//! blocking signals. That doesn't work here, because programs inherit blocked signals. They don't inherit
//! handlers.

use crate::commit::Failure;
use crate::files;
use crate::signals::{self, ENDING};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::SIGXFSZ;
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often we look whether all have ended.
const POLL: Duration = Duration::from_millis(5);

/// How many of the programs that a program runs get the signal, at most.
const MOST: usize = 4096;

/// How often we empty a folder into which a program that doesn't end may still write.
const ATTEMPTS: u32 = 8;

/// The exit code is this plus the number of the signal that ended a command, as in shells.
pub(crate) const SIGNALLED: u8 = 128;

/// The program that runs.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// Notified when it has ended.
static ENDED: Condvar = Condvar::new();

/// Whether a signal came. Its handler sets this, in any thread.
static IS_ENDING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Files and folders to remove after a signal, if they have changed.
static BEGUN: Mutex<BTreeMap<PathBuf, Option<Stamp>>> = Mutex::new(BTreeMap::new());

/// What changes when a file changes: its inode, its size, and the time of the last change in seconds and
/// nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp(u64, u64, i64, i64);

impl Stamp {
    /// The stamp of the file at `path`, if there is one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = path.metadata().ok()?;
        Some(Self(file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    }
}

/// From now on, a signal that ends this process also ends the programs that it runs, and removes what was
/// begun. A signal that the caller ignores stays ignored.
pub(crate) fn watch() {
    let (ready, is_ready) = channel();
    if thread::Builder::new().spawn(move || wait(&ready)).is_ok() {
        let _ = is_ready.recv();
    }
}

/// Waits for a signal, and ends the process.
fn wait(ready: &Sender<()>) {
    let all = ENDING.map(|signal| signal as i32).into_iter();
    let heard: Vec<i32> = all.filter(|signal| !signals::is_ignored(*signal)).collect();
    let Ok(mut signals) = Signals::new(&heard) else { return };
    for signal in heard {
        // In the handler itself, so that the thread that waits for a program knows it before the program
        // ends.
        let _ = flag::register(signal, Arc::clone(&IS_ENDING));
    }
    take_too_large_files_as_errors();
    let _ = ready.send(());
    if let Some(signal) = signals.forever().next() {
        end(signal);
    }
}

/// From now on, a write beyond `RLIMIT_FSIZE` is an error and doesn't end the process. Programs don't inherit handlers; but they do
/// inherit that it's ignored, so then it stays so.
pub(crate) fn take_too_large_files_as_errors() {
    if !signals::is_ignored(SIGXFSZ) {
        let _ = flag::register(SIGXFSZ, Arc::<AtomicBool>::default());
    }
}

/// Ends the process as `signal` would.
fn end(signal: i32) {
    let deadline = Instant::now() + PATIENCE;
    let running = locked(&RUNNING);
    let family = running.map(family).unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(signal) {
        for pid in &family {
            let _ = kill_process(*pid, signal);
        }
    }
    let running = ENDED.wait_timeout_while(running, PATIENCE, |running| running.is_some());
    drop(running);
    while family.iter().skip(1).any(|pid| runs(*pid)) && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    let _no_commit = signals::no_commit();
    // Keep the lock until the end, so that nothing can be begun any more.
    let begun = locked(&BEGUN);
    begun.iter().filter(|(path, before)| Stamp::of(path) != **before).for_each(|(path, _)| {
        remove(path);
    });
    let _ = low_level::emulate_default_handler(signal);
    // A signal doesn't end the first process of a container.
    process::exit(i32::from(SIGNALLED) + signal);
}

/// The process `pid`, with those that it started, directly or indirectly.
fn family(pid: Pid) -> Vec<Pid> {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(pid) = family.get(at).filter(|_| at < MOST) {
        let number = pid.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        let children = children.unwrap_or_default();
        family.extend(
            children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)),
        );
        at += 1;
    }
    family
}

/// Whether a process still runs. A process that ended and that its parent didn't wait for doesn't.
fn runs(pid: Pid) -> bool {
    // Its name may be any bytes.
    let status = files::read_to_end(Path::new(&format!("/proc/{}/status", pid.as_raw_nonzero())));
    status.is_ok_and(|status| memchr::memmem::find(&status, b"State:\tZ").is_none())
}

fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        let result = match path.symlink_metadata() {
            Ok(there) if there.is_dir() => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
        if result.is_ok() {
            return;
        }
    }
}

/// From now on, a signal removes what `create` makes or changes at `path`.
pub(crate) fn begin<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut begun = locked(&BEGUN);
    let before = Stamp::of(path);
    let made = create()?;
    begun.insert(path.to_owned(), before);
    Ok(made)
}

/// From now on, what is at `path` stays after a signal.
pub(crate) fn finish(path: &Path) {
    locked(&BEGUN).remove(path);
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With exit code 0.
    Success,
    /// With this exit code.
    Failure(u8),
    /// By the signal of this number.
    Killed(i32),
}

/// Runs a program, and waits until it ends.
///
/// # Errors
///
/// It can't be started. The error names it.
pub(crate) fn run(command: &mut Command) -> io::Result<Ending> {
    let status = status(command).map_err(|error| naming(command.get_program(), error))?;
    Ok(match (status.signal(), status.code()) {
        (Some(signal), _) => Ending::Killed(signal),
        (None, Some(0)) => Ending::Success,
        (None, code) => Ending::Failure(code.map_or(1, |code| u8::try_from(code).unwrap_or(1))),
    })
}

/// `error`, with the name of the program.
fn naming(name: &OsStr, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {}", name.display(), Failure::from(error)))
}

/// Runs a program, and waits until it ends.
///
/// # Errors
///
/// It can't be started.
pub(crate) fn status(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = start(command)?;
    // Until we have waited for it, no other program gets its number, so we can send it a signal.
    let until_end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let pid = Pid::from_child(&child);
    while matches!(waitid(WaitId::Pid(pid), until_end), Err(Errno::INTR)) {}
    let mut running = locked(&RUNNING);
    let status = child.wait();
    *running = None;
    drop(running);
    ENDED.notify_all();
    if IS_ENDING.load(Ordering::SeqCst) {
        stop();
    }
    status
}

/// Starts a program, unless a signal has come.
fn start(command: &mut Command) -> io::Result<Child> {
    let mut running = locked(&RUNNING);
    if IS_ENDING.load(Ordering::SeqCst) {
        drop(running);
        stop();
    }
    let child = command.spawn()?;
    *running = Some(Pid::from_child(&child));
    Ok(child)
}

/// Waits until the signal that came has ended the process.
fn stop() -> ! {
    loop {
        thread::park();
    }
}

fn locked<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
