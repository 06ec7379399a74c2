//! What is typed on a terminal isn't for the worker.

use nix::libc;

/// Signals that are typed for the program no longer reach this process.
///
/// A process group of its own is enough for that. A session of its own would be scheduled as a group of its own (autogroup,
/// `sched(7)`), and Linux 6.18 lets such a group wait for up to a minute if another one keeps all processors busy
/// (newer ones have b3d99f43c72b, "sched/fair: Fix `zero_vruntime` tracking"). A worker that reads keys needs one, though: a
/// process in the background can't read from its terminal.
pub(super) fn leave(is_typed_to: bool) {
    // SAFETY: no pointer to memory is passed. Nothing is executed later that would go on to ignore these signals.
    unsafe {
        if is_typed_to {
            libc::setsid();
            return;
        }
        libc::setpgid(0, 0);
        // It may write to the terminal in the background, whatever `stty tostop` says.
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::signal(libc::SIGTTIN, libc::SIG_IGN);
    }
}
