//! There are no pads (`pads.rs`) for this processor yet: frames that share a slot aren't told apart.

/// How many there are.
pub const PADS: u32 = 0;

/// Where the assembly has the pads of this program: nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Pads;

/// A pad: where functions return to, and the word with the address of their caller.
#[derive(Debug)]
pub(crate) struct Pad {
    pub(crate) address: u64,
    pub(crate) caller: *mut u64,
}

#[expect(clippy::unused_self, reason = "other processors have pads")]
impl Pads {
    /// The pad with this number.
    pub(crate) fn pad(self, _: u32) -> Pad {
        Pad { address: 0, caller: core::ptr::null_mut() }
    }

    /// The number of the pad with this address.
    #[inline]
    pub fn number_of(self, _: u64) -> Option<u32> {
        None
    }
}

/// Is this the number of a pad?
pub(crate) fn is_pad(_: u32) -> bool {
    false
}

/// Where exceptions go that pass through the frame which returns to this pad.
pub fn landing(pad: u64) -> u64 {
    pad
}

/// Where the call of `slot` returns to: not to a pad.
///
/// # Safety
///
/// None.
#[inline]
pub unsafe fn returned_to(_: *mut u64) -> u64 {
    0
}
