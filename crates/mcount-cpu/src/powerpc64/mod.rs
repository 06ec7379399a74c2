//! 64-bit PowerPC: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
#[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
pub mod agent;
pub mod code;
#[cfg(feature = "outside")]
pub mod outside;
#[cfg(feature = "outside")]
pub mod signals;
#[cfg(target_arch = "powerpc64")]
pub mod syscalls;
#[cfg(feature = "outside")]
mod system_calls;

/// The entry and the exit of a traced call, as macros of the assembler (LLVM's).
pub const CALL: &str = concat!(include_str!("../macros/linked.s"), include_str!("call.s"));
