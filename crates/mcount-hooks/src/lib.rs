//! The parts that the recorder of other programs and the library inside a program share.
//!
//! Both find hooks in the files of modules, look where these are mapped, and need room near them for stubs. One does it to another
//! process and one to its own, so nothing here writes to memory or makes a system call, except that [`maps::read`] reads a file.
#![cfg_attr(not(test), forbid(unsafe_code))]

pub mod code;
pub mod maps;
pub mod near;
#[cfg(feature = "probe")]
mod parallel;
#[cfg(feature = "probe")]
pub mod probe;
pub mod usdt;

/// Bytes of a page, as the processors have them on which other programs are traced (x86-64, and `AArch64` as distributions configure
/// it).
pub const PAGE: u64 = 4096;
