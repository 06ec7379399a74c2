//! i386: system calls, the clock, the thread pointer.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]
#![expect(
    unsafe_code,
    reason = "the one place where this crate does anything: the others are about bytes"
)]

use crate::numbers::numbers;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

// `mmap` is `mmap2`, which counts pages.
numbers!(
    close: 6, getpid: 20, mmap: 192, munmap: 91, sched_yield: 158, nanosleep: 162, mremap: 163,
    rt_sigprocmask: 175, madvise: 219, gettid: 224, tgkill: 270, openat: 295
);

// Assembly of its own, because the call takes all registers, and a signal may come in it: unwinders must find their way then.
global_asm!(
    "    .text",
    "    .globl mcount_system_call",
    "    .hidden mcount_system_call",
    "    .type mcount_system_call, @function",
    "mcount_system_call:",
    "    .cfi_startproc",
    "    .irp register, %ebp, %ebx, %esi, %edi",
    "    pushl \\register",
    "    .cfi_adjust_cfa_offset 4",
    "    .cfi_rel_offset \\register, 0",
    "    .endr",
    "    movl 20(%esp), %edi",
    "    movl (%edi), %eax",
    "    movl 4(%edi), %ebx",
    "    movl 8(%edi), %ecx",
    "    movl 12(%edi), %edx",
    "    movl 16(%edi), %esi",
    "    movl 24(%edi), %ebp",
    "    movl 20(%edi), %edi",
    "    int $0x80",
    "    .irp register, %edi, %esi, %ebx, %ebp",
    "    popl \\register",
    "    .cfi_adjust_cfa_offset -4",
    "    .cfi_restore \\register",
    "    .endr",
    "    ret",
    "    .cfi_endproc",
    "    .size mcount_system_call, . - mcount_system_call",
    options(att_syntax)
);

unsafe extern "C" {
    fn mcount_system_call(words: *const u32) -> u32;
}

/// Makes the system call `number`; an error is `-errno`. Each argument is a word; the offset of `mmap` is in bytes all the same.
///
/// # Safety
///
/// As of that call.
#[expect(clippy::cast_possible_truncation, reason = "words of a system call have 32 bits")]
#[inline]
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    /// The last addresses are numbers of errors.
    const ERRORS: u32 = 4095_u32.wrapping_neg();
    let [ebx, ecx, edx, esi, edi, last] = arguments;
    let ebp = if number == number::MMAP { last >> 12 } else { last };
    let words = [number, ebx, ecx, edx, esi, edi, ebp].map(|word| word as u32);
    // SAFETY: the caller promises that this system call may be made with these arguments.
    let result = unsafe { mcount_system_call(words.as_ptr()) };
    if result >= ERRORS { i64::from(result.cast_signed()) } else { i64::from(result) }
}

/// The processor's clock.
#[inline]
pub fn ticks() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the time stamp counter.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// What tells this thread from others.
#[inline]
pub fn thread_pointer() -> u64 {
    let found: u32;
    // SAFETY: every C library keeps the thread pointer there.
    unsafe { asm!("mov {}, gs:[0]", out(reg) found, options(nostack, readonly)) };
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
    unsafe { asm!("test byte ptr [esp - {}], 0", const BELOW, options(nostack, readonly)) };
}

/// Ends the process by an instruction that is none.
pub fn abort() -> ! {
    // SAFETY: as it says.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
