//! AArch64: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
#[cfg(target_arch = "aarch64")]
pub mod agent;
pub mod code;
#[cfg(feature = "outside")]
pub mod library;
#[cfg(feature = "outside")]
pub mod outside;
#[cfg(feature = "outside")]
pub mod patch;
#[cfg(feature = "probe")]
pub mod probe;
#[cfg(feature = "outside")]
pub mod signals;
#[cfg(target_arch = "aarch64")]
pub mod syscalls;
#[cfg(feature = "outside")]
pub mod values;

/// The entry and the exit of a traced call, as macros of the assembler (GNU as).
pub const CALL: &str = concat!(include_str!("../macros/linked.s"), include_str!("call.s"));
