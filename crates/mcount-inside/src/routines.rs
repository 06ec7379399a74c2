//! The assembly, and what it calls.

/// The assembly of a processor, behind what all have and before what each thread has: its files, and what it refers to besides.
#[cfg(not(target_arch = "arm"))]
macro_rules! assembly {
    ($($file:expr),+; $($operands:tt)+) => {
        std::arch::global_asm!(
            include_str!(concat!(env!("MCOUNT_CPU"), "/macros/routine.s")),
            include_str!(concat!(env!("MCOUNT_CPU"), "/macros/pads.s")),
            include_str!("../arch/mark.s"),
            $(include_str!($file),)+
            include_str!("../arch/thread.s"),
            slow_exit = sym crate::agent::slow_exit,
            left = sym crate::watch::left,
            missed = sym crate::watch::MISSED,
            pad_pages = const mcount_recorder::pad_table::PAD_PAGES,
            pad_size = const mcount_cpu::here::abi::PAD_SIZE,
            $($operands)+
        );
    };
}

#[cfg_attr(target_arch = "x86_64", path = "routines/x86_64.rs")]
#[cfg_attr(target_arch = "x86", path = "routines/i386.rs")]
#[cfg_attr(target_arch = "aarch64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "arm", path = "routines/arm.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "routines/loongarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "routines/linked.rs")]
#[cfg_attr(target_arch = "s390x", path = "routines/s390x.rs")]
mod here;
