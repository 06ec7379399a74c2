//! Pads (`pads.rs`), as the assembly has them: code that functions return to, and a word for each with its caller's address.

use crate::processor::PAD_LANDING;

unsafe extern "C" {
    static mcount_pads: u8;
    static mut mcount_pad_words: u8;
}

/// Pads, and places for them that a page's head takes. The assembly has as many.
pub(crate) const PADS: u32 = 32 * IN_PAGE;
const IN_PAGE: u32 = 256;
/// Bytes of a pad. A function returns to the first, and what's there leaves an address in the pad behind.
const PAD: u64 = 16;

/// A pad: where functions return to, and the word with the address of their caller.
pub(crate) struct Pad {
    pub(crate) address: u64,
    pub(crate) caller: *mut u64,
}

/// The pad with this number, from 1 on. The first place of a page is its head.
pub(crate) fn pad(number: u32) -> Pad {
    let at = PAD * u64::from(number % PADS);
    Pad {
        address: (&raw const mcount_pads) as u64 + at,
        caller: ((&raw mut mcount_pad_words) as u64 + at) as *mut u64,
    }
}

/// Is this the number of a pad?
pub(crate) fn is_pad(number: u32) -> bool {
    !number.is_multiple_of(IN_PAGE)
}

/// The number of the pad with this address.
pub(crate) fn number_of(address: u64) -> Option<u32> {
    let distance = address.wrapping_sub((&raw const mcount_pads) as u64);
    let number = u32::try_from(distance / PAD).ok().filter(|number| *number < PADS)?;
    (distance.is_multiple_of(PAD) && is_pad(number)).then_some(number)
}

/// Where exceptions go that pass through the frame which returns to this pad.
pub(crate) fn landing(pad: u64) -> u64 {
    pad + PAD_LANDING
}

/// Where the call of `slot` returns to, which is at its end: a pad has called its exit.
///
/// # Safety
///
/// The slot is there, and no other frame has written to it since.
pub(crate) unsafe fn returned_to(slot: *mut u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { slot.read_volatile() & !(PAD - 1) }
}
