//! Signals that end a process, kept from ending it in the middle of a commit.
//!
//! The default action of a signal takes the whole process down, whichever thread it comes to. So in
//! `mcount record`, which has many, all threads block these signals and one waits for them: it lets the
//! commits end that have begun, keeps others from beginning, and then ends the process as the
//! signal would have. A signal that the caller ignores stays ignored. A program of one thread, as
//! `recordmcount` is, blocks them for the time of a commit.
//!
//! Blocked signals are inherited, so this is not for commands that run other programs: see
//! `children`.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

/// What a terminal, a shell or make sends to end a process. SIGKILL cannot be kept out: what it
/// leaves, the next run clears.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Held by each commit, and for good by the end of the process.
static COMMITS: RwLock<()> = RwLock::new(());

/// While it lives, no signal ends the process.
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

/// Waits for the commits that have begun; while it lives, no other begins.
pub(crate) fn no_commit() -> RwLockWriteGuard<'static, ()> {
    COMMITS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Lets signals end the process only between commits, whatever threads begin them. To be called
/// before there are other threads.
pub fn watch() {
    if ending().thread_block().is_ok() && thread::Builder::new().spawn(wait).is_err() {
        let _ = ending().thread_unblock();
    }
}

fn ending() -> SigSet {
    ENDING.into_iter().collect()
}

/// Waits for signals and lets them act.
fn wait() {
    while let Ok(signal) = ending().wait() {
        let _no_commit = no_commit();
        let one = SigSet::from(signal);
        let _ = one.thread_unblock();
        let _ = raise(signal);
        // Still here: it is ignored.
        let _ = one.thread_block();
    }
}

/// A write beyond `RLIMIT_FSIZE`, or to a pipe that nobody reads, is an error, and not the end of the
/// process.
pub fn take_failed_writes_as_errors() {
    let _ = SigSet::from_iter([Signal::SIGXFSZ, Signal::SIGPIPE]).thread_block();
}
