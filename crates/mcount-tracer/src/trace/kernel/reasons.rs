//! Why the kernel tells nothing, and what to do.

use super::instance;
use nix::libc;
use std::io;

/// Why threads can't be watched.
pub(in crate::trace) fn why_not(error: &io::Error) -> String {
    format!(
        "no context switches are recorded: {}",
        reason(error, "sysctl kernel.perf_event_paranoid=2")
    )
}

/// Why system calls can't be recorded.
pub(in crate::trace) fn why_no_calls(error: &io::Error) -> String {
    let hint = "run mcount as root, or: sysctl kernel.perf_event_paranoid=1";
    match error.get_ref() {
        Some(said) if said.to_string().starts_with(instance::CANNOT) => said.to_string(),
        Some(said) => format!("system calls can't be recorded: {said}"),
        None => format!("system calls can't be recorded: {}", reason(error, hint)),
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
