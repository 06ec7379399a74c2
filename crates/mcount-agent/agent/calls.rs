//! Entries and exits in the rarer cases: the first call of a thread, a full chunk, tail calls, and frames that were left
//! without a return.

use super::{config, host, limit, shadow, sys, thread};

/// Times are counts of events.
pub(crate) const UNTIMED: u64 = 2;
/// Only entries are recorded.
pub(crate) const ENTRIES: u64 = 4;
/// What is recorded depends on what a call is nested in.
pub(crate) const LIMITED: u64 = 8;

/// Calls beneath this function are recorded, and it is, too.
pub(crate) const UNDER: u32 = 1;
/// Neither this function nor what is beneath it is recorded.
pub(crate) const NOT_UNDER: u32 = 2;
/// Calls beneath this function are recorded, and it isn't.
pub(crate) const UNDER_HIDDEN: u32 = 3;

/// Is this flag of the configuration set?
pub(crate) fn has(flag: u64) -> bool {
    config().flags & flag != 0
}

/// How a call ended, as the trace has it.
pub(crate) const RETURN: u64 = 0;
pub(crate) const TAIL_CALL: u64 = 1;
pub(crate) const UNWOUND: u64 = 2;

/// The entry of function `id` in a rarer case. 0: go on and watch the return; 1: don't.
pub(crate) unsafe extern "C" fn mcount_slow_entry(slot: *mut u64, id: u32) -> u64 {
    // SAFETY: the caller is the entry trampoline, so `slot` is the word that holds the caller's address.
    unsafe { enter(slot, id) }
}

/// The same for a call behind the prologue: it changes the slot itself.
pub(crate) unsafe extern "C" fn mcount_slow_pg(slot: *mut u64, id: u32) {
    // SAFETY: as above.
    unsafe {
        if enter(slot, id) == 0 {
            slot.write_volatile(host::late_return());
        }
    }
}

/// `word` is the function's number, and above it what it is for what is recorded.
pub(crate) unsafe fn enter(slot: *mut u64, word: u32) -> u64 {
    let (id, class) = (word & 0xff_ffff, word >> 24);
    // SAFETY: `slot` is on the stack of this thread; its shadows are mapped by `prepare`.
    unsafe {
        let Some(block) = thread::prepare(slot as u64) else { return 1 };
        if has(ENTRIES) {
            thread::record_entry(block, slot as u64, id);
            return 1;
        }
        let shadow = shadow::of(slot as u64);
        let caller = slot.read_volatile();
        let is_tail_call = host::is_return(caller);
        let is_known = shadow.ret.read_volatile() != 0;
        if is_tail_call && !is_known {
            return 1;
        }
        let is_open = is_known && shadow.open.read_volatile() != 0;
        let nesting = has(LIMITED).then(|| limit::enter(block, slot as u64, class));
        if is_open {
            // It was a tail call: the slot stays as it is, and the function that it was of has ended. Or
            // `longjmp` left it, or its thread ended.
            let end = if is_tail_call { TAIL_CALL } else { UNWOUND };
            thread::record(block, slot as u64, end, thread::now(block));
            shadow.open.write_volatile(0);
        }
        if nesting == Some(limit::Nesting::Unwatched) {
            return 1;
        }
        if !is_tail_call {
            shadow.ret.write_volatile(caller);
        }
        if nesting != Some(limit::Nesting::Hidden) {
            shadow.start.write_volatile(thread::now(block));
            shadow.open.write_volatile((*block).tag | u64::from(id));
        }
        u64::from(is_tail_call)
    }
}

/// The exit of the call of `slot`; the caller's address.
pub(crate) unsafe extern "C" fn mcount_slow_exit(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller is the exit trampoline: RET of `slot` is mapped, since the entry wrote it.
    unsafe {
        finish(slot, end);
        let shadow = shadow::of(slot as u64);
        let caller = shadow.ret.read_volatile();
        if caller == 0 {
            sys::abort();
        }
        slot.write_volatile(caller);
        shadow.ret.write_volatile(0);
        caller
    }
}

/// Records the call of `slot`, if it's open, which has ended in this way.
pub(crate) unsafe fn finish(slot: *mut u64, end: u64) {
    let shadow = shadow::of(slot as u64);
    // SAFETY: the caller's: `slot` is one that is watched.
    unsafe {
        let Some(block) = thread::prepare(slot as u64) else { return };
        if shadow.open.read_volatile() != 0 {
            thread::record(block, slot as u64, end, thread::now(block));
            shadow.open.write_volatile(0);
        }
        if has(LIMITED) {
            limit::leave(block, slot as u64);
        }
    }
}
