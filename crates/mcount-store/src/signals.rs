//! Keeps signals from ending the process in the middle of a commit.
//!
//! By default, a signal ends the whole process, whichever thread gets it. `mcount record` has many
//! threads. All of them block these signals, and one waits for them. When a signal comes, it waits for
//! the commits that have begun, prevents new ones, and ends the process as the signal would have. A
//! signal that the caller ignores stays ignored. A program with one thread, such as `recordmcount`, only
//! blocks signals during a commit.
//!
//! Programs inherit blocked signals, so this isn't for commands that run other programs. They use
//! `children`.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{fs, io, thread};

/// The signals that a terminal, a shell or make sends to end a process. SIGKILL can't be blocked. The
/// next run cleans up after it.
pub const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Each commit holds it. When the process ends, it is taken and never released.
static COMMITS: RwLock<()> = RwLock::new(());

/// While this exists, no signal ends the process.
pub(crate) struct Guard {
    mask: Option<SigSet>,
    _commit: RwLockReadGuard<'static, ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mask) = self.mask {
            let _ = mask.thread_set_mask();
        }
    }
}

/// Begins a commit.
pub(crate) fn hold() -> Guard {
    let mask = ending().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok();
    Guard { mask, _commit: COMMITS.read().unwrap_or_else(PoisonError::into_inner) }
}

/// Waits for the commits that have begun. While it exists, no other can begin.
pub fn no_commit() -> RwLockWriteGuard<'static, ()> {
    COMMITS.write().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, signals end the process only between commits, whichever threads make them. Call this
/// before there are other threads.
pub fn watch() {
    if ending().thread_block().is_ok() && thread::Builder::new().spawn(wait).is_err() {
        let _ = ending().thread_unblock();
    }
}

/// Does `run` in a new thread whose stack has this size in bytes, and returns its result. That thread gets the signals, as if
/// the caller's weren't there.
///
/// # Errors
///
/// No thread can be made.
pub fn on_stack<T: Send>(bytes: u32, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = thread::scope(|scope| {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let run = || {
            let _ = before.thread_set_mask();
            run()
        };
        let thread = thread::Builder::new().stack_size(size).spawn_scoped(scope, run)?;
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    });
    let _ = before.thread_set_mask();
    result
}

fn ending() -> SigSet {
    ENDING.into_iter().collect()
}

/// How something is removed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removal {
    /// It's a file.
    File,
    /// It's a folder of this process alone.
    Folder,
    /// It's a folder that others may write into: only if it's empty.
    EmptyFolder,
}

impl Removal {
    fn remove(self, path: &Path) -> io::Result<()> {
        match self {
            Self::File => fs::remove_file(path),
            Self::Folder => fs::remove_dir_all(path),
            Self::EmptyFolder => fs::remove_dir(path),
        }
    }
}

/// What goes when a signal ends the process, the oldest first.
static UNFINISHED: Mutex<Vec<(PathBuf, Removal)>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<(PathBuf, Removal)>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this file or folder. If a signal ends the process, it's removed in this way. No signal comes in between.
pub(crate) fn make_unfinished<T>(
    path: &Path,
    removal: Removal,
    make: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let mut unfinished = unfinished();
    let new = make(path)?;
    unfinished.push((path.to_owned(), removal));
    Ok(new)
}

/// It stays.
pub(crate) fn stays_at_end(path: &Path) {
    unfinished().retain(|(one, _)| one != path);
}

/// Does the caller have this process ignore the signal with this number, as `nohup` does?
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // The name in it may be any bytes.
    let status = crate::files::read_to_end(Path::new("/proc/self/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 != 0)
}

/// Waits for signals, and then ends the process by them.
fn wait() {
    while let Ok(signal) = ending().wait() {
        let _no_commit = no_commit();
        // No other can be made now.
        let mut unfinished = unfinished();
        // One that's ignored comes here nevertheless, since it's blocked.
        if !is_ignored(signal as i32) {
            for (path, removal) in unfinished.drain(..).rev() {
                let _ = removal.remove(&path);
            }
        }
        let one = SigSet::from(signal);
        let _ = one.thread_unblock();
        let _ = raise(signal);
        // If the process still runs, the signal is ignored.
        let _ = one.thread_block();
    }
}

/// From now on, a write beyond `RLIMIT_FSIZE`, or to a pipe without a reader, is an error and doesn't
/// end the process.
pub fn take_failed_writes_as_errors() {
    let _ = SigSet::from_iter([Signal::SIGXFSZ, Signal::SIGPIPE]).thread_block();
}
