//! Arm with 32 bits: system calls, the clock, the thread pointer.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]
#![expect(
    unsafe_code,
    reason = "the one place where this crate does anything: the others are about bytes"
)]

use crate::numbers::numbers;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

// `mmap` is `mmap2`, which counts pages.
numbers!(
    close: 6, getpid: 20, mmap: 192, munmap: 91, sched_yield: 158, nanosleep: 162, mremap: 163,
    rt_sigprocmask: 175, madvise: 220, gettid: 224, tgkill: 268, openat: 322
);

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[expect(clippy::cast_possible_truncation, reason = "words of a system call have 32 bits")]
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    /// What's more than this is an error.
    const ERRORS: u32 = 4095_u32.wrapping_neg();
    let [r0, r1, r2, r3, r4, last] = arguments;
    let r5 = if number == number::MMAP { last >> 12 } else { last };
    let result: u32;
    // SAFETY: the caller promises that this system call may be made with these arguments. Compilers may keep r7 for themselves.
    unsafe {
        asm!("mov {kept}, r7", "mov r7, {number}", "svc #0", "mov r7, {kept}", kept = out(reg) _,
            number = in(reg) number as u32, inlateout("r0") r0 as u32 => result, in("r1") r1 as u32,
            in("r2") r2 as u32, in("r3") r3 as u32, in("r4") r4 as u32, in("r5") r5 as u32,
            options(nostack));
    }
    if result >= ERRORS { i64::from(result.cast_signed()) } else { i64::from(result) }
}

unsafe extern "C" {
    /// The C library's, which needs no system call. Only a library has one; there's no agent for this processor.
    fn clock_gettime(clock: i32, time: *mut [i32; 2]) -> i32;
}

/// The system's clock, in nanoseconds: programs can't count on being allowed to read the processor's.
#[inline]
pub fn ticks() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = [0; 2];
    // SAFETY: the time is two words, of seconds since the system was started, and of nanoseconds.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    let [seconds, nanoseconds] = time.map(|word| u64::from(word.cast_unsigned()));
    seconds * 1_000_000_000 + nanoseconds
}

/// What tells this thread from others.
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u32;
    // SAFETY: a register that every thread has (TPIDRURO).
    unsafe { asm!("mrc p15, 0, {}, c13, c0, 3", out(reg) found, options(nomem, nostack)) };
    u64::from(found)
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
        asm!("ldrb {}, [sp, #-{}]", out(reg) _, const BELOW, options(nostack, readonly));
    }
}

/// Ends the process by an instruction that is none.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!("udf #0", options(noreturn, nostack)) }
}
