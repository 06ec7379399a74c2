//! Arm, and exceptions there: a personality routine unwinds a frame itself (Exception Handling ABI for the Arm Architecture, 9), so that
//! of watched calls says where they were made, and exceptions needn't be stopped there.

#[path = "late.rs"]
mod late;

use crate::agent::{Program, slow_exit};
use crate::arch::{return_address, return_to};
use crate::c::mcount_live_mark;
use crate::frames::{self, TABLE};
use crate::record::{Call, Record, action};
use crate::unwinders;
use crate::watch::{self, MISSED, left, passed};
use late::traced_late as traced;
use mcount_cpu::here::abi::PAD_SIZE;
use mcount_recorder::pad_table::PAD_PAGES;
use mcount_recorder::pads;
use std::arch::global_asm;
use std::ffi::c_int;
use std::mem::offset_of;

unsafe extern "C" {
    fn mcount_inside_unwound(slot: u32, address: u32);
}

/// A function is entered.
///
/// # Safety
///
/// Called by the entry routine only.
unsafe extern "C" fn entered(call: *mut Call) {
    // SAFETY: the caller promises that it is called by the entry routine only.
    unsafe {
        watch::entered(call);
        if (*call).action == action::CALL {
            return_to(&*call, return_address());
        }
    }
}

/// What an unwinder asks when it comes to where a watched call returns to: who has made it? The stack is as it was when the function
/// was called. When it comes for the second time, the call has ended.
///
/// # Safety
///
/// Called by an unwinder only.
unsafe extern "C" fn personality(state: u32, _: u32, context: u32, caller: u32) -> c_int {
    const PHASES: u32 = 3;
    const FIRST_PHASE: u32 = 0;
    const CONTINUE_UNWIND: c_int = 8;
    const FAILURE: c_int = 9;
    const SP: u32 = 13;
    const PC: u32 = 15;
    let Some(unwinder) = unwinders::of(u64::from(caller)) else { return FAILURE };
    // SAFETY: the unwinder's own context.
    unsafe {
        let slot = u64::from(unwinder.register(context, SP)).wrapping_sub(4);
        let place = unwinder.register(context, PC);
        let pad = pads::caller_of::<Program>(u64::from(place));
        let address = pad.unwrap_or_else(|| frames::caller(slot));
        if address == 0 {
            return FAILURE;
        }
        if state & PHASES != FIRST_PHASE {
            mcount_inside_unwound((slot & 0xffff_ffff) as u32, place);
            if pad.is_none() {
                frames::of(slot).ret.write_volatile(0);
            }
        }
        unwinder.set_register(context, PC, (address & 0xffff_ffff) as u32);
    }
    CONTINUE_UNWIND
}

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/pads.s")),
    include_str!("../arch/mark.s"),
    include_str!("../arch/arm.s"),
    include_str!("../arch/thread.s"),
    traced = sym traced,
    slow_exit = sym slow_exit,
    entered = sym entered,
    entered_late = sym watch::entered_late,
    left = sym left,
    missed = sym MISSED,
    unwound = sym passed,
    personality = sym personality,
    table = sym TABLE,
    mark = sym mcount_live_mark,
    pad_pages = const PAD_PAGES,
    pad_size = const PAD_SIZE,
    call_stack = const offset_of!(Call, stack),
    call_return = const offset_of!(Call, return_address),
    call_target = const offset_of!(Call, target),
    call_action = const offset_of!(Call, action),
    call_record = const offset_of!(Call, record),
    call_saved = const offset_of!(Call, saved),
    call_area = const offset_of!(Call, area),
    call_handler = const offset_of!(Call, handler),
    call_link = const offset_of!(Call, link),
    call_size = const size_of::<Call>(),
    record_body = const offset_of!(Record, body),
    record_list = const offset_of!(Record, list),
    record_flags = const offset_of!(Record, flags),
    record_site = const offset_of!(Record, site),
    record_frame = const offset_of!(Record, frame),
);
