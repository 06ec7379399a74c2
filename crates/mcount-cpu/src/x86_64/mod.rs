//! x86-64: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
#[cfg(target_arch = "x86_64")]
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
#[cfg(target_arch = "x86_64")]
pub mod syscalls;
#[cfg(feature = "outside")]
mod system_calls;
#[cfg(feature = "outside")]
pub mod values;

/// The entry and the exit of a traced call, as macros of the assembler (GNU as).
pub const CALL: &str = include_str!("call.s");
