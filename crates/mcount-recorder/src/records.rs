//! Records of calls: that one was entered, or has ended.

use crate::abi::class::WAITS;
use crate::abi::flags::{CALLERS, COUNTERS};
use crate::block::{Block, put};
use crate::chunks::drop_call;
use crate::host::Host;
use crate::numbers::{HAS_MORE, UNWOUND, has};
use crate::places::SHIFT;
use crate::thread::{SHORTS, low_bits, new_room, now, take_records};
use crate::{layout as trace, shadow};

/// Records that function `id` was entered.
///
/// # Safety
///
/// The block is this thread's.
pub unsafe fn record_entry<H: Host>(block: *mut Block, slot: u64, id: u32) {
    // SAFETY: the caller promises that the block is this thread's; nothing is written besides.
    unsafe { record_entry_behind::<H>(block, slot, (id, now::<H>(block)), 0, |_| ()) }
}

/// Records that function `id` was entered at `time`, behind `values` records that `write` writes.
///
/// # Safety
///
/// The block is this thread's, and `write` writes no more than `values` records at the address that it's told.
pub unsafe fn record_entry_behind<H: Host>(
    block: *mut Block,
    slot: u64,
    (id, time): (u32, u64),
    values: u64,
    write: impl FnOnce(u64),
) {
    // SAFETY: the block is the thread's.
    unsafe {
        if time.wrapping_sub((*block).base) >> 40 != 0 && new_room::<H>(block, 1).is_none() {
            drop_call::<H>();
            return;
        }
        let Some(at) = take_records::<H>(block, values + 1) else {
            drop_call::<H>();
            return;
        };
        write(at);
        let elapsed = time.wrapping_sub((*block).base) << 24;
        put(at + 16 * values, elapsed | u64::from(id), low_bits(slot));
    }
}

/// Records the call of `slot`, which is open and ended in this way at `time`, unless it was too short.
///
/// # Safety
///
/// The block is this thread's, and the shadows of `slot` are mapped.
pub unsafe fn record<H: Host>(block: *mut Block, slot: u64, end: u64, time: u64) {
    // SAFETY: the caller promises that the block is this thread's, and that the shadows of `slot` are mapped.
    unsafe {
        let shadow = shadow::of::<H>(slot);
        let elapsed = time.wrapping_sub(shadow.start.read_volatile());
        let function = shadow.open.read_volatile() as u32;
        let waits = function >> 24 & WAITS != 0;
        let shortest = if waits { H::shortest_wait() } else { H::shortest() };
        // Of one that was unwound nobody knows how long it took.
        if end == UNWOUND || elapsed >= shortest {
            if has::<H>(COUNTERS) && u64::from(function) & HAS_MORE != 0 {
                let values = H::at_end(block);
                let (id, start) = (u64::from(function & 0xff_ffff), shadow.start.read_volatile());
                let write = |at: u64| values.write(at, trace::special::RESULT, id, start);
                return record_behind::<H>(block, slot, (end, time), values.count(), write);
            }
            record_behind::<H>(block, slot, (end, time), 0, |_| ());
        } else if waits {
            count_short_wait::<H>(block, function & 0xff_ffff);
        }
    }
}

/// Counts a call of function `id`, which may wait, and didn't for long. Where an exit has counted others by itself, of whatever
/// functions, all of them are taken for calls of this one.
unsafe fn count_short_wait<H: Host>(block: *mut Block, id: u32) {
    // SAFETY: the caller's: the block is this thread's.
    unsafe {
        let shorts = &raw mut (*block).shorts;
        let are_many = shorts.read_volatile() < 0;
        if are_many {
            shorts.write_volatile(SHORTS - 1);
        }
        H::add_short_waits(id, if are_many { SHORTS as u64 } else { 1 });
    }
}

/// Records the call of `slot` behind `values` records that `write` writes, however short it was.
///
/// # Safety
///
/// As of [`record`], and `write` writes no more than `values` records at the address that it's told.
pub unsafe fn record_behind<H: Host>(
    block: *mut Block,
    slot: u64,
    (end, time): (u64, u64),
    values: u64,
    write: impl FnOnce(u64),
) {
    let shadow = shadow::of::<H>(slot);
    // SAFETY: the shadows of `slot` are mapped; the block is this thread's.
    unsafe {
        let open = shadow.open.read_volatile();
        let start = shadow.start.read_volatile();
        let mut before: [(u64, u64); 4] = [(0, 0); 4];
        let mut count = 0;
        let mut add = |kind: u64, value: u64, word: u64| {
            if let Some(room) = before.get_mut(count) {
                *room = (value << 32 | kind << 24, word);
                count += 1;
            }
        };
        let base = (*block).base;
        let is_late = time.wrapping_sub(base) >> 40 != 0;
        if open >> 32 != (*block).tag >> 32 {
            add(trace::special::OWNER, open >> 32, 0);
        }
        if time.wrapping_sub(start) >> 40 != 0 {
            add(trace::special::START, 0, start);
        }
        if end == UNWOUND {
            add(trace::special::SLOT, 0, slot << SHIFT);
        }
        // What is kept for the slot belongs to another frame if there's a pad, perhaps.
        if has::<H>(CALLERS) && open & shadow::OF_PAD == 0 {
            add(trace::special::CALLER, 0, shadow.ret.read_volatile());
        }
        if is_late && new_room::<H>(block, 1).is_none() {
            drop_call::<H>();
            return;
        }
        let Some(mut at) = take_records::<H>(block, values + count as u64 + 1) else {
            drop_call::<H>();
            return;
        };
        write(at);
        at += 16 * values;
        for (first, second) in before.into_iter().take(count) {
            put(at, first, second);
            at += 16;
        }
        let elapsed = time.wrapping_sub((*block).base) << 24;
        let duration = time.wrapping_sub(start) << 24;
        put(at, elapsed | open & 0xff_ffff, duration | low_bits(slot) | end);
    }
}
