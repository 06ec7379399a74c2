//! Why the kernel tells nothing, and what to do.

use super::{Wanted, chosen, instance};
use nix::libc;
use std::io;

/// Why threads can't be watched.
pub(in crate::trace) fn why_not(error: &io::Error) -> String {
    format!(
        "no context switches are recorded: {}",
        reason(error, "sysctl kernel.perf_event_paranoid=2")
    )
}

/// What is said if it isn't known what wakes threads.
pub(super) const NO_WAKERS: &str = "context switches don't say what woke the thread: the kernel tells only root (run mcount as root)";

/// What is said if that's known only of threads of the program.
pub(super) const OWN_WAKERS: &str = "what wakes threads is only known if it's a thread of the program (allow more: sysctl kernel.perf_event_paranoid=-1)";

/// Why system calls or events can't be recorded.
pub(in crate::trace) fn why_nothing(error: &io::Error, wanted: &Wanted) -> String {
    let what = if wanted.calls { "system calls can't be recorded" } else { chosen::CANNOT };
    let hint = "run mcount as root, or: sysctl kernel.perf_event_paranoid=1";
    let is_known =
        |said: &str| [instance::CANNOT, chosen::CANNOT].iter().any(|what| said.starts_with(what));
    match error.get_ref().map(ToString::to_string) {
        Some(said) if is_known(&said) => said,
        Some(said) => format!("{what}: {said}"),
        None if error.raw_os_error() == Some(libc::EMFILE) && wanted.events.is_some() => {
            format!(
                "{what}: each takes a file descriptor for each thread and processor, and RLIMIT_NOFILE allows no more: choose fewer"
            )
        }
        None => format!("{what}: {}", reason(error, hint)),
    }
}

/// The reason, and how to allow it.
fn reason(error: &io::Error, allow: &str) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(" (allow it: {allow})"),
        Some(libc::EMFILE) => " (RLIMIT_NOFILE: one for each thread and processor)".to_owned(),
        _ => String::new(),
    };
    format!("{}{hint}", crate::commit::Failure::from(io::Error::from(error.kind())))
}
