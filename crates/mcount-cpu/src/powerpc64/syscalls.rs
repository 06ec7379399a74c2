//! 64-bit PowerPC: system calls, the clock, the thread pointer.

use core::arch::asm;

pub use crate::machine::add;
use crate::machine::{abort, numbers, reads, touch_stack};

numbers!(
    close: 6, getpid: 20, mmap: 90, munmap: 91, sched_yield: 158, nanosleep: 162, mremap: 163,
    rt_sigprocmask: 174, madvise: 205, gettid: 207, tgkill: 250, openat: 286
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

reads!(
    /// The processor's clock: the time base.
    ticks,
    "mftb {}"
);

reads!(
    /// What tells this thread from others: where what the C library keeps of it ends. The register is 28 KiB above that (ELFv2 ABI,
    /// 3.7.2).
    thread_pointer,
    "addi {}, 13, -0x7000"
);

touch_stack!("lbz {0}, -{1}(1)"; reg);
abort!("trap");
