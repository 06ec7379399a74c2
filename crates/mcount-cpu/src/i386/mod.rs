//! i386: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
pub mod code;
#[cfg(target_arch = "x86")]
pub mod syscalls;
