//! Waiting for threads in two steps: first it's seen which one has stopped or ended, then the kernel forgets that. In between, one that
//! has ended still has its number and its name, and nothing of it has to be held for that.

use nix::errno::Errno;
use nix::libc;

/// A thread that has stopped or ended, as the kernel still knows it.
pub(super) struct Seen {
    pub(super) thread: i32,
    pub(super) has_ended: bool,
}

/// Looks for a thread that has stopped or ended. `None`: there is none, and `flags` have `WNOHANG`.
///
/// # Errors
///
/// There are no threads, or a signal came.
pub(super) fn look(flags: i32) -> nix::Result<Option<Seen>> {
    // SAFETY: all of it may be zeroes.
    let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = flags | libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the kernel writes what's told, which is ours.
    Errno::result(unsafe { libc::waitid(libc::P_ALL, 0, &raw mut told, flags) })?;
    // SAFETY: it's of a child, or zeroes.
    let thread = unsafe { told.si_pid() };
    let has_ended = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&told.si_code);
    Ok((thread != 0).then_some(Seen { thread, has_ended }))
}

/// The status of a thread that was seen. `None`: it isn't what it was, so one looks again.
pub(super) fn take(thread: i32) -> nix::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: the status is a number of ours.
    let taken = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match Errno::result(taken) {
        Ok(0) | Err(Errno::ECHILD) => Ok(None),
        Ok(_) => Ok(Some(status)),
        Err(error) => Err(error),
    }
}
