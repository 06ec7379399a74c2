//! What XSAVE and FXSAVE leave of vector registers, on both processors that have them.

use super::here::{SHOWN, processor_state};
use crate::record::{Call, Vector, flags};

/// How the assembly says that it has used XSAVE.
const BY_XSAVE: u64 = 3;
const BY_FXSAVE: u64 = 4;

/// Lets handlers see vector registers, if they have asked for them.
///
/// # Safety
///
/// `call` is one of the assembly's.
pub(crate) unsafe fn show_vectors(call: &mut Call, wanted: u32) {
    /// In the area of FXSAVE and XSAVE: where `%xmm0` is, what is in use, and the upper halves of `%ymm`.
    const LOW: usize = 160;
    const IN_USE: usize = 512;
    const HIGH: usize = 576;
    const BOTH: usize = 6;
    call.vectors = std::ptr::null_mut();
    call.vectors_high = std::ptr::null_mut();
    let saved = call.saved & 0xffff_ffff;
    if wanted & flags::VECTORS == 0 || ![BY_XSAVE, BY_FXSAVE].contains(&saved) {
        return;
    }
    // SAFETY: the caller's: the area has these parts.
    unsafe {
        call.vectors = call.area.wrapping_add(LOW / size_of::<Vector>());
        if saved == BY_XSAVE {
            // What isn't in use is zero, and used from now on.
            let in_use = call.area.wrapping_add(IN_USE / size_of::<Vector>()).cast::<usize>();
            let enabled = processor_state();
            if *in_use & 2 == 0 {
                call.vectors.write_bytes(0, SHOWN);
            }
            if enabled & 4 != 0 {
                call.vectors_high = call.area.wrapping_add(HIGH / size_of::<Vector>());
                if *in_use & 4 == 0 {
                    call.vectors_high.write_bytes(0, SHOWN);
                }
            }
            *in_use |= BOTH & enabled;
        }
    }
}
