//! x86-64: system calls, the clock, the thread pointer.

use core::arch::asm;

pub use crate::machine::time_stamp as ticks;
use crate::machine::{abort, numbers, reads, touch_stack};

numbers!(
    close: 3, getpid: 39, mmap: 9, munmap: 11, sched_yield: 24, nanosleep: 35, mremap: 25,
    rt_sigprocmask: 14, madvise: 28, gettid: 186, tgkill: 234, openat: 257
);

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[expect(unsafe_code, clippy::must_use_candidate, reason = "an instruction, often for its effect")]
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") rdi, in("rsi") rsi, in("rdx") rdx,
            in("r10") r10, in("r8") r8, in("r9") r9, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

reads!(
    /// What tells this thread from others. Every C library keeps it there; the recorder sets up a page for before.
    thread_pointer,
    u64,
    "mov {}, fs:0",
    readonly
);

/// Adds to a word of this thread's; what it was. One instruction, so that signal handlers don't get in between.
///
/// # Safety
///
/// The word is aligned, and no other thread writes to it.
#[expect(unsafe_code, reason = "an instruction")]
#[inline]
pub unsafe fn add(word: *mut u64, number: u64) -> u64 {
    let mut found = number;
    // SAFETY: the caller promises that the word is aligned, and no other thread writes to it.
    unsafe { asm!("xadd [{}], {}", in(reg) word, inout(reg) found, options(nostack)) };
    found
}

touch_stack!("test byte ptr [rsp - {}], 0");
abort!("ud2");
