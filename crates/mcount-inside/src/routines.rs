//! The assembly, and what it calls.

#[cfg_attr(target_arch = "x86_64", path = "routines/x86_64.rs")]
#[cfg_attr(target_arch = "x86", path = "routines/i386.rs")]
#[cfg_attr(target_arch = "aarch64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "arm", path = "routines/arm.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "routines/loongarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "s390x", path = "routines/s390x.rs")]
mod here;
