//! AArch64: system calls, the clock, the thread pointer.
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
    let [x0, x1, x2, x3, x4, x5] = arguments;
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") x0 => result, in("x1") x1, in("x2") x2,
            in("x3") x3, in("x4") x4, in("x5") x5, options(nostack));
    }
    result
}

/// The processor's clock, which all of them have in common.
#[inline]
pub fn ticks() -> u64 {
    let found: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) found, options(nomem, nostack)) };
    found
}

/// What tells this thread from others.
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u64;
    // SAFETY: a register that every thread has.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) found, options(nomem, nostack)) };
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
        asm!("sub {0}, sp, #{1}", "ldrb wzr, [{0}]", out(reg) _, const BELOW,
            options(nostack, readonly));
    }
}

/// Ends the process by an instruction that is none.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!("udf #0", options(noreturn, nostack)) }
}
