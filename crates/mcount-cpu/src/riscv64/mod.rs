//! RISC-V, 64 bits: hooks as bytes, addresses and the clock; where this is the processor, system calls.

pub mod abi;
pub mod code;
#[cfg(target_arch = "riscv64")]
pub mod syscalls;
