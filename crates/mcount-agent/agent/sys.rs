//! System calls of Linux on x86-64, without a C library. Errors are negative numbers, `-errno`.

use core::arch::asm;

pub(crate) const PROT_NONE: u64 = 0;
pub(crate) const PROT_READ_WRITE: u64 = 3;
const PROT_READ_EXECUTE: u64 = 5;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
const MADV_WIPEONFORK: u64 = 18;
const MADV_NOHUGEPAGE: u64 = 15;

/// Makes the system call `number`.
///
/// # Safety
///
/// As of that call.
pub(crate) unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Maps private memory at `address` (0: anywhere), which must be free. `None` if that can't be had.
pub(crate) fn map(address: u64, size: u64, protection: u64) -> Option<u64> {
    let fixed = if address == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed;
    // SAFETY: nothing that is mapped is replaced.
    let result = unsafe { call(9, [address, size, protection, flags, u64::MAX, 0]) };
    let found = u64::try_from(result).ok().filter(|found| *found < 1 << 63)?;
    if address != 0 && found != address {
        // A kernel before 4.17 takes the address for a hint.
        // SAFETY: it was mapped just now.
        unsafe { call(11, [found, size, 0, 0, 0, 0]) };
        return None;
    }
    // SAFETY: advice on memory that was mapped just now.
    unsafe { call(28, [found, size, MADV_NOHUGEPAGE, 0, 0, 0]) };
    Some(found)
}

/// Memory that a forked child finds full of zeroes.
pub(crate) fn map_wiped_on_fork(size: u64) -> Option<u64> {
    let found = map(0, size, PROT_READ_WRITE)?;
    // SAFETY: advice on memory that was mapped just now.
    let result = unsafe { call(28, [found, size, MADV_WIPEONFORK, 0, 0, 0]) };
    (result == 0).then_some(found)
}

/// Maps the `size` bytes of a shared mapping at `from` a second time, at `to`.
///
/// # Safety
///
/// What is mapped at `to` is replaced, so it must be the agent's.
pub(crate) unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
    // SAFETY: the caller's.
    let result = unsafe { call(25, [from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0]) };
    u64::try_from(result).ok() == Some(to)
}

/// Puts anonymous memory without access at `to`, in the place of what is there.
///
/// # Safety
///
/// It must be the agent's.
pub(crate) unsafe fn reserve_again(to: u64, size: u64) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: the caller's.
    unsafe { call(9, [to, size, PROT_NONE, flags, u64::MAX, 0]) };
}

pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing, fails never.
    let result = unsafe { call(186, [0; 6]) };
    u32::try_from(result).unwrap_or(0)
}

pub(crate) fn process_id() -> u32 {
    // SAFETY: takes nothing, fails never.
    let result = unsafe { call(39, [0; 6]) };
    u32::try_from(result).unwrap_or(0)
}

/// Has thread `thread` of process `process` ended?
pub(crate) fn is_gone(process: u32, thread: u32) -> bool {
    const ESRCH: i64 = -3;
    // SAFETY: signal 0 only asks.
    unsafe { call(234, [u64::from(process), u64::from(thread), 0, 0, 0, 0]) == ESRCH }
}

pub(crate) fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { call(24, [0; 6]) };
}

pub(crate) fn sleep_a_millisecond() {
    let time: [u64; 2] = [0, 1_000_000];
    // SAFETY: the time lives during the call; what's left of it isn't asked for.
    unsafe { call(35, [(&raw const time) as u64, 0, 0, 0, 0, 0]) };
}

/// Sets the base of `%gs`.
///
/// # Safety
///
/// `base` must be a block that lives as long as the thread.
pub(crate) unsafe fn set_gs(base: u64, by_instruction: bool) {
    if by_instruction {
        // SAFETY: the recorder has seen that the kernel allows it.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, nomem)) };
    } else {
        const ARCH_SET_GS: u64 = 0x1001;
        // SAFETY: the caller's.
        unsafe { call(158, [ARCH_SET_GS, base, 0, 0, 0, 0]) };
    }
}

/// Blocks these signals of this thread, and no others; what was blocked before.
pub(crate) fn set_signals(blocked: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both words live during the call; 8 is the size of a signal set.
    unsafe { call(14, [2, (&raw const blocked) as u64, (&raw mut before) as u64, 8, 0, 0]) };
    before
}

/// Makes the room for stubs readable and executable memory that costs nothing until it's written to.
///
/// # Safety
///
/// It must be the agent's room for stubs.
pub(crate) unsafe fn map_stubs(address: u64, size: u64) -> bool {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: the caller's.
    let result = unsafe { call(9, [address, size, PROT_READ_EXECUTE, flags, u64::MAX, 0]) };
    u64::try_from(result).ok() == Some(address)
}

/// Maps the first `length` bytes of the file with this name, shared and writable; where, or `-errno`.
///
/// # Safety
///
/// `name` must end with a zero byte.
pub(crate) unsafe fn map_file(name: *const u8, length: u64) -> i64 {
    const AT_FDCWD: u64 = -100_i64 as u64;
    const O_RDWR_CLOEXEC: u64 = 0x8_0002;
    // SAFETY: the caller's; the descriptor is closed by whoever opened it.
    unsafe {
        let opened = call(257, [AT_FDCWD, name as u64, O_RDWR_CLOEXEC, 0, 0, 0]);
        let Ok(file) = u64::try_from(opened) else { return opened };
        let flags = MAP_SHARED | MAP_NORESERVE;
        let found = call(9, [0, length, PROT_READ_WRITE, flags, file, 0]);
        call(3, [file, 0, 0, 0, 0, 0]);
        found
    }
}

/// Ends the process: something is wrong that can't be mended.
pub(crate) fn abort() -> ! {
    // SAFETY: an instruction that is not one.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
