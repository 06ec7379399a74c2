//! x86-64: instructions that a thread is made to execute, and system calls.

mod registers;
pub(crate) mod rescue;
mod signal_frame;

pub use self::registers::GeneralRegisters;
pub(crate) use self::signal_frame::{SIGNAL_FRAME, SIGNAL_PLACE, leaves_signal, signal_frame};
use nix::libc;

/// An instruction that makes a system call.
pub const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];
/// A breakpoint.
pub const BREAKPOINT: &[u8] = &[0xcc];
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 1;
/// A return.
pub const RETURN: &[u8] = &[0xc3];
/// A jump to itself.
pub const HOLD: &[u8] = &[0xeb, 0xfe];

/// The kernel's name for vector registers and all that goes with them (`NT_X86_XSTATE`).
pub(crate) const VECTORS: [libc::c_int; 1] = [0x202];

/// System calls that return EINTR when their thread was stopped, and which may be made once more then: nothing has
/// been done yet.
pub(crate) const ENDED_BY_STOPS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
];
