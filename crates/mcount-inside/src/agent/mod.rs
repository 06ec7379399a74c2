//! Recording calls into a trace, by `mcount-recorder`; here is what it finds different in a library.

mod busy;
#[cfg_attr(target_pointer_width = "32", path = "disk32.rs")]
mod disk;
mod host;
mod mark;

use crate::frames;
use busy::busy;
pub(crate) use host::{Program, most_bytes, rooms};
pub(crate) use mark::{mark, set_function};
pub(crate) use mcount_recorder::calls::Return;
use mcount_recorder::{Host, calls, chunks, numbers, pads, sys, thread};
use mcount_trace::layout;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// Calls are being recorded.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

/// Where the trace is mapped. It stays there when nothing more is recorded, as long as a thread may be busy with it.
static FILE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Makes what threads have in common. `false` if there's no memory. Called in one thread at a time.
pub(crate) fn prepare() -> bool {
    static HAS_STARTED: AtomicBool = AtomicBool::new(false);
    if !HAS_STARTED.load(SeqCst) {
        if !thread::start() {
            return false;
        }
        // SAFETY: a function of this library, which isn't unloaded once it has armed anything.
        unsafe { libc::pthread_atfork(None, None, Some(forget_others)) };
        HAS_STARTED.store(true, SeqCst);
    }
    true
}

/// Begins to record into the trace that's mapped there. The error says why it can't.
pub(crate) fn begin(file: *mut u8) -> Result<(), &'static str> {
    if !prepare() {
        return Err("no memory for a trace");
    }
    // Calls of the last trace that end now make their threads busy for a moment.
    if !gets_quiet() {
        return Err("a thread is stopped while it records into the last trace");
    }
    FILE.store(file, SeqCst);
    pads::begin_trace();
    IS_RECORDING.store(true, SeqCst);
    Ok(())
}

/// Records no more. Old mappings stay, because a thread may just be writing a record. `false` if threads are
/// still busy with the trace after a second, which happens if they're stopped.
pub(crate) fn end() -> bool {
    IS_RECORDING.store(false, SeqCst);
    thread::dismiss();
    let is_quiet = gets_quiet();
    if is_quiet {
        // Who was busy may have taken a block, or a chunk.
        thread::dismiss();
    }
    is_quiet
}

/// Waits until no thread is busy. `false` if there's one after a second.
fn gets_quiet() -> bool {
    for _ in 0..1000 {
        if !busy::is_anybody() {
            return true;
        }
        sys::sleep_a_millisecond();
    }
    false
}

/// In a forked child: other threads don't exist here, and what was recorded so far is the parent's. A lock that one had of them is free.
extern "C" fn forget_others() {
    thread::wipe();
    busy::forget_others();
}

/// A chunk of metadata, by its descriptor and its bytes.
pub(crate) fn metadata_chunk() -> Option<(*mut u8, *mut u8)> {
    let process = sys::process_id();
    let place = chunks::new_chunk::<Program>(layout::chunk::METADATA, 0, 0, process)?;
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
    // SAFETY: the caller's: the slot is the word that has the caller's address.
    unsafe {
        match trace(slot as u64, slot.read_volatile(), id) {
            Return::Stub => return 0,
            Return::AsBefore => {}
            Return::Pad(pad) => slot.write_volatile(pad),
        }
    }
    1
}

/// The same for a hook after the prologue, where the slot is a word that the function's frame has.
///
/// # Safety
///
/// Called by the entry routine only.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there it isn't"))]
pub(crate) unsafe extern "C" fn slow_entry_late(slot: *mut u64, id: u32) {
    // SAFETY: the caller's: the slot is the word that has the caller's address.
    unsafe {
        match trace(slot as u64, slot.read_volatile(), id) {
            Return::Stub => slot.write_volatile(Program::late_return()),
            Return::AsBefore => {}
            Return::Pad(pad) => slot.write_volatile(pad),
        }
    }
}

/// The exit of a traced function in a rarer case.
///
/// # Safety
///
/// Called by the exit routine only.
pub(crate) unsafe extern "C" fn slow_exit(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    busy(|| unsafe { calls::mcount_slow_exit::<Program>(slot, end) })
}

/// Records the entry of a function with this number, whose calls have no handlers.
///
/// # Safety
///
/// `slot` is that of a call that just begins, and is to return to `caller`.
pub(crate) unsafe fn trace(slot: u64, caller: u64, id: u32) -> Return {
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    unsafe {
        let seen = enter(slot, caller, id);
        own(slot, seen, 0);
        seen
    }
}

/// Records the entry of a function with this number.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn enter(slot: u64, caller: u64, id: u32) -> Return {
    if !Program::is_recording() {
        return Return::AsBefore;
    }
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    busy(|| unsafe { calls::enter::<Program>(slot as *mut u64, caller, id) })
}

/// Sees to it that the return of a call is seen that isn't recorded.
///
/// # Safety
///
/// As above; `slot` has shadows, and nothing of ours returns to `caller`.
pub(crate) unsafe fn watch(slot: u64, caller: u64) -> Return {
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    busy(|| unsafe { calls::watch::<Program>(slot, caller) })
}

/// The call of `slot`, whose return is seen in this way, has these handlers.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn own(slot: u64, seen: Return, who: u64) {
    let of_pad = match seen {
        Return::Stub => 0,
        Return::AsBefore => return,
        Return::Pad(_) => frames::OF_PAD,
    };
    // SAFETY: the caller's. `longjmp` may have left something there.
    unsafe { frames::of(slot).who.write_volatile(who | of_pad) };
}

/// A call takes the place of one that returns to `address`, and has these handlers.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn own_as_before(slot: u64, address: u64, who: u64) {
    let has_pad = pads::caller_of::<Program>(address).is_some();
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    unsafe {
        if has_pad {
            calls::hold::<Program>(slot);
        }
        frames::of(slot).who.write_volatile(who | if has_pad { frames::OF_PAD } else { 0 });
    }
}

/// The frame that returns to `address` is on the stack, and has this slot: what was kept of it is there again.
///
/// # Safety
///
/// The slot is on this thread's stack.
pub(crate) unsafe fn claim(slot: u64, address: u64) {
    if pads::are_used() {
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        busy(|| unsafe { pads::claim::<Program>(slot, address) });
    }
}

/// The caller's address of a call that returns to `address`, and has this slot.
///
/// # Safety
///
/// RET of the slot is mapped, or it's a pad.
pub(crate) unsafe fn caller(slot: u64, address: u64) -> u64 {
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    pads::caller_of::<Program>(address)
        .unwrap_or_else(|| unsafe { frames::of(slot).ret.read_volatile() })
}

/// The same at its end; 0 if it isn't known.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn let_go(slot: u64, address: u64) -> u64 {
    // Without pads, nothing is mapped for this.
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    let act = || unsafe { calls::let_go::<Program>(slot, address) };
    if pads::are_used() { busy(act) } else { act() }
}

/// Records that the call of `slot`, if it's being recorded, has ended.
///
/// # Safety
///
/// `slot` has shadows.
pub(crate) unsafe fn finish(slot: u64, is_unwound: bool) {
    if !Program::is_recording() {
        return;
    }
    let end = if is_unwound { numbers::UNWOUND } else { numbers::RETURN };
    // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
    busy(|| unsafe { calls::finish::<Program>(slot as *mut u64, end) });
}
