//! What depends on the processor in the agent's Rust: one file each, with the same names in it.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "x86", path = "i386.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "loongarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "powerpc64.rs")]
#[cfg_attr(target_arch = "s390x", path = "s390x.rs")]
mod here;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use here::PAD_LANDING;
#[cfg(target_pointer_width = "64")]
pub use here::SHADOWS;
pub use here::{
    ADDRESS_BITS, IS_CLOCK_COARSE, abort, add, call, number, thread_pointer, ticks, touch_stack,
};
