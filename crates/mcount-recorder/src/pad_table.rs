//! Pads (`pads.rs`), as the assembly has them: code that functions return to, and a word for each with its caller's address.

use mcount_cpu::here::abi::{PAD_LANDING, PAD_SIZE};

/// How many pages of pads there are.
pub const PAD_PAGES: u32 = 32;

/// Pads, and places for them that a page's head takes.
pub const PADS: u32 = PAD_PAGES * IN_PAGE;
const IN_PAGE: u32 = 4096 / PAD_SIZE as u32;

/// Where the assembly (`PADS`) has the pads of this program.
#[derive(Clone, Copy, Debug)]
pub struct Pads {
    /// The address of the first page of pads.
    pub code: u64,
    /// The address of the first page of their words.
    pub words: u64,
}

/// A pad: where functions return to, and the word with the address of their caller.
#[derive(Debug)]
pub(crate) struct Pad {
    pub(crate) address: u64,
    pub(crate) caller: *mut u64,
}

impl Pads {
    /// The pad with this number, from 1 on. The first place of a page is its head.
    pub(crate) fn pad(self, number: u32) -> Pad {
        let at = PAD_SIZE * u64::from(number % PADS);
        Pad { address: self.code + at, caller: (self.words + at) as *mut u64 }
    }

    /// The number of the pad with this address.
    #[inline]
    pub fn number_of(self, address: u64) -> Option<u32> {
        let distance = address.wrapping_sub(self.code);
        if distance >= PAD_SIZE * u64::from(PADS) {
            return None;
        }
        let number = distance as u32 / PAD_SIZE as u32;
        (distance.is_multiple_of(PAD_SIZE) && is_pad(number)).then_some(number)
    }
}

/// Is this the number of a pad?
pub(crate) fn is_pad(number: u32) -> bool {
    !number.is_multiple_of(IN_PAGE)
}

/// Where exceptions go that pass through the frame which returns to this pad.
pub fn landing(pad: u64) -> u64 {
    pad + PAD_LANDING
}

/// Where the call of `slot` returns to, which is at its end: a pad has called its exit.
///
/// # Safety
///
/// The slot is there, and no other frame has written to it since.
#[inline]
pub unsafe fn returned_to(slot: *mut u64) -> u64 {
    // SAFETY: the caller promises that the slot is there. It has an address.
    unsafe { slot.cast::<usize>().read_volatile() as u64 & !(PAD_SIZE - 1) }
}
