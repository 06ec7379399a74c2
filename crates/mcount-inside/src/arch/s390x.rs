//! s390x: the routines in `s390x.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model, as on x86-64.
//!
//! The *slot* of a call is the word below the stack pointer at the entry. Nothing of the program's is there yet, and when
//! the function has returned, nothing is there any more. While a routine runs that word is in its frame, and has the caller's
//! address.
//!
//! All hooks are at the entry (`code`), so there are no routines for those after a prologue.

pub(crate) use super::usual::{fetch_anew_everywhere, late_return, return_to, show_vectors, stub};
use crate::error::{Error, ErrorKind, Result};
pub(crate) use mcount_cpu::s390x::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn mcount_inside_unwound(slot: u64, address: u64);
}

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code may be written byte by byte.
pub(crate) const STORE: usize = 0;
/// The kernel may write it.
pub(crate) const IS_STORED_BY_KERNEL: bool = true;
/// Not used: exceptions aren't stopped in watched calls.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [6, 7];
/// Memory is asked for in multiples of this.
pub(crate) const PAGE: u64 = 1 << 12;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// Not 0: there are vector registers, which the assembly keeps then.
pub(crate) static LONG_VECTORS: AtomicU32 = AtomicU32::new(0);

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its ABI has it ("initial exec").
    unsafe {
        asm!("ear {0}, %a0", "sllg {0}, {0}, 32", "ear {0}, %a1",
            "lgrl {1}, mcount_inside_thread@INDNTPOFF", "agr {0}, {1}",
            out(reg) found, out(reg) _, options(nostack, pure, readonly));
    }
    found as *mut c_void
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    let found: u64;
    // SAFETY: as of `memory`.
    unsafe {
        asm!("ear {0}, %a0", "sllg {0}, {0}, 32", "ear {0}, %a1",
            "lgrl {1}, mcount_inside_block@INDNTPOFF", "agr {0}, {1}",
            out(reg) found, out(reg) _, options(nostack, pure, readonly));
    }
    found as *mut *mut c_void
}

/// An exception passes through the watched call that has called the function with this canonical frame address, and returns to
/// `address`: has its handlers called.
///
/// # Safety
///
/// Called by the personality routine only.
unsafe fn unwind(above: u64, address: u64) {
    /// From the slot to that address: a word, and what functions keep registers in.
    const SLOT: u64 = 168;
    // SAFETY: the caller promises that it is called by the personality routine only.
    unsafe { mcount_inside_unwound(above - SLOT, address) };
}

/// The answer to an exception that passes through a watched call: it isn't stopped there.
pub(crate) const LOOK: Option<unsafe fn(u64, u64)> = Some(unwind);

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {
    // SAFETY: takes a number.
    let has = unsafe { libc::getauxval(libc::AT_HWCAP) };
    /// `HWCAP_S390_VXRS`.
    const VECTORS: u64 = 1 << 11;
    LONG_VECTORS.store(u32::from(has & VECTORS != 0), Relaxed);
}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table, as a pointer to a function
/// of a library is in a program that's linked at a fixed address.
///
/// # Safety
///
/// There is code at `address`.
pub(crate) unsafe fn through_linkage(address: u64) -> Option<u64> {
    // SAFETY: the caller's; entries have 16 bytes or more.
    let half = |index: u64| unsafe { ((address + 2 * index) as *const u16).read_volatile() };
    // larl %r1,cell; lg %r1,0(%r1)
    if [0, 3, 4, 5].map(half) != [0xc010, 0xe310, 0x1000, 0x0004] {
        return None;
    }
    let halves = (u32::from(half(1)) << 16 | u32::from(half(2))).cast_signed();
    let cell = address.wrapping_add_signed(2 * i64::from(halves));
    // SAFETY: such an instruction reads its cell.
    Some(unsafe { (cell as *const u64).read_volatile() })
}

/// Has `act` done. Most areas are one branch, which may be changed while it's executed (`code`), so no thread has to stand.
/// Others are several instructions, and may only be changed where no other thread runs.
///
/// # Errors
///
/// One of `areas` is several instructions.
pub(crate) fn while_none_is_inside<T>(areas: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    // SAFETY: a site is there.
    let first = |start: u64| unsafe { (start as *const u8).read_volatile() };
    let is_one = |(start, end): &(u64, u64)| {
        code::is_one_instruction(&[first(*start)], usize::try_from(end - start).unwrap_or(0))
    };
    if areas.iter().all(is_one) {
        return Ok(act());
    }
    let text = "other threads run, and hooks of several NOPs (-fpatchable-function-entry) can only be armed before";
    Err(Error::new(ErrorKind::Threads, text))
}

/// Facts about the frame of a function whose hook is after its prologue: there are no such functions.
pub(crate) fn frame(_: &[u8], _: u64) -> u64 {
    0
}

/// Makes processors fetch anew what was written as code: they do so by themselves when they serialize.
pub(crate) fn fetch_anew(_: u64, _: u64) {}

/// So much was stored there, to be executed.
pub(crate) fn stored(address: u64, size: u64) {
    fetch_anew(address, size);
}

/// A function, `lghi %r2,number; br %r14`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    [0xa7, 0x29, 0, number, 0x07, 0xfe, 0x07, 0x00]
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.psw.addr - 2 }
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.psw.addr = address };
}
