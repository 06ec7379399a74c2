//! The signals of a keyboard.

/// Lets the programs that tests run see `SIGINT` and `SIGQUIT`, also if a shell runs the tests in the
/// background and has these ignored (POSIX.1-2024, XCU 2.12).
pub fn not_ignored() {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
    {
        use nix::sys::signal::{SigHandler, Signal, signal};
        for number in [Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: no handler runs.
            let _ = unsafe { signal(number, SigHandler::SigDfl) };
        }
    }
}
