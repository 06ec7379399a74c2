//! Entries and exits in the rarer cases: the first call of a thread, a full chunk, tail calls, and frames that were left
//! without a return.

use crate::abi::class::WAITS;
use crate::abi::flags::{ENTRIES, LIMITED};
use crate::block::Block;
use crate::host::Host;
use crate::numbers::{TAIL_CALL, UNWOUND, has};
use crate::pad_table::returned_to;
use crate::pads::Taken;
use crate::places::store;
use crate::{chunks, limit, pads, records, shadow, sys, thread};

/// What RET of a slot has that a call has which returns to a pad, when no call returns to a stub.
pub const PAD_ONLY: u64 = 1;

/// What RET of a slot has whose call the recorder has return to its caller: nothing returns to a stub there any more.
const LET_GO: u64 = 2;

/// How the return of a function is seen that was entered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// By a stub: RET has the caller's address.
    Stub,
    /// As if it hadn't been entered: no handler sees it, or the call takes the place of one whose return is
    /// seen.
    AsBefore,
    /// By the pad at this address, where the function has to return to.
    Pad(u64),
}

/// The entry of function `id` in a rarer case. 0: go on and watch the return; 1: don't, the slot says where it goes.
///
/// # Safety
///
/// `slot` is the word on the stack of this thread that holds the caller's address, of a call that just begins.
pub unsafe extern "C" fn mcount_slow_entry<H: Host>(slot: *mut u64, id: u32) -> u64 {
    // SAFETY: the caller is the entry trampoline, so `slot` is the word that holds the caller's address.
    unsafe {
        match enter::<H>(slot, slot.read_volatile(), id) {
            Return::Stub => return 0,
            Return::AsBefore => {}
            Return::Pad(pad) => slot.write_volatile(pad),
        }
    }
    1
}

/// The same for a call after the prologue: it changes the slot itself.
///
/// # Safety
///
/// As of [`mcount_slow_entry`].
pub unsafe extern "C" fn mcount_slow_pg<H: Host>(slot: *mut u64, id: u32) {
    // SAFETY: the caller, the entry trampoline, promises that `slot` is the word that holds the caller's address.
    unsafe {
        match enter::<H>(slot, slot.read_volatile(), id) {
            Return::Stub => slot.write_volatile(H::late_return()),
            Return::AsBefore => {}
            Return::Pad(pad) => slot.write_volatile(pad),
        }
    }
}

/// `caller` is where the function is to return to; `word` is its number, and above it what it is for what is recorded.
///
/// # Safety
///
/// `slot` is that of a call on the stack of this thread which just begins.
pub unsafe fn enter<H: Host>(slot: *mut u64, caller: u64, word: u32) -> Return {
    let (id, class) = (word & 0xff_ffff, word >> 24);
    // SAFETY: `slot` is on the stack of this thread; its shadows are mapped by `prepare`.
    unsafe {
        let Some(block) = thread::prepare::<H>(slot as u64) else { return Return::AsBefore };
        if has::<H>(ENTRIES) {
            records::record_entry::<H>(block, slot as u64, id);
            return Return::AsBefore;
        }
        let shadow = shadow::of::<H>(slot as u64);
        let is_tail_call = H::is_return(caller);
        if is_tail_call {
            pads::claim::<H>(slot as u64, caller);
        }
        let has_pad = pads::caller_of::<H>(caller).is_some();
        let ret = if H::is_left(slot as u64) { LET_GO } else { shadow.ret.read_volatile() };
        let is_known = has_pad || ret != 0;
        // Another frame has the slot. It was left by `longjmp`, or its thread has ended, or it comes back: see `pads.rs`.
        let is_taken = is_known && !is_tail_call && ret != LET_GO;
        // `limit::enter` changes them.
        let words = is_taken.then(|| H::words(slot as u64));
        if is_tail_call && !is_known {
            return Return::AsBefore;
        }
        let is_open = is_known && shadow.open.read_volatile() != 0;
        let nesting = has::<H>(LIMITED).then(|| limit::enter::<H>(block, slot as u64, class));
        // It was a tail call: the slot stays as it is, and the function that it was of has ended. Or the slot is taken.
        let is_ended = is_open && !(is_taken && pads::is_proven());
        let end = if is_tail_call { TAIL_CALL } else { UNWOUND };
        let ended = if is_ended { end_former::<H>(block, slot as u64, end) } else { 0 };
        if is_ended && (!is_taken || nesting == Some(limit::Nesting::Unwatched)) {
            store(shadow.open, 0);
        }
        if nesting == Some(limit::Nesting::Unwatched) {
            return Return::AsBefore;
        }
        let mut mark = if has_pad { pads::OF_PAD } else { 0 };
        let mut seen = if is_tail_call { Return::AsBefore } else { Return::Stub };
        if let Some(words) = words {
            let taken = Taken { slot: slot as u64, caller, block: Some(block), words };
            let Some(pad) = pads::displace::<H>(&taken, is_ended) else {
                return give_up::<H>(block, slot as u64, is_ended);
            };
            (mark, seen) = (pads::OF_PAD, Return::Pad(pad));
        } else if !is_tail_call {
            shadow.ret.write_volatile(caller);
        } else {
            hold::<H>(slot as u64);
        }
        if nesting != Some(limit::Nesting::Hidden) {
            // A processor may read its clock for this before it does for the end of the other.
            shadow.start.write_volatile(thread::now::<H>(block).max(ended));
            let waits = u64::from(class & WAITS) << 24;
            store(shadow.open, (*block).tag | u64::from(id) | waits | mark);
        }
        seen
    }
}

