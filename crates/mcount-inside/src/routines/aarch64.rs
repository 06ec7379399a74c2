//! AArch64.

use crate::agent::{self, slow_entry, slow_exit};
use crate::arch::{LONG_VECTORS, late_return, return_to};
use crate::c::mcount_live_mark;
use crate::record::Call;
use crate::watch::{MISSED, entered, entered_late, left, personality, unwound};
use std::arch::global_asm;

global_asm!(
    include_str!("../arch/aarch64.s"),
    slow_entry = sym slow_entry,
    slow_entry_late = sym traced_late,
    slow_exit = sym slow_exit,
    entered = sym entered,
    entered_late = sym entered_late,
    left = sym left,
    missed = sym MISSED,
    unwound = sym unwound,
    personality = sym personality,
    mark = sym mcount_live_mark,
    long_vectors = sym LONG_VECTORS,
);

/// A function is entered whose calls are traced, and whose hook is behind its prologue.
///
/// # Safety
///
/// Called by the entry routine only.
unsafe extern "C" fn traced_late(call: *mut Call) {
    // SAFETY: the routine has made the call; records are never freed.
    unsafe {
        let call = &*call;
        if agent::enter(call.stack, call.return_address, (*call.record).id) {
            return_to(call, late_return());
        }
    }
}
