//! Whether a process that runs already lets itself be traced, in a sandbox (seccomp).

use crate::trace::sandbox::{NEEDED, allows, filters};
use mcount_ptrace::{Standing, status, stop};
use nix::errno::Errno;
use std::io;

/// May all threads of `process` make the system calls that tracing takes?
///
/// # Errors
///
/// They mayn't, or that can't be known.
pub(super) fn check(process: i32) -> io::Result<()> {
    for id in stop::threads(process)? {
        match status(id, "Seccomp:") {
            None | Some(0) => continue,
            Some(1) => {
                return Err(io::Error::other("it has forbidden itself all system calls (seccomp)"));
            }
            Some(_) => {}
        }
        let Some(standing) = Standing::one(process, id)? else { continue };
        let filters = filters(id).map_err(|error| match error {
            Errno::EACCES | Errno::EPERM => io::Error::other(
                "its sandbox (seccomp) may kill it for the agent's system calls, and only \
                 root can read what the sandbox allows",
            ),
            error => error.into(),
        })?;
        drop(standing);
        for (name, number) in NEEDED {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            if !filters.iter().all(|filter| allows(filter, number)) {
                let text = format!(
                    "its sandbox (seccomp) forbids the system call {name}, which tracing needs"
                );
                return Err(io::Error::other(text));
            }
        }
    }
    Ok(())
}
