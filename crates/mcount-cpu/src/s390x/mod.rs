//! s390x: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
pub mod code;
#[cfg(target_arch = "s390x")]
pub mod syscalls;
