//! What depends on the processor: one Rust file and one assembly file each, here and in `registers` and `routines`.

#[cfg(not(target_arch = "riscv64"))]
mod first;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod here;
mod routines;

#[cfg(not(target_arch = "riscv64"))]
pub(crate) use first::*;
pub(crate) use here::*;
pub(crate) use routines::*;
