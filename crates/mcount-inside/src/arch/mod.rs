//! What depends on the processor: one Rust file and one assembly file each, here and in `registers` and `routines`, where some share one.

#[cfg(not(any(target_arch = "arm", target_arch = "riscv64")))]
mod first;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "x86", path = "i386.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "loongarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "powerpc64.rs")]
#[cfg_attr(target_arch = "s390x", path = "s390x.rs")]
mod here;
mod routines;
mod usual;
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
mod xsave;

/// The answer to an exception that passes through a watched call, where it isn't stopped there.
#[cfg(not(target_arch = "s390x"))]
pub(crate) const LOOK: Option<unsafe fn(u64, u64)> = None;

/// The number of a system call, whose type differs by processor.
pub(crate) fn system_call_number(number: impl Into<i64>) -> u64 {
    number.into().cast_unsigned()
}

/// How many bytes of its arguments a function takes off the stack, and one: i386 only.
#[cfg(not(target_arch = "x86"))]
pub(crate) fn popped(_: &[u8]) -> u64 {
    0
}

/// The address of code of this area, as a pointer to a function has it; arm: one bit of that says which instruction set the code is of.
#[cfg(not(target_arch = "arm"))]
pub(crate) fn pointer(_: &code::Area, address: u64) -> u64 {
    address
}

/// Why this area can be armed, and made idle again, only while the program has one thread; arm only.
#[cfg(not(target_arch = "arm"))]
pub(crate) fn wants_one_thread(_: &code::Area) -> Option<&'static str> {
    None
}

#[cfg(not(any(target_arch = "arm", target_arch = "riscv64")))]
pub(crate) use first::*;
pub(crate) use here::*;
pub(crate) use routines::*;
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
pub(crate) use xsave::show_vectors;
