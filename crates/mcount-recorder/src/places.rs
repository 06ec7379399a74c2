//! Where the shadows of stacks are: at a constant distance, in the bits in which addresses of shadows differ from those of stacks.

use crate::layout as trace;
use mcount_cpu::here::abi::SHADOWS;

/// Bytes of stack in a piece, whose shadows are mapped together.
pub const PIECE: u64 = trace::CHUNK_SIZE;

/// Addresses on stacks are shifted to the left by that many bits in the trace, so that each word has 8 bytes there.
pub const SHIFT: u32 = 0;

const RET: u64 = SHADOWS[0];
const START: u64 = SHADOWS[0] | SHADOWS[1];
const OPEN: u64 = SHADOWS[1];
const NEST: u64 = SHADOWS[0] | SHADOWS[2];
const TOLD: u64 = SHADOWS[2];
// Pieces stay whole.
const _: () = assert!((START | NEST).is_multiple_of(PIECE));

/// Where the caller's address is of the slot at this address.
#[inline]
pub fn ret_of(slot: u64) -> u64 {
    slot ^ RET
}

/// Where the start of its call is.
#[inline]
pub fn start_of(slot: u64) -> u64 {
    slot ^ START
}

/// Where it says which call is open.
#[inline]
pub fn open_of(slot: u64) -> u64 {
    slot ^ OPEN
}

/// The place of its word of `limit.rs`.
#[inline]
pub fn nest_of(slot: u64) -> u64 {
    slot ^ NEST
}

/// The place of its words of `instrumented.rs`.
#[inline]
pub fn told_of(slot: u64) -> u64 {
    slot ^ TOLD
}

/// Stores a word at once, so that no reader finds half of it.
///
/// # Safety
///
/// The word is aligned, and there.
#[inline]
pub unsafe fn store(word: *mut u64, value: u64) {
    // SAFETY: the caller promises that the word is aligned, and there.
    unsafe { word.write_volatile(value) };
}
