//! System calls of Linux, without a C library. Errors are negative numbers, `-errno`.

use mcount_cpu::here::syscalls::number;
pub use mcount_cpu::here::syscalls::{abort, call};

/// Memory that can be read and written to.
pub const PROT_READ_WRITE: u64 = 3;
/// A process has its own.
pub const MAP_PRIVATE: u64 = 2;
/// At this address, whatever is there.
pub const MAP_FIXED: u64 = 0x10;
/// Of no file.
pub const MAP_ANONYMOUS: u64 = 0x20;
/// Costs nothing until it's used.
pub const MAP_NORESERVE: u64 = if cfg!(target_arch = "powerpc64") { 0x40 } else { 0x4000 };
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
const MADV_WIPEONFORK: u64 = 18;
const MADV_NOHUGEPAGE: u64 = 15;

/// Maps private memory at `address` (0: anywhere), which must be free. `None` if that can't be had.
pub fn map(address: u64, size: u64, protection: u64) -> Option<u64> {
    let fixed = if address == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed;
    // SAFETY: nothing that is mapped is replaced.
    let result = unsafe { call(number::MMAP, [address, size, protection, flags, u64::MAX, 0]) };
    let found = u64::try_from(result).ok().filter(|found| *found < 1 << 63)?;
    if address != 0 && found != address {
        // A kernel before 4.17 takes the address for a hint.
        // SAFETY: it was mapped just now.
        unsafe { call(number::MUNMAP, [found, size, 0, 0, 0, 0]) };
        return None;
    }
    // SAFETY: advice on memory that was mapped just now.
    unsafe { call(number::MADVISE, [found, size, MADV_NOHUGEPAGE, 0, 0, 0]) };
    Some(found)
}

/// Memory that a forked child finds full of zeroes.
pub fn map_wiped_on_fork(size: u64) -> Option<u64> {
    let found = map(0, size, PROT_READ_WRITE)?;
    // SAFETY: advice on memory that was mapped just now.
    let result = unsafe { call(number::MADVISE, [found, size, MADV_WIPEONFORK, 0, 0, 0]) };
    (result == 0).then_some(found)
}

/// Maps the `size` bytes of a shared mapping at `from` a second time, at `to`.
///
/// # Safety
///
/// The new mapping replaces the memory at `to`, so that must be the agent's.
pub unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
    // SAFETY: the caller promises that what is mapped at `to`, which is replaced, is the agent's.
    let result =
        unsafe { call(number::MREMAP, [from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0]) };
    u64::try_from(result).ok() == Some(to)
}

/// Puts zeroes at `to`, private ones, in the place of what is there.
///
/// # Safety
///
/// It must be the agent's.
pub unsafe fn reserve_again(to: u64, size: u64) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: the caller promises that it is the agent's.
    unsafe { call(number::MMAP, [to, size, PROT_READ_WRITE, flags, u64::MAX, 0]) };
}

/// The number of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: takes nothing, fails never.
    let result = unsafe { call(number::GETTID, [0; 6]) };
    u32::try_from(result).unwrap_or(0)
}

/// The number of this process.
pub fn process_id() -> u32 {
    // SAFETY: takes nothing, fails never.
    let result = unsafe { call(number::GETPID, [0; 6]) };
    u32::try_from(result).unwrap_or(0)
}

/// Has thread `thread` of process `process` ended?
pub fn is_gone(process: u32, thread: u32) -> bool {
    const ESRCH: i64 = -3;
    // SAFETY: signal 0 only asks.
    unsafe { call(number::TGKILL, [u64::from(process), u64::from(thread), 0, 0, 0, 0]) == ESRCH }
}

/// Lets other threads run.
pub fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

/// Waits a millisecond.
pub fn sleep_a_millisecond() {
    let time: [usize; 2] = [0, 1_000_000];
    // SAFETY: the time lives during the call; what's left of it isn't asked for.
    unsafe { call(number::NANOSLEEP, [(&raw const time) as u64, 0, 0, 0, 0, 0]) };
}

/// Whether there are 8 bytes to read at `address`, which isn't so beyond the end of a mapped file.
pub fn is_readable(address: u64) -> bool {
    /// Linux 5.14 and newer.
    const MADV_POPULATE_READ: u64 = 22;
    const PAGE: u64 = 4096;
    /// None of the three ways to change a signal set: the kernel reads the set first, and then refuses it.
    const NO_WAY: u64 = 64;
    const EFAULT: i64 = -14;
    const EINVAL: i64 = -22;
    let page = address & !(PAGE - 1);
    // An emulator such as QEMU does nothing for this. It would end by a signal if it read what isn't there.
    // SAFETY: the kernel only looks whether the page is there.
    let populated = unsafe { call(number::MADVISE, [page, PAGE, MADV_POPULATE_READ, 0, 0, 0]) };
    if populated != EINVAL {
        return populated != EFAULT;
    }
    // An older kernel, or one with larger pages.
    // SAFETY: it's only read, by the kernel, and nothing is changed.
    unsafe { call(number::RT_SIGPROCMASK, [NO_WAY, address, 0, 8, 0, 0]) != EFAULT }
}

/// Blocks these signals of this thread, and no others; what was blocked before.
pub fn set_signals(blocked: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both words live during the call; 8 is the size of a signal set.
    unsafe {
        call(
            number::RT_SIGPROCMASK,
            [2, (&raw const blocked) as u64, (&raw mut before) as u64, 8, 0, 0],
        )
    };
    before
}
