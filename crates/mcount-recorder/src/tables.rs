//! Where the shadows of stacks are, where addresses have 32 bits: wherever there was room for those of a piece. A table says where.
//!
//! In the trace, a word on a stack has 8 bytes, as on other processors. So addresses on stacks are twice what they are.

use crate::{layout as trace, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

/// Bytes of stack in a piece, whose shadows are mapped together.
pub const PIECE: u64 = trace::CHUNK_SIZE >> SHIFT;

/// Addresses on stacks are shifted to the left by that many bits in the trace, so that each word has 8 bytes there.
pub const SHIFT: u32 = 1;

const PIECES: usize = 1 << 17;
const _: () = assert!(PIECE * PIECES as u64 == 1 << 32);

/// For each piece, where the starts of its calls are; what says which are open follows.
static ALL: [AtomicU32; PIECES] = [const { AtomicU32::new(0) }; PIECES];

/// Where the start of its call is.
#[inline]
pub fn start_of(slot: u64) -> u64 {
    let place = usize::try_from(slot / PIECE).ok().and_then(|piece| ALL.get(piece));
    place.map_or(0, |place| u64::from(place.load(Relaxed))) + ((slot % PIECE) << SHIFT)
}

/// Where it says which call is open.
#[inline]
pub fn open_of(slot: u64) -> u64 {
    start_of(slot) + trace::CHUNK_SIZE
}

/// A library isn't told of limits.
#[inline]
pub fn nest_of(slot: u64) -> u64 {
    start_of(slot)
}

/// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
pub fn reserve(stack: u64) -> Option<()> {
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
#[inline]
pub unsafe fn store(word: *mut u64, value: u64) {
    // SAFETY: the caller promises that the word is aligned, and there.
    unsafe { AtomicU64::from_ptr(word) }.store(value, Release);
}
