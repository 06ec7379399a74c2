//! What depends on the processor in tracing from outside: one file each, with the same names in it.
//!
//! A constant that says no is something that isn't there on that processor; whoever is asked for it says so.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod here;

pub(crate) use here::*;

/// The message about a feature that this processor lacks.
#[cfg(not(can_patch))]
pub(crate) fn missing(what: &str) -> String {
    format!("{what}: not on {NAME} yet")
}
