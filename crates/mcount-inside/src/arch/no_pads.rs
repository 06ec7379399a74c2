//! There are no pads (`agent/pads.rs`) for this processor yet: frames that share a slot aren't told apart.

/// How many there are.
pub(crate) const PADS: u32 = 0;

/// A pad: where functions return to, and the word with the address of their caller.
pub(crate) struct Pad {
    pub(crate) address: u64,
    pub(crate) caller: *mut u64,
}

/// The pad with this number.
pub(crate) fn pad(_: u32) -> Pad {
    Pad { address: 0, caller: std::ptr::null_mut() }
}

/// Is this the number of a pad?
pub(crate) fn is_pad(_: u32) -> bool {
    false
}

/// The number of the pad with this address.
pub(crate) fn number_of(_: u64) -> Option<u32> {
    None
}

/// Where exceptions go that pass through the frame which returns to this pad.
#[cfg_attr(target_arch = "arm", expect(dead_code, reason = "unwinders go on there"))]
pub(crate) fn landing(pad: u64) -> u64 {
    pad
}

/// Where the call of `slot` returns to: not to a pad.
///
/// # Safety
///
/// None.
pub(crate) unsafe fn returned_to(_: *mut u64) -> u64 {
    0
}
