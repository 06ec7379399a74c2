//! What is called where a traced function begins, and only the call can tell where it returns to.

use crate::agent::{self, Return};
use crate::arch::{late_return, return_to};
use crate::record::Call;

/// A function is entered whose calls are traced, and that has no handlers.
///
/// # Safety
///
/// Called by the entry routine only.
pub(super) unsafe extern "C" fn traced_late(call: *mut Call) {
    // SAFETY: the routine has made the call; records are never freed.
    unsafe {
        let call = &*call;
        match agent::trace(call.stack, call.return_address, (*call.record).id) {
            Return::Stub => return_to(call, late_return()),
            Return::Pad(pad) => return_to(call, pad),
            Return::AsBefore => {}
        }
    }
}
