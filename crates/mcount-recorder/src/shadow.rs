//! The shadows of stacks: mapping them, piece by piece, when a stack is seen first.
//!
//! A piece is as many bytes of stack as a chunk of the trace has a place for, aligned to that size. Its RET is private,
//! so that a forked child has its own; its TIM and OPN are chunks of the trace. After a fork the child
//! still has its parent's TIM and OPN mapped, and must not write there: so which of them are
//! mapped is kept in memory that `fork` wipes, and the child maps its own when it first needs them.

use crate::chunks::new_chunk;
use crate::host::Host;
use crate::places::{self, PIECE, SHIFT, open_of, start_of};
use crate::{layout as trace, sys};
use mcount_cpu::here::abi::ADDRESS_BITS;

/// How many pieces can be kept in mind: 2 GiB of stacks.
const PIECES: usize = 1 << 15;

/// Bits of OPN: the call is that of a pad. The upper one sends exits to the slow path.
pub const OF_PAD: u64 = 3 << 30;

/// The three words that belong to a slot.
pub struct Shadow {
    /// The caller's address; 0: this slot isn't watched.
    pub ret: *mut u64,
    /// When the call began.
    pub start: *mut u64,
    /// Thread number << 32 | function number; 0: no call is open here.
    pub open: *mut u64,
}

/// The shadow of the slot at this address.
pub fn of<H: Host>(slot: u64) -> Shadow {
    Shadow {
        ret: H::ret_of(slot) as *mut u64,
        start: start_of(slot) as *mut u64,
        open: open_of(slot) as *mut u64,
    }
}

/// The word of `limit.rs` that belongs to the slot at this address.
pub fn nest_of(slot: u64) -> *mut u64 {
    places::nest_of(slot) as *mut u64
}

/// A set of pieces: open addressing by the piece's number; 0 is an empty place.
pub struct Pieces([u64; PIECES]);

impl Pieces {
    fn place(&self, piece: u64) -> Option<usize> {
        let start = (piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        (0..PIECES).map(|step| start.wrapping_add(step) % PIECES).find(
            |place| matches!(self.0.get(*place), Some(found) if *found == 0 || *found == piece),
        )
    }

    fn has(&self, piece: u64) -> bool {
        self.place(piece).and_then(|place| self.0.get(place)).is_some_and(|found| *found == piece)
    }

    fn add(&mut self, piece: u64) {
        if let Some(room) = self.place(piece).and_then(|place| self.0.get_mut(place)) {
            *room = piece;
        }
    }
}

/// The pieces whose addresses are the agent's, in this process or, before a fork, in its parent.
static mut RESERVED: Pieces = Pieces([0; PIECES]);

/// Sees to it that the shadows of `slot` are mapped. The range of stack around it, lowest address and size,
/// that is mapped as well; `None` if it can't be had. The caller holds the agent's lock.
pub fn cover<H: Host>(slot: u64, mapped: &mut Pieces) -> Option<(u64, u64)> {
    let piece = slot / PIECE;
    if piece == 0 || slot >> ADDRESS_BITS != 0 {
        return None;
    }
    if !mapped.has(piece) {
        // SAFETY: the lock is held.
        let reserved = unsafe { (&raw mut RESERVED).as_mut() }?;
        map_piece::<H>(piece, reserved)?;
        mapped.add(piece);
    }
    covered(piece, mapped)
}

/// The pieces that TOLD is mapped for, which forked children have, too.
#[cfg(target_pointer_width = "64")]
static mut TOLD: Pieces = Pieces([0; PIECES]);

/// The range of stack, lowest address and size, around `slot` for which TOLD is mapped. If it isn't for `slot`, it is now, if it may be. `None` if
/// that can't be had. The caller holds the agent's lock.
#[cfg(target_pointer_width = "64")]
pub fn cover_told(slot: u64, may_map: bool) -> Option<(u64, u64)> {
    // SAFETY: the lock is held.
    let mapped = unsafe { (&raw mut TOLD).as_mut() }?;
    let piece = slot / PIECE;
    if !mapped.has(piece) && may_map {
        sys::map(places::told_of(piece * PIECE), PIECE, sys::PROT_READ_WRITE)?;
        mapped.add(piece);
    }
    covered(piece, mapped)
}

/// The range of stack, lowest address and size, around a piece that's mapped; `None` if it isn't.
pub fn covered(piece: u64, mapped: &Pieces) -> Option<(u64, u64)> {
    if !mapped.has(piece) {
        return None;
    }
    let (mut low, mut high) = (piece, piece);
    while piece - low < 256 && mapped.has(low - 1) {
        low -= 1;
    }
    while high - piece < 256 && mapped.has(high + 1) {
        high += 1;
    }
    Some((low * PIECE, (high - low + 1) * PIECE))
}

/// Gives the mappings of the trace up.
pub fn give_up(mapped: &mut Pieces) {
    for piece in mapped.0.iter_mut().filter(|piece| **piece != 0) {
        let stack = *piece * PIECE;
        // SAFETY: the addresses are reserved for this.
        unsafe {
            sys::reserve_again(start_of(stack), trace::CHUNK_SIZE);
            sys::reserve_again(open_of(stack), trace::CHUNK_SIZE);
        }
        *piece = 0;
    }
}

/// Gives all mappings of the trace up, also those of pieces that were a parent's, and what `limit.rs` knows.
pub fn give_all_up(mapped: &mut Pieces) {
    // SAFETY: the lock is held.
    let Some(reserved) = (unsafe { (&raw const RESERVED).as_ref() }) else { return };
    for piece in reserved.0.iter().filter(|piece| **piece != 0) {
        let stack = *piece * PIECE;
        // SAFETY: the addresses are reserved for this.
        unsafe {
            sys::reserve_again(start_of(stack), trace::CHUNK_SIZE);
            sys::reserve_again(open_of(stack), trace::CHUNK_SIZE);
            sys::reserve_again(places::nest_of(stack), trace::CHUNK_SIZE);
        }
    }
    mapped.0.fill(0);
}

fn map_piece<H: Host>(piece: u64, reserved: &mut Pieces) -> Option<()> {
    let stack = piece * PIECE;
    if !reserved.has(piece) {
        H::reserve(stack)?;
        reserved.add(piece);
    }
    let process = sys::process_id();
    let starts = new_chunk::<H>(trace::chunk::STARTS, 0, stack << SHIFT, process)?.bytes as u64;
    let open = new_chunk::<H>(trace::chunk::OPEN, 0, stack << SHIFT, process)?.bytes as u64;
    // SAFETY: the addresses are reserved for this; the chunks are nobody else's.
    let done = unsafe {
        H::duplicate(starts, trace::CHUNK_SIZE, start_of(stack))
            && H::duplicate(open, trace::CHUNK_SIZE, open_of(stack))
    };
    if !done {
        // SAFETY: the addresses are reserved for this.
        unsafe {
            sys::reserve_again(start_of(stack), trace::CHUNK_SIZE);
            sys::reserve_again(open_of(stack), trace::CHUNK_SIZE);
        }
        return None;
    }
    Some(())
}
