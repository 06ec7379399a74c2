//! What the system calls, the clock and the thread pointer of all processors have in common. The instructions are
//! each processor's own, in its `syscalls`, which these macros fill.

/// The function that makes system calls, where the kernel takes the number in one register, six arguments in others,
/// and returns in the first of these: the instruction, the register of the number, those of the arguments, and what
/// else changes.
#[cfg(any(target_arch = "aarch64", target_arch = "loongarch64", target_arch = "riscv64"))]
macro_rules! system_call {
    ($code:literal, $number:tt, [$first:tt, $second:tt, $third:tt, $fourth:tt, $fifth:tt, $sixth:tt] $(, $changed:tt)*) => {
        /// Makes the system call `number`; an error is `-errno`.
        ///
        /// # Safety
        ///
        /// As of that call.
        #[expect(unsafe_code, reason = "an instruction")]
        #[inline]
        pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
            let result: i64;
            let [first, second, third, fourth, fifth, sixth] = arguments;
            // SAFETY: the caller promises that this system call may be made with these arguments.
            unsafe {
                core::arch::asm!($code, in($number) number, inlateout($first) first => result,
                    in($second) second, in($third) third, in($fourth) fourth, in($fifth) fifth,
                    in($sixth) sixth, $(lateout($changed) _,)* options(nostack));
            }
            result
        }
    };
}

/// A function that reads a number which every thread has, and changes nothing: what it is, its name, and
/// instructions that write it to `{}`, the bits of which have the type that's given, or 64.
macro_rules! reads {
    ($(#[$about:meta])* $name:ident, $bits:ty, $code:literal, $($option:ident),+) => {
        $(#[$about])*
        #[expect(unsafe_code, reason = "an instruction")]
        #[must_use]
        #[inline]
        pub fn $name() -> u64 {
            let found: $bits;
            // SAFETY: Linux lets programs read it, and nothing changes.
            unsafe { core::arch::asm!($code, out(reg) found, options(nostack, $($option),+)) };
            found.into()
        }
    };
    ($(#[$about:meta])* $name:ident, $code:literal) => {
        $crate::machine::reads!($(#[$about])* $name, u64, $code, nomem);
    };
}

/// The processor's clock.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "an instruction")]
#[must_use]
#[inline]
pub fn time_stamp() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the time stamp counter.
    unsafe {
        core::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The function that touches the stack: instructions for a number `BELOW`, and the registers that they change.
macro_rules! touch_stack {
    ($($code:literal),+ $(; $class:ident)?) => {
        /// Reads the byte that's so far below the stack pointer, and forgets it.
        #[expect(unsafe_code, reason = "an instruction")]
        pub fn touch_stack<const BELOW: usize>() {
            // SAFETY: a stack that has no such byte has overflowed.
            unsafe {
                core::arch::asm!($($code,)+ $(out($class) _,)? const BELOW, options(nostack, readonly));
            }
        }
    };
}

/// The function that ends the process, by an instruction which traps.
macro_rules! abort {
    ($code:literal) => {
        /// Ends the process by an instruction that traps.
        #[expect(unsafe_code, reason = "an instruction")]
        pub fn abort() -> ! {
            // SAFETY: nothing runs after it.
            unsafe { core::arch::asm!($code, options(noreturn, nostack)) }
        }
    };
}

/// Linux's numbers of the system calls that a recorder makes, where a processor has its own, as a module.
#[cfg(not(any(target_arch = "aarch64", target_arch = "loongarch64", target_arch = "riscv64")))]
macro_rules! numbers {
    (close: $close:literal, getpid: $getpid:literal, mmap: $mmap:literal, munmap: $munmap:literal, sched_yield: $sched_yield:literal, nanosleep: $nanosleep:literal, mremap: $mremap:literal, rt_sigprocmask: $rt_sigprocmask:literal, madvise: $madvise:literal, gettid: $gettid:literal, tgkill: $tgkill:literal, openat: $openat:literal) => {
        /// Linux's numbers of system calls.
        pub mod number {
            /// `close`.
            pub const CLOSE: u64 = $close;
            /// `getpid`.
            pub const GETPID: u64 = $getpid;
            /// `mmap`.
            pub const MMAP: u64 = $mmap;
            /// `munmap`.
            pub const MUNMAP: u64 = $munmap;
            /// `sched_yield`.
            pub const SCHED_YIELD: u64 = $sched_yield;
            /// `nanosleep`.
            pub const NANOSLEEP: u64 = $nanosleep;
            /// `mremap`.
            pub const MREMAP: u64 = $mremap;
            /// `rt_sigprocmask`.
            pub const RT_SIGPROCMASK: u64 = $rt_sigprocmask;
            /// `madvise`.
            pub const MADVISE: u64 = $madvise;
            /// `gettid`.
            pub const GETTID: u64 = $gettid;
            /// `tgkill`.
            pub const TGKILL: u64 = $tgkill;
            /// `openat`.
            pub const OPENAT: u64 = $openat;
        }
    };
}

/// Adds to a word of this thread's; what it was. A signal handler that gets in between makes it be done again.
///
/// # Safety
///
/// The word is aligned.
#[cfg(not(target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "a word that others have, too")]
#[inline]
pub unsafe fn add(word: *mut u64, number: u64) -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    // SAFETY: the caller promises that the word is aligned.
    unsafe { AtomicU64::from_ptr(word) }.fetch_add(number, Relaxed)
}

#[cfg(not(any(
    target_arch = "aarch64",
    target_arch = "loongarch64",
    target_arch = "riscv64"
)))]
pub(crate) use numbers;
#[cfg(any(target_arch = "aarch64", target_arch = "loongarch64", target_arch = "riscv64"))]
pub(crate) use system_call;
pub(crate) use {abort, reads, touch_stack};
