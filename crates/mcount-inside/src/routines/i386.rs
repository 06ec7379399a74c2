//! i386. Functions may take their arguments off the stack (`ret $4`), so where a watched function has returned to, its slot is
//! somewhere below the stack pointer.

#[path = "late.rs"]
mod late;

use crate::arch::{AREA, VECTORS, return_address, return_to};
use crate::c::mcount_live_mark;
use crate::frames::{self, TABLE};
use crate::record::{Call, Record, action};
use crate::watch::{self, personality, unwound};
use late::traced_late as traced;
use std::ffi::c_char;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Acquire;

/// A function is entered; what's to be done is in the call's target: where to go, or, if it's to return at once, where the stack
/// pointer is to be before the last `ret`.
///
/// # Safety
///
/// Called by the entry routine only.
unsafe extern "C" fn entered(call: *mut Call) {
    // SAFETY: the caller promises that it is called by the entry routine only.
    unsafe {
        watch::entered(call);
        let call = &mut *call;
        match call.action {
            action::CALL => return_to(call, return_address()),
            action::RETURN => leave_out(call),
            _ => {}
        }
    }
}

/// The function is to be left out, and its arguments are taken off the stack as it would. If the number of
/// bytes is unknown, it isn't left out.
unsafe fn leave_out(call: &mut Call) {
    // SAFETY: records are never freed; arguments are on the stack, above the slot.
    unsafe {
        let record = &*call.record;
        let Some(bytes) = record.frame.checked_sub(1) else {
            watch::miss();
            call.action = action::JUMP;
            call.target = record.body.load(Acquire);
            return;
        };
        let last = call.stack + bytes;
        let caller = (call.stack as *const u32).read_volatile();
        (last as *mut u32).write_volatile(caller);
        call.target = last;
    }
}

/// A watched or traced function has returned to one of two addresses: finds its slot, and puts its caller's address where the exit
/// routine returns by.
///
/// # Safety
///
/// Called by the exit routines only.
unsafe extern "C" fn returned(call: *mut Call, returns_to: u32) {
    // SAFETY: the caller promises that it is called by the exit routines only.
    unsafe {
        let call = &mut *call;
        let last = call.stack;
        call.stack = slot_below(last, returns_to);
        if call.stack == 0 {
            std::process::abort();
        }
        call.return_address = frames::caller(call.stack);
        (last as *mut u32).write_volatile(call.return_address as u32);
    }
}

/// Bytes below the stack pointer that the exit routines leave alone, as the assembly knows.
const LEFT: usize = 1024;

/// The same of a function that has returned to the pad at this address. Its slot gets that address if a signal came meanwhile.
///
/// # Safety
///
/// As above.
unsafe extern "C" fn returned_to_pad(call: *mut Call, pad: u32) {
    // SAFETY: the caller promises that it is called by the exit routines only.
    unsafe {
        let call = &mut *call;
        let last = call.stack;
        let has_it = |slot: &u64| (*slot as *const u32).read_volatile() == pad;
        call.stack = slots_from(last).take(LEFT / 4).find(has_it).unwrap_or(last);
        (call.stack as *mut u32).write_volatile(pad);
        call.link = (last as *mut u32).cast();
    }
}

/// The call of a pad has ended: puts its caller's address where the exit routine returns by.
///
/// # Safety
///
/// As above.
unsafe extern "C" fn put_back(call: *mut Call) {
    // SAFETY: `returned_to_pad` has found out where that is.
    unsafe { (*call).link.cast::<u32>().write_volatile((*call).return_address as u32) };
}

/// The words that may be the slot of a call which has just returned: `first`, or further down.
fn slots_from(first: u64) -> impl Iterator<Item = u64> {
    /// The most that an instruction takes off the stack, in words.
    const MOST: u64 = 1 << 14;
    (0..MOST).map(move |words| first.wrapping_sub(4 * words))
}

/// The slot of the call that has just returned to an address: `first`, if its function took no arguments off the stack; else it's
/// further down. 0: there's none.
///
/// There may be what `longjmp` has where arguments are now. But only the slot still has where it returned to, unless a signal
/// came just then.
fn slot_below(first: u64, returns_to: u32) -> u64 {
    let slots = || slots_from(first).filter(|slot| frames::caller(*slot) != 0);
    // SAFETY: its shadow is mapped, so the stack is.
    let has_it = |slot: &u64| unsafe { (*slot as *const u32).read_volatile() } == returns_to;
    slots().find(has_it).or_else(|| slots().next()).unwrap_or(0)
}

/// A marker.
///
/// # Safety
///
/// The text ends with a zero byte, or it's null.
unsafe extern "C" fn mark(text: *const c_char) {
    // SAFETY: the caller promises that the text ends with a zero byte, or it's null.
    unsafe { mcount_live_mark(text) };
}

assembly!(
    "../arch/i386.s";
    traced = sym traced,
    returned = sym returned,
    entered = sym entered,
    entered_late = sym watch::entered_late,
    unwound = sym unwound,
    personality = sym personality,
    area = sym AREA,
    vectors = sym VECTORS,
    table = sym TABLE,
    mark = sym mark,
    returned_to_pad = sym returned_to_pad,
    put_back = sym put_back,
    call_stack = const offset_of!(Call, stack),
    call_return = const offset_of!(Call, return_address),
    call_target = const offset_of!(Call, target),
    call_vectors = const offset_of!(Call, vectors),
    call_action = const offset_of!(Call, action),
    call_record = const offset_of!(Call, record),
    call_saved = const offset_of!(Call, saved),
    call_area = const offset_of!(Call, area),
    call_handler = const offset_of!(Call, handler),
    call_size = const size_of::<Call>(),
    record_body = const offset_of!(Record, body),
    record_list = const offset_of!(Record, list),
    record_flags = const offset_of!(Record, flags),
    options(att_syntax)
);
