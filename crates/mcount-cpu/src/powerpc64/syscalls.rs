//! 64-bit PowerPC: system calls, the clock, the thread pointer.
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
    rt_sigprocmask: 174, madvise: 205, gettid: 207, tgkill: 250, openat: 286
);

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    let [r3, r4, r5, r6, r7, r8] = arguments;
    // SAFETY: the caller promises that this system call may be made with these arguments. An error is a positive
    // number, and a bit of the condition register.
    unsafe {
        asm!("sc", "bns+ 2f", "neg 3, 3", "2:", inlateout("r0") number => _,
            inlateout("r3") r3 => result, inlateout("r4") r4 => _, inlateout("r5") r5 => _,
            inlateout("r6") r6 => _, inlateout("r7") r7 => _, inlateout("r8") r8 => _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("cr0") _, out("ctr") _,
            out("xer") _, options(nostack));
    }
    result
}

/// The processor's clock: the time base.
#[inline]
pub fn ticks() -> u64 {
    let found: u64;
    // SAFETY: programs may read it.
    unsafe { asm!("mftb {}", out(reg) found, options(nomem, nostack)) };
    found
}

/// What tells this thread from others: where what the C library keeps of it ends. The register is 28 KiB above that (ELFv2 ABI, 3.7.2).
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u64;
    // SAFETY: a register that every thread has.
    unsafe { asm!("addi {}, 13, -0x7000", out(reg) found, options(nomem, nostack)) };
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
    unsafe { asm!("lbz {0}, -{1}(1)", out(reg) _, const BELOW, options(nostack, readonly)) };
}

/// Ends the process by an instruction that traps.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!("trap", options(noreturn, nostack)) }
}
