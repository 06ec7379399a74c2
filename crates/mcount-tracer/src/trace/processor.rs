//! What depends on the processor in tracing from outside: `code.rs` and `outside.rs` in its folder of `mcount-cpu`.

pub(crate) use mcount_cpu::here::outside::*;
pub(crate) use mcount_cpu::here::syscalls::ticks as clock;
pub(crate) use mcount_cpu::outside::Routines;
use nix::libc;

/// Flags of the agent's configuration that this processor has.
pub(crate) fn flags() -> u64 {
    // SAFETY: takes a number.
    let has = |bit| unsafe { libc::getauxval(libc::AT_HWCAP2) } & bit != 0;
    if SETS_BLOCK.is_some_and(has) { mcount_agent::flags::FSGSBASE } else { 0 }
}

/// The message about a feature that this processor lacks.
#[must_use]
pub fn missing(what: &str) -> String {
    format!("{what}: not on {NAME} yet")
}
