//! Entries and exits in the rarer cases: the first call of a thread, a full chunk, tail calls, and frames that were left
//! without a return.

use super::block::Block;
use super::numbers::{ENTRIES, LIMITED, TAIL_CALL, UNWOUND, has};
use super::places::store;
use super::{chunks, host, limit, pads, shadow, sys, thread};

/// What RET of a slot has that a call has which returns to a pad, when no call returns to a stub.
pub(crate) const PAD_ONLY: u64 = 1;

/// What RET of a slot has whose call the recorder has return to its caller: nothing returns to a stub there any more.
const LET_GO: u64 = 2;

/// The entry of function `id` in a rarer case. 0: go on and watch the return; 1: don't.
pub(crate) unsafe extern "C" fn mcount_slow_entry(slot: *mut u64, id: u32) -> u64 {
    // SAFETY: the caller is the entry trampoline, so `slot` is the word that holds the caller's address.
    unsafe { enter(slot, slot.read_volatile(), id) }
}

/// The same for a call behind the prologue: it changes the slot itself.
pub(crate) unsafe extern "C" fn mcount_slow_pg(slot: *mut u64, id: u32) {
    // SAFETY: as above.
    unsafe {
        // Otherwise it's the address of a pad, or that of the caller.
        if enter(slot, slot.read_volatile(), id) == 0 {
            slot.write_volatile(host::late_return());
        }
    }
}

/// `caller` is where the function is to return to; `word` is its number, and above it what it is for what is recorded.
pub(crate) unsafe fn enter(slot: *mut u64, caller: u64, word: u32) -> u64 {
    let (id, class) = (word & 0xff_ffff, word >> 24);
    // SAFETY: `slot` is on the stack of this thread; its shadows are mapped by `prepare`.
    unsafe {
        let Some(block) = thread::prepare(slot as u64) else { return 1 };
        if has(ENTRIES) {
            thread::record_entry(block, slot as u64, id);
            return 1;
        }
        let shadow = shadow::of(slot as u64);
        let is_tail_call = host::is_return(caller);
        if is_tail_call {
            pads::claim(slot as u64, caller);
        }
        let has_pad = pads::caller_of(caller).is_some();
        let ret = shadow.ret.read_volatile();
        let is_known = has_pad || ret != 0;
        // Another frame has the slot. It was left by `longjmp`, or its thread has ended, or it comes back: see `pads.rs`.
        let is_taken = is_known && !is_tail_call && ret != LET_GO && pads::HAS_PADS;
        let nest = if is_taken { pads::nest(slot as u64) } else { 0 };
        if is_tail_call && !is_known {
            return 1;
        }
        let is_open = is_known && shadow.open.read_volatile() != 0;
        let nesting = has(LIMITED).then(|| limit::enter(block, slot as u64, class));
        // It was a tail call: the slot stays as it is, and the function that it was of has ended. Or the slot is taken.
        let is_ended = is_open && !(is_taken && pads::is_proven());
        let end = if is_tail_call { TAIL_CALL } else { UNWOUND };
        let ended = if is_ended { end_former(block, slot as u64, end) } else { 0 };
        if is_ended && (!is_taken || nesting == Some(limit::Nesting::Unwatched)) {
            store(shadow.open, 0);
        }
        if nesting == Some(limit::Nesting::Unwatched) {
            return 1;
        }
        let mut mark = if has_pad { pads::OF_PAD } else { 0 };
        if is_taken {
            let Some(pad) = pads::displace(slot as u64, caller, nest, is_ended) else {
                return give_up(block, slot as u64, is_ended);
            };
            pads::return_to(slot, pad);
            mark = pads::OF_PAD;
        } else if !is_tail_call {
            shadow.ret.write_volatile(caller);
        } else if shadow.ret.read_volatile() == 0 {
            // A pad's frame: an entry that finds zero there doesn't come here, and takes TIM and OPN.
            shadow.ret.write_volatile(PAD_ONLY);
        }
        if nesting != Some(limit::Nesting::Hidden) {
            // A processor may read its clock for this before it does for the end of the other.
            shadow.start.write_volatile(thread::now(block).max(ended));
            store(shadow.open, (*block).tag | u64::from(id) | mark);
        }
        u64::from(is_tail_call || is_taken)
    }
}

/// Records that the call of `slot` has ended in this way; when.
unsafe fn end_former(block: *mut Block, slot: u64, end: u64) -> u64 {
    // SAFETY: the caller's: the block is this thread's, and the call is open.
    unsafe {
        let time = thread::now(block);
        thread::record(block, slot, end, time);
        time
    }
}

/// A call isn't watched, as there's no pad for it. That of the other frame has been recorded, or goes on.
unsafe fn give_up(block: *mut Block, slot: u64, is_ended: bool) -> u64 {
    // SAFETY: the caller's: the shadows of `slot` are mapped.
    unsafe {
        if is_ended {
            store(shadow::of(slot).open, 0);
        }
        if has(LIMITED) {
            limit::leave(block, slot);
        }
    }
    chunks::drop_call();
    1
}

/// The exit of the call of `slot`; the caller's address. Unwinders find it in RET still: it's for the exit trampoline to
/// put it into the slot and then to clear RET, since it says where unwinders have to look.
pub(crate) unsafe extern "C" fn mcount_slow_exit(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller is the exit trampoline: RET of `slot` is mapped, since the entry wrote it.
    unsafe {
        finish(slot, end);
        let caller = shadow::of(slot as u64).ret.read_volatile();
        if caller == 0 {
            sys::abort();
        }
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
            store(shadow.open, 0);
        }
        if has(LIMITED) {
            limit::leave(block, slot as u64);
        }
    }
}
