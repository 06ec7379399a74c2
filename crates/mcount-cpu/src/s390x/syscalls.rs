//! s390x: system calls, the clock, the thread pointer.

use core::arch::asm;

pub use crate::machine::add;
use crate::machine::{abort, numbers, reads, touch_stack};

numbers!(
    close: 6, getpid: 20, mmap: 90, munmap: 91, sched_yield: 158, nanosleep: 162, mremap: 163,
    rt_sigprocmask: 175, madvise: 219, gettid: 236, tgkill: 241, openat: 288
);

/// Makes the system call `number`; an error is `-errno`.
///
/// # Safety
///
/// As of that call.
#[expect(unsafe_code, clippy::must_use_candidate, reason = "an instruction, often for its effect")]
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
#[expect(unsafe_code, reason = "an instruction")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    let mut found = 0_u64;
    // SAFETY: stores eight bytes.
    unsafe { asm!("stckf 0({})", in(reg_addr) &raw mut found, options(nostack)) };
    found >> 2
}

reads!(
    /// What tells this thread from others: two access registers.
    thread_pointer,
    "ear {0}, %a0\n sllg {0}, {0}, 32\n ear {0}, %a1"
);

touch_stack!("lay {0}, -{1}(%r15)", "cli 0({0}), 0"; reg_addr);
abort!(".short 0");
