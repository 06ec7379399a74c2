//! The registers of a call that handlers see.

#[cfg_attr(target_arch = "x86_64", path = "registers/x86_64.rs")]
#[cfg_attr(target_arch = "x86", path = "registers/i386.rs")]
#[cfg_attr(target_arch = "aarch64", path = "registers/aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "registers/arm.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "registers/loongarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "registers/riscv64.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "registers/powerpc64.rs")]
#[cfg_attr(target_arch = "s390x", path = "registers/s390x.rs")]
mod here;

pub use here::Registers;
