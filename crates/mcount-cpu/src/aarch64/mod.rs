//! AArch64: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
pub mod code;
#[cfg(target_arch = "aarch64")]
pub mod syscalls;

/// The entry and the exit of a traced call, as macros of the assembler (GNU as).
pub const CALL: &str = include_str!("call.s");
