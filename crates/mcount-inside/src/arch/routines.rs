//! The routines of the assembly, which have the same names on all processors, and each thread's own memory.

use super::here::{block_word, late_return, memory};
#[cfg(not(target_arch = "arm"))]
use mcount_recorder::pad_table;
use mcount_recorder::pad_table::Pads;
use mcount_recorder::pads::are_used;
use std::ffi::c_void;

unsafe extern "C" {
    fn mcount_inside_pass();
    fn mcount_inside_enter();
    fn mcount_inside_enter_late();
    fn mcount_inside_enter_traced();
    fn mcount_inside_enter_traced_late();
    #[cfg(not(target_arch = "arm"))]
    fn mcount_inside_landing();
    static mcount_inside_return: u8;
    static mcount_inside_traced_return: u8;
    static mcount_inside_nobody: u8;
}

/// A thread's own memory; all zeroes at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Thread {
    /// How far up the stack the handler is that's running; 0: none.
    pub(crate) handler: u64,
    /// The range of stack whose shadows are known to be mapped: lowest address, and bytes.
    pub(crate) low: u64,
    pub(crate) size: u64,
    /// The number of its place in `agent/busy.rs`; 0: it has none.
    pub(crate) place: u64,
}

/// This thread's memory.
pub(crate) fn thread() -> *mut Thread {
    memory().cast()
}

/// The routine of sites that only lead elsewhere.
pub(crate) fn pass() -> u64 {
    mcount_inside_pass as *const () as u64
}

/// The routine of watched functions.
pub(crate) fn enter() -> u64 {
    mcount_inside_enter as *const () as u64
}

/// The routine of those with their hook after the prologue.
pub(crate) fn enter_late() -> u64 {
    mcount_inside_enter_late as *const () as u64
}

/// Where exceptions go that pass through the frame which returns to `address`.
#[cfg(not(target_arch = "arm"))]
pub(crate) fn landing(address: u64) -> u64 {
    match pads().number_of(address) {
        Some(_) => pad_table::landing(address),
        None => mcount_inside_landing as *const () as u64,
    }
}

/// Where the pads are.
pub(crate) fn pads() -> Pads {
    unsafe extern "C" {
        static mcount_pads: u8;
        static mut mcount_pad_words: u8;
    }
    Pads { code: (&raw const mcount_pads) as u64, words: (&raw mut mcount_pad_words) as u64 }
}

/// Where a watched function returns to.
pub(crate) fn return_address() -> u64 {
    (&raw const mcount_inside_return) as u64
}

/// Where a traced function returns to.
pub(crate) fn traced_return() -> u64 {
    (&raw const mcount_inside_traced_return) as u64
}

/// Is it an address that a watched or a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    [return_address(), traced_return(), late_return()].contains(&address)
        || are_used() && pads().number_of(address).is_some()
}

/// The routine of traced functions without handlers.
pub(crate) fn enter_traced() -> u64 {
    mcount_inside_enter_traced as *const () as u64
}

/// The routine of those with their hook after the prologue.
pub(crate) fn enter_traced_late() -> u64 {
    mcount_inside_enter_traced_late as *const () as u64
}

/// This thread's block of the trace; null: none.
pub(crate) fn block() -> *mut c_void {
    // SAFETY: this thread's own.
    let found = unsafe { block_word().read_volatile() };
    if found.cast_const().cast() == &raw const mcount_inside_nobody {
        std::ptr::null_mut()
    } else {
        found
    }
}

/// Makes `block` this thread's.
///
/// # Safety
///
/// It lives as long as the thread.
pub(crate) unsafe fn set_block(block: *mut c_void) {
    // SAFETY: this thread's own.
    unsafe { block_word().write_volatile(block) };
}
