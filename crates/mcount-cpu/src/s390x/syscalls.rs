//! s390x: system calls, the clock, the thread pointer.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]
#![expect(
    unsafe_code,
    reason = "the one place where this crate does anything: the others are about bytes"
)]

use crate::numbers::numbers;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

numbers!(
    close: 6, getpid: 20, mmap: 90, munmap: 91, sched_yield: 158, nanosleep: 162, mremap: 163,
    rt_sigprocmask: 175, madvise: 219, gettid: 236, tgkill: 241, openat: 288
);

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    // The one call whose arguments are in memory: `mmap`.
    let [first, r3, r4, r5, r6, r7] = arguments;
    let in_memory = arguments.as_ptr() as u64;
    let r2 = if number == number::MMAP { in_memory } else { first };
    let result: i64;
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe {
        asm!("svc 0", in("r1") number, inlateout("r2") r2 => result, in("r3") r3, in("r4") r4,
            in("r5") r5, in("r6") r6, in("r7") r7, options(nostack));
    }
    result
}

/// A quarter of the processor's clock, which has 4096 ticks in a microsecond and its highest bit set.
#[inline]
pub fn ticks() -> u64 {
    let mut found = 0_u64;
    // SAFETY: stores eight bytes.
    unsafe { asm!("stckf 0({})", in(reg_addr) &raw mut found, options(nostack)) };
    found >> 2
}

/// What tells this thread from others: two access registers.
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u64;
    // SAFETY: registers that every thread has.
    unsafe {
        asm!("ear {0}, %a0", "sllg {0}, {0}, 32", "ear {0}, %a1", out(reg) found,
            options(nomem, nostack));
    }
    found
}

/// Adds to a word of this thread's; what it was. A signal handler that gets in between makes it be done again.
///
/// # Safety
///
/// The word is aligned.
#[inline]
pub unsafe fn add(word: *mut u64, number: u64) -> u64 {
    // SAFETY: the caller promises that the word is aligned.
    unsafe { AtomicU64::from_ptr(word) }.fetch_add(number, Relaxed)
}

/// Reads the byte that's so far below the stack pointer, and forgets it.
pub fn touch_stack<const BELOW: usize>() {
    // SAFETY: a stack that has no such byte has overflowed.
    unsafe {
        asm!("lay {0}, -{1}(%r15)", "cli 0({0}), 0", out(reg_addr) _, const BELOW,
            options(nostack, readonly));
    }
}

/// Ends the process by an instruction that is none.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!(".short 0", options(noreturn, nostack)) }
}
