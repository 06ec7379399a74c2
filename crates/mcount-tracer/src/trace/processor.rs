//! What depends on the processor in tracing from outside: `code.rs` and `outside.rs` in its folder of `mcount-cpu`.

use super::scope::Scope;
pub(crate) use mcount_cpu::here::outside::*;
pub(crate) use mcount_cpu::here::syscalls::ticks as clock;
pub(crate) use mcount_cpu::outside::Routines;
use nix::libc;
use std::io;

/// Flags of the agent's configuration that this processor has.
pub(crate) fn flags() -> u64 {
    // SAFETY: takes a number.
    let has = |bit| unsafe { libc::getauxval(libc::AT_HWCAP2) } & bit != 0;
    if SETS_BLOCK.is_some_and(has) { mcount_agent::flags::FSGSBASE } else { 0 }
}

/// Can what is asked for be recorded on this processor?
///
/// # Errors
///
/// Something can't.
pub(crate) fn check(scope: &Scope) -> io::Result<()> {
    let wanted = [
        (!scope.probe.is_empty(), HAS_PROBES, "probes"),
        (scope.has_values(), VALUES.is_some(), "arguments and results"),
        (!scope.library.is_empty(), LIBRARY_CALLS.is_some(), "calls of library functions"),
    ];
    match wanted.into_iter().find(|(is_wanted, is_there, _)| *is_wanted && !is_there) {
        Some((.., what)) => Err(io::Error::other(missing(what))),
        None => Ok(()),
    }
}

/// The message about a feature that this processor lacks.
#[must_use]
pub fn missing(what: &str) -> String {
    format!("{what}: not on {NAME} yet")
}