/// A call has what is kept for `slot`, and returns to a pad, perhaps: an entry that finds zero in RET doesn't look who has it.
///
/// # Safety
///
/// The shadows of the slot are mapped.
pub unsafe fn hold<H: Host>(slot: u64) {
    let ret = shadow::of::<H>(slot).ret;
    // SAFETY: the caller promises that the shadows of the slot are mapped.
    unsafe {
        if ret.read_volatile() == 0 {
            ret.write_volatile(PAD_ONLY);
        }
    }
}

/// A function is entered whose call isn't recorded, and whose return is to be seen.
///
/// # Safety
///
/// RET of the slot is mapped; nothing of ours returns to `caller`.
pub unsafe fn watch<H: Host>(slot: u64, caller: u64) -> Return {
    // SAFETY: the caller promises that RET is mapped; `prepare` maps the other shadows if there's a block.
    unsafe {
        let shadow = shadow::of::<H>(slot);
        let ret = if H::is_left(slot) { LET_GO } else { shadow.ret.read_volatile() };
        if ret == 0 || ret == LET_GO {
            shadow.ret.write_volatile(caller);
            return Return::Stub;
        }
        let block = thread::prepare::<H>(slot);
        let open = block.filter(|_| shadow.open.read_volatile() != 0 && !pads::is_proven());
        if let Some(block) = open {
            end_former::<H>(block, slot, UNWOUND);
        }
        let taken = Taken { slot, caller, block, words: H::words(slot) };
        if let Some(pad) = pads::displace::<H>(&taken, open.is_some()) {
            return Return::Pad(pad);
        }
        if open.is_some() {
            store(shadow.open, 0);
        }
        Return::AsBefore
    }
}

/// Records that the call of `slot` has ended in this way; when.
unsafe fn end_former<H: Host>(block: *mut Block, slot: u64, end: u64) -> u64 {
    // SAFETY: the caller promises that the block is this thread's, and that the call is open.
    unsafe {
        let time = thread::now::<H>(block);
        records::record::<H>(block, slot, end, time);
        time
    }
}

/// A call isn't watched, as there's no pad for it. That of the other frame has been recorded, or goes on.
unsafe fn give_up<H: Host>(block: *mut Block, slot: u64, is_ended: bool) -> Return {
    // SAFETY: the caller promises that the shadows of `slot` are mapped.
    unsafe {
        if is_ended {
            store(shadow::of::<H>(slot).open, 0);
        }
        if has::<H>(LIMITED) {
            limit::leave::<H>(block, slot);
        }
    }
    chunks::drop_call::<H>();
    Return::AsBefore
}

/// The exit of the call of `slot`; the caller's address. Unwinders find it in RET still, or in the word of a pad: it's for the
/// exit trampoline to put it into the slot and then to clear RET, since it says where unwinders have to look.
///
/// # Safety
///
/// `slot` is that of a watched call of this thread, and has the address that the call has returned to.
pub unsafe extern "C" fn mcount_slow_exit<H: Host>(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller is the exit trampoline, so the slot has the address that the call has returned to.
    unsafe {
        let address = returned_to(slot);
        pads::claim::<H>(slot as u64, address);
        finish::<H>(slot, end);
        let_go::<H>(slot as u64, address)
    }
}

/// The caller's address of the call of `slot`, which has returned to `address`, and is recorded.
///
/// # Safety
///
/// RET of the slot is mapped, or it's a pad.
pub unsafe fn let_go<H: Host>(slot: u64, address: u64) -> u64 {
    let ret = shadow::of::<H>(slot).ret;
    // SAFETY: the caller promises that RET is mapped, or that the address is a pad's; the entry wrote it.
    unsafe {
        if let Some(caller) = pads::caller_of::<H>(address) {
            let is_there = thread::prepare::<H>(slot).is_some() || H::has_words(slot);
            if is_there && ret.read_volatile() == PAD_ONLY {
                ret.write_volatile(0);
            }
            return caller;
        }
        let caller = ret.read_volatile();
        if caller == 0 {
            sys::abort();
        }
        caller
    }
}

/// Records the call of `slot`, if it's open, which has ended in this way.
///
/// # Safety
///
/// `slot` is that of a watched call of this thread.
pub unsafe fn finish<H: Host>(slot: *mut u64, end: u64) {
    let shadow = shadow::of::<H>(slot as u64);
    // SAFETY: the caller promises that `slot` is that of a watched call; `prepare` maps its shadows.
    unsafe {
        let Some(block) = thread::prepare::<H>(slot as u64) else { return };
        if shadow.open.read_volatile() != 0 {
            records::record::<H>(block, slot as u64, end, thread::now::<H>(block));
            store(shadow.open, 0);
        }
        if has::<H>(LIMITED) {
            limit::leave::<H>(block, slot as u64);
        }
    }
}
