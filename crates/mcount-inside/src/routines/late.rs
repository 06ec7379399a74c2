//! Processors that have the caller's address in a register.

use crate::agent;
use crate::arch::{late_return, return_to};
use crate::record::Call;

/// A function is entered whose calls are traced, and whose hook is behind its prologue.
///
/// # Safety
///
/// Called by the entry routine only.
pub(super) unsafe extern "C" fn traced_late(call: *mut Call) {
    // SAFETY: the routine has made the call; records are never freed.
    unsafe {
        let call = &*call;
        if agent::enter(call.stack, call.return_address, (*call.record).id) {
            return_to(call, late_return());
        }
    }
}
