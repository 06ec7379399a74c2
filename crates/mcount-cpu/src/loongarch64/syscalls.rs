//! LoongArch, 64 bits: system calls, the clock, the thread pointer.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]
#![expect(
    unsafe_code,
    reason = "the one place where this crate does anything: the others are about bytes"
)]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use crate::newer_calls as number;

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    let [a0, a1, a2, a3, a4, a5] = arguments;
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe {
        asm!("syscall 0", in("$r11") number, inlateout("$r4") a0 => result, in("$r5") a1,
            in("$r6") a2, in("$r7") a3, in("$r8") a4, in("$r9") a5, lateout("$r12") _,
            lateout("$r13") _, lateout("$r14") _, lateout("$r15") _, lateout("$r16") _,
            lateout("$r17") _, lateout("$r18") _, lateout("$r19") _, lateout("$r20") _,
            options(nostack));
    }
    result
}

/// The clock that all processors have in common.
#[inline]
pub fn ticks() -> u64 {
    let found: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { asm!("rdtime.d {}, $zero", out(reg) found, options(nomem, nostack)) };
    found
}

/// What tells this thread from others.
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u64;
    // SAFETY: a register that every thread has.
    unsafe { asm!("move {}, $tp", out(reg) found, options(nomem, nostack)) };
    found
}

/// Adds to a word of this thread's; what it was. One instruction, so that signal handlers don't get in between.
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
        asm!("li.d {0}, {1}", "sub.d {0}, $sp, {0}", "ld.b {0}, {0}, 0", out(reg) _, const BELOW,
            options(nostack, readonly));
    }
}

/// Ends the process by an instruction that is none.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!(".4byte 0", options(noreturn, nostack)) }
}
