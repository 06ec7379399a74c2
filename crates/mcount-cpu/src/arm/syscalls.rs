//! Arm with 32 bits: system calls, the clock, the thread pointer.

use core::arch::asm;

pub use crate::machine::add;
use crate::machine::{abort, numbers, reads, touch_stack};

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
#[expect(unsafe_code, clippy::must_use_candidate, reason = "an instruction, often for its effect")]
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

#[expect(unsafe_code, reason = "a function of the C library")]
unsafe extern "C" {
    /// The C library's, which needs no system call. Only a library has one; there's no agent for this processor.
    fn clock_gettime(clock: i32, time: *mut [i32; 2]) -> i32;
}

/// The system's clock, in nanoseconds: programs can't count on being allowed to read the processor's.
#[expect(unsafe_code, reason = "an instruction")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = [0; 2];
    // SAFETY: the time is two words, of seconds since the system was started, and of nanoseconds.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    let [seconds, nanoseconds] = time.map(|word| u64::from(word.cast_unsigned()));
    seconds * 1_000_000_000 + nanoseconds
}

reads!(
    /// What tells this thread from others.
    thread_pointer,
    u32,
    "mrc p15, 0, {}, c13, c0, 3",
    nomem
);

touch_stack!("ldrb {}, [sp, #-{}]"; reg);
abort!("udf #0");
