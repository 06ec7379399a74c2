//! Markers in a trace that a program records of itself: `mcount_mark("phase 2")`.
//!
//! A marker is a call of a function of its own, recorded with the text as its argument, as `mcount trace` records that of
//! `mcount_mark` (docs/trace-format.md).

use super::Program;
use mcount_recorder::payload::{TEXT, Values};
use mcount_recorder::places::store;
use mcount_recorder::{Host, numbers, records, shadow, thread};
use mcount_trace::layout;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The number of the function in traces; 0: there's none yet.
static FUNCTION: AtomicU32 = AtomicU32::new(0);

/// Markers are calls of the function with this number from now on.
pub(crate) fn set_function(number: u32) {
    FUNCTION.store(number, SeqCst);
}

/// Puts a marker into the trace, if one is being recorded. Of `text`, the part before a zero byte counts.
pub(crate) fn mark(text: &[u8]) {
    let function = FUNCTION.load(SeqCst);
    if function == 0 || !Program::is_recording() {
        return;
    }
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let flags = if end > TEXT { layout::value::CUT } else { 0 };
    let bytes = text.get(..end.min(TEXT)).unwrap_or_default();
    let mut values = Values::NONE;
    values.read_text(text.as_ptr() as u64, bytes, flags);
    // The call is at a place on the stack that no other call has: callers are above it.
    let place = 0_u64;
    let slot = (&raw const place) as u64;
    // SAFETY: the slot is on this thread's stack.
    super::busy(|| unsafe { record(slot, function, &values) });
}

/// Records a call of `function` at `slot`, with these values.
///
/// # Safety
///
/// `slot` is on the stack of this thread.
unsafe fn record(slot: u64, function: u32, values: &Values) {
    // SAFETY: the caller's; the shadows of `slot` are mapped if there's a block for it.
    unsafe {
        let Some(block) = thread::prepare::<Program>(slot) else { return };
        let shadow = shadow::of::<Program>(slot);
        if shadow.open.read_volatile() != 0 {
            // `longjmp` left that call.
            records::record::<Program>(
                block,
                slot,
                numbers::UNWOUND,
                thread::now::<Program>(block),
            );
        }
        let start = thread::now::<Program>(block);
        shadow.start.write_volatile(start);
        store(shadow.open, (*block).tag | u64::from(function));
        let write = |at: u64| {
            values.write(at, layout::special::ARGUMENTS, u64::from(function), start);
        };
        let end = (numbers::RETURN, thread::now::<Program>(block));
        records::record_behind::<Program>(block, slot, end, values.count(), write);
        store(shadow.open, 0);
    }
}
