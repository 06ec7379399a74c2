//! Recording calls into a trace. The sources are those of the agent of `mcount trace`, which are made for running
//! anywhere in a program; here is what they find different in a library. In the repository they are links, so that a package has copies.

mod block;
mod busy;
mod calls;
#[expect(
    clippy::cast_ptr_alignment,
    clippy::cast_possible_truncation,
    reason = "fields of a trace are aligned"
)]
mod chunks;
#[cfg_attr(target_pointer_width = "32", path = "disk32.rs")]
mod disk;
#[expect(clippy::cast_ptr_alignment, reason = "fields of a trace are aligned")]
mod host;
mod limit;
mod mark;
mod numbers;
mod pads;
#[expect(clippy::cast_possible_truncation, reason = "a text's length, and halves of a word")]
mod payload;
#[cfg_attr(target_pointer_width = "32", path = "tables.rs")]
mod places;
mod shadow;
#[expect(
    clippy::cast_ptr_alignment,
    clippy::cast_possible_truncation,
    reason = "fields of a trace are aligned, and a share is within a chunk"
)]
mod shares;
mod sys;
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits")]
#[expect(dead_code, reason = "only the agent is left by a recorder")]
mod thread;

use crate::{frames, processor};
use busy::busy;
pub(crate) use host::{most_bytes, rooms};
pub(crate) use mark::{mark, set_function};
use mcount_trace::layout;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// What the agent is told about the trace.
#[derive(Clone, Copy)]
struct Config {
    file: *mut u8,
    flags: u64,
    shortest: u64,
    budget: u64,
    depth: u64,
}

/// Calls are being recorded.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

/// Where the trace is mapped. It stays there when nothing more is recorded, as long as a thread may be busy with it.
static FILE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

fn config() -> Config {
    Config { file: FILE.load(SeqCst), flags: 0, shortest: 0, budget: 0, depth: 0 }
}

/// Begins to record into the trace that's mapped there. `false` if there's no memory, or if a thread is still busy with
/// the last one.
pub(crate) fn begin(file: *mut u8) -> bool {
    static HAS_STARTED: AtomicBool = AtomicBool::new(false);
    if !HAS_STARTED.load(SeqCst) {
        if !thread::start() {
            return false;
        }
        HAS_STARTED.store(true, SeqCst);
    }
    if busy::is_anybody() {
        return false;
    }
    FILE.store(file, SeqCst);
    IS_RECORDING.store(true, SeqCst);
    true
}

/// Records no more. What was mapped stays mapped, because a thread may just be writing a record. `false` if threads are
/// still busy with the trace after a second, which happens if they're stopped.
pub(crate) fn end() -> bool {
    IS_RECORDING.store(false, SeqCst);
    thread::dismiss();
    for _ in 0..1000 {
        if !busy::is_anybody() {
            // Who was busy may have taken a block, or a chunk.
            thread::dismiss();
            return true;
        }
        sys::sleep_a_millisecond();
    }
    false
}

/// In a forked child: other threads don't exist here, and what was recorded so far is the parent's.
pub(crate) fn forget_others() {
    thread::wipe();
    busy::forget_others();
}

/// A chunk of metadata, by its descriptor and its bytes.
pub(crate) fn metadata_chunk() -> Option<(*mut u8, *mut u8)> {
    let process = sys::process_id();
    let place = chunks::new_chunk(layout::chunk::METADATA, 0, 0, process)?;
    Some((place.descriptor, place.bytes))
}

/// The entry of a traced function in a rarer case; see `calls.rs`.
///
/// # Safety
///
/// Called by the entry routine only.
#[cfg_attr(
    target_pointer_width = "32",
    expect(dead_code, reason = "there the caller's address is no word of 8 bytes")
)]
pub(crate) unsafe extern "C" fn slow_entry(slot: *mut u64, id: u32) -> u64 {
    // SAFETY: the caller's. If the call is watched, its slot has shadows; `longjmp` may have left something there.
    busy(|| unsafe {
        let is_unwatched = calls::mcount_slow_entry(slot, id);
        if is_unwatched == 0 {
            frames::of(slot as u64).who.write_volatile(0);
        }
        is_unwatched
    })
}

/// The same for a hook behind the prologue, where the slot is a word that the function's frame has.
///
/// # Safety
///
/// Called by the entry routine only.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there it isn't"))]
pub(crate) unsafe extern "C" fn slow_entry_late(slot: *mut u64, id: u32) {
    // SAFETY: the caller's.
    busy(|| unsafe { calls::mcount_slow_pg(slot, id) });
}

/// The exit of a traced function in a rarer case.
///
/// # Safety
///
/// Called by the exit routine only.
pub(crate) unsafe extern "C" fn slow_exit(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller's.
    busy(|| unsafe { calls::mcount_slow_exit(slot, end) })
}

/// Records the entry of a function with this number, and keeps its caller's address. `false` if it can't be.
///
/// # Safety
///
/// `slot` is that of a call that just begins.
pub(crate) unsafe fn enter(slot: u64, caller: u64, id: u32) -> bool {
    // SAFETY: the caller's.
    host::is_recording() && busy(|| unsafe { calls::enter(slot as *mut u64, caller, id) == 0 })
}

/// Records that the call of `slot`, if it's being recorded, has ended.
///
/// # Safety
///
/// `slot` has shadows.
pub(crate) unsafe fn finish(slot: u64, is_unwound: bool) {
    if !host::is_recording() {
        return;
    }
    let end = if is_unwound { numbers::UNWOUND } else { numbers::RETURN };
    // SAFETY: the caller's.
    busy(|| unsafe { calls::finish(slot as *mut u64, end) });
}
