//! Where the shadows of stacks are, where addresses have 32 bits: wherever there was room for those of a piece. A table says where.
//!
//! In the trace, a word on a stack has 8 bytes, as on other processors. So addresses on stacks are twice what they are.

use super::{layout as trace, sys};
use crate::frames;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

/// Bytes of stack in a piece, whose shadows are mapped together.
pub(crate) const PIECE: u64 = frames::PIECE;

/// Addresses on stacks are shifted to the left by that many bits in the trace, so that each word has 8 bytes there.
pub(crate) const SHIFT: u32 = 1;

const PIECES: usize = 1 << 17;
const _: () = assert!(PIECE << SHIFT == trace::CHUNK_SIZE && PIECE * PIECES as u64 == 1 << 32);

/// For each piece, where the starts of its calls are; what says which are open follows.
static ALL: [AtomicU32; PIECES] = [const { AtomicU32::new(0) }; PIECES];

/// Where the caller's address is of the slot at this address.
pub(crate) fn ret_of(slot: u64) -> u64 {
    frames::of(slot).ret as u64
}

/// Where the start of its call is.
pub(crate) fn start_of(slot: u64) -> u64 {
    let place = usize::try_from(slot / PIECE).ok().and_then(|piece| ALL.get(piece));
    place.map_or(0, |place| u64::from(place.load(Relaxed))) + (slot % PIECE << SHIFT)
}

/// Where it says which call is open.
pub(crate) fn open_of(slot: u64) -> u64 {
    start_of(slot) + trace::CHUNK_SIZE
}

/// A library isn't told of limits.
pub(crate) fn nest_of(slot: u64) -> u64 {
    start_of(slot)
}

/// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
pub(crate) fn reserve(stack: u64) -> Option<()> {
    // The caller's address is kept whether calls are traced or not.
    if !frames::cover_piece(stack / PIECE) {
        return None;
    }
    let place = ALL.get(usize::try_from(stack / PIECE).ok()?)?;
    let found = sys::map(0, 2 * trace::CHUNK_SIZE, sys::PROT_READ_WRITE)?;
    place.store(u32::try_from(found).ok()?, Release);
    Some(())
}

/// Stores a word at once, so that no reader finds half of it.
///
/// # Safety
///
/// The word is aligned, and there.
pub(crate) unsafe fn store(word: *mut u64, value: u64) {
    // SAFETY: the caller's.
    unsafe { AtomicU64::from_ptr(word) }.store(value, Release);
}
