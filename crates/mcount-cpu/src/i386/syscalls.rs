//! i386: system calls, the clock, the thread pointer.
#![expect(unsafe_code, reason = "instructions")]

use core::arch::global_asm;

use crate::machine::{abort, numbers, reads, touch_stack};
pub use crate::machine::{add, time_stamp as ticks};

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
#[expect(clippy::must_use_candidate, reason = "often called for its effect")]
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

reads!(
    /// What tells this thread from others.
    thread_pointer,
    u32,
    "mov {}, gs:[0]",
    readonly
);

touch_stack!("test byte ptr [esp - {}], 0");
abort!("ud2");
