//! Rust's runtime ignores SIGPIPE before `main`, and
//! opens `/dev/null` where a standard descriptor is closed. The program that this process starts inherits what there was.

use nix::libc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The bits of standard descriptors that were closed, and that of SIGPIPE if it was ignored.
static FOUND: AtomicU8 = AtomicU8::new(0);
const PIPE: u8 = 1 << 3;

/// Is called before Rust's runtime begins (gABI, "Initialization and Termination Functions").
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut found = 0;
    for descriptor in 0..3 {
        // SAFETY: no pointer is passed.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            found |= 1 << descriptor;
        }
    }
    if super::told::is_ignored(libc::SIGPIPE) {
        found |= PIPE;
    }
    FOUND.store(found, Relaxed);
}

/// Has SIGPIPE do what it did, in a child before it executes a program. It makes system calls only.
pub(super) fn restore_signals() {
    let was_ignored = FOUND.load(Relaxed) & PIPE != 0;
    let action = if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler of ours is given.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}

/// Closes the standard descriptors that were closed, in a child before it executes a program. It makes system calls only.
pub(super) fn restore_descriptors() {
    let found = FOUND.load(Relaxed);
    for descriptor in (0..3).filter(|descriptor| found & 1 << descriptor != 0) {
        // SAFETY: the runtime opened it for itself, and nothing of this child uses it.
        unsafe { libc::close(descriptor) };
    }
}
