//! AArch64, little endian: instructions that a thread is made to execute, and system calls.

mod registers;
pub(crate) mod rescue;
mod signal_frame;

pub use self::registers::GeneralRegisters;
pub(crate) use self::signal_frame::{SIGNAL_FRAME, SIGNAL_PLACE, leaves_signal, signal_frame};
use nix::libc;

/// An instruction that makes a system call.
pub const SYSTEM_CALL: &[u8] = &[0x01, 0, 0, 0xd4];
/// A breakpoint.
pub const BREAKPOINT: &[u8] = &[0, 0, 0x20, 0xd4];
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 0;
/// A return.
pub const RETURN: &[u8] = &[0xc0, 0x03, 0x5f, 0xd6];
/// A jump to itself.
pub const HOLD: &[u8] = &[0, 0, 0, 0x14];

/// The kernel's name for vector registers, of which SVE's longer ones are a part (`NT_ARM_SVE`); where there are none of these, for those of
/// 128 bits (`NT_PRFPREG`).
pub(crate) const VECTORS: [libc::c_int; 2] = [0x405, 2];

/// System calls that return EINTR when their thread was stopped, and which can be made once more: none, as `interrupted_call` says.
pub(crate) const ENDED_BY_STOPS: &[i64] = &[];
