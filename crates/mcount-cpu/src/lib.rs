//! What tracing has to know of a processor: a folder for each, with the same names in it.
//!
//! `code` says what a hook looks like in running code: idle, as a NOP, or armed, as a jump into the tracer; and how it gets from
//! one state to the other while threads execute it. It decides about bytes and nothing else. It reads no file, allocates nothing and
//! makes no system call, so that a kernel or an RTOS can use it as well as the tracer of user programs. The caller has the
//! memory: it hands in the bytes that are there and gets the bytes to write, or it lends [`engine::Code`].
//!
//! With the feature `outside`, a folder has what tracing from outside asks of the processor, too (`outside`). That allocates, and is
//! about plain data all the same. The feature `probe` adds what probes ask of a processor (`probe`), which are hooks in functions that no
//! compiler gave one.
//!
//! `abi` is what the system makes of the processor. `syscalls` is there only for the processor that this is compiled for, and so is
//! `here`, its folder.
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "outside")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aarch64;
mod area;
pub mod arm;
pub mod assembly;
pub mod condition;
pub mod counters;
pub mod engine;
pub mod hook;
pub mod i386;
pub mod linked;
pub mod loongarch64;
mod machine;
pub mod marker;
pub mod newer_calls;
pub mod one_word;
#[cfg(feature = "outside")]
pub mod outside;
pub mod powerpc64;
#[cfg(feature = "probe")]
pub mod probe;
pub mod recipe;
#[cfg(feature = "probe")]
mod references;
pub mod riscv64;
pub mod s390x;
pub mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64 as here;
#[cfg(target_arch = "arm")]
pub use arm as here;
#[cfg(target_arch = "x86")]
pub use i386 as here;
#[cfg(target_arch = "loongarch64")]
pub use loongarch64 as here;
#[cfg(target_arch = "powerpc64")]
pub use powerpc64 as here;
#[cfg(target_arch = "riscv64")]
pub use riscv64 as here;
#[cfg(target_arch = "s390x")]
pub use s390x as here;
#[cfg(target_arch = "x86_64")]
pub use x86_64 as here;
