//! RISC-V, 64 bits: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
#[cfg(target_arch = "riscv64")]
pub mod agent;
pub mod code;
#[cfg(feature = "outside")]
pub mod outside;
#[cfg(feature = "outside")]
pub mod signals;
#[cfg(target_arch = "riscv64")]
pub mod syscalls;

/// The entry and the exit of a traced call, as macros of the assembler (GNU as).
pub const CALL: &str = concat!(include_str!("../macros/linked.s"), include_str!("call.s"));
