//! 64-bit PowerPC: the routines in `powerpc64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model, as on x86-64.
//!
//! The *slot* of a call is the word below the stack pointer at the entry. Nothing of the program's is there yet, and when
//! the function has returned, nothing is there any more. While a routine runs that word is in its frame, and has the caller's
//! address.

pub(crate) use super::usual::{fetch_anew_everywhere, late_return, return_to, show_vectors, stub};
use crate::error::Result;
pub(crate) use mcount_cpu::powerpc64::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn mcount_inside_own_thread() -> *mut c_void;
    fn mcount_inside_own_block() -> *mut *mut c_void;
}

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code is written word by word, each by one store.
pub(crate) const STORE: usize = 4;
/// So does the kernel write it.
pub(crate) const IS_STORED_BY_KERNEL: bool = true;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [3, 4];
/// Memory is asked for in multiples of this: pages have 4 or 64 KiB.
pub(crate) const PAGE: u64 = 1 << 16;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    // SAFETY: takes nothing; code in Rust can't find thread-local storage of the assembly's by itself.
    unsafe { mcount_inside_own_thread() }
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    // SAFETY: as of `memory`.
    unsafe { mcount_inside_own_block() }
}

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table: here, pointers to functions of
/// libraries never lead there.
///
/// # Safety
///
/// None is needed.
pub(crate) unsafe fn through_linkage(_address: u64) -> Option<u64> {
    None
}

/// Has `act` done. A site is one instruction, and what it becomes may take its place while it's executed (`code`); so no
/// thread has to stand.
///
/// # Errors
///
/// None.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it's otherwise")]
pub(crate) fn while_none_is_inside<T>(_: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    Ok(act())
}

/// Facts about the frame of a function whose hook is after its prologue: none, since frames have a chain.
pub(crate) fn frame(_: &[u8], _: u64) -> u64 {
    0
}

/// Makes processors fetch anew what was written as code at `start`, `size` bytes of it. Others have to go through a context
/// synchronizing operation besides.
///
/// Power ISA 3.0, book II, 1.8: the data is written to memory, and when that's done the instruction cache is told.
pub(crate) fn fetch_anew(start: u64, size: u64) {
    /// No processor has shorter lines.
    const LINE: u64 = 32;
    let first = start & !(LINE - 1);
    let lines = || (first..start + size).step_by(32);
    // SAFETY: programs may do this to caches; the memory is mapped.
    unsafe {
        for line in lines() {
            asm!("dcbst 0, {}", in(reg) line, options(nostack));
        }
        asm!("sync", options(nostack));
        for line in lines() {
            asm!("icbi 0, {}", in(reg) line, options(nostack));
        }
        asm!("sync", "isync", options(nostack));
    }
}

/// So much was stored there, to be executed.
pub(crate) fn stored(address: u64, size: u64) {
    fetch_anew(address, size);
}

/// A function, `li r3,number; blr`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    (0x4e80_0020_u64 << 32 | 0x3860_0000 | u64::from(number)).to_le_bytes()
}

/// The instruction pointer among the registers that a signal handler gets.
const NIP: usize = 32;

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gp_regs[NIP] }
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gp_regs[NIP] = address };
}
