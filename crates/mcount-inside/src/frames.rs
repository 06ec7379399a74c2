//! The data of a call under way: three shadows of the stack.
//!
//! A call is known by its *slot*, the place of its return address. So there is no list of frames to keep in step,
//! and `longjmp`, fibres and signal stacks need nothing.
//!
//! The shadows are private memory: a forked child has its own. They're mapped in pieces, when a stack is seen first,
//! and never unmapped, because stacks come back.

#[cfg_attr(target_pointer_width = "64", path = "frames/distance.rs")]
#[cfg_attr(target_pointer_width = "32", path = "frames/table.rs")]
mod places;

use crate::arch::{Thread, thread};
use mcount_cpu::here::abi::ADDRESS_BITS;
pub(crate) use places::*;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of stack whose shadows are mapped at a time.
pub(crate) const PIECE: u64 = if cfg!(target_pointer_width = "32") { 1 << 15 } else { 1 << 16 };
/// How many pieces there can be: 2 GiB of stacks.
const PIECES: usize = 1 << 15;

/// A piece's number * 4, and one of these; 0: an empty place.
static ALL: [AtomicU64; PIECES] = [const { AtomicU64::new(0) }; PIECES];
const COMING: u64 = 1;
const READY: u64 = 2;
const REFUSED: u64 = 3;

/// A bit of [`Frame::who`]: the words are those of a call that returns to a pad (`pads.rs` of `mcount-recorder`). The assembly knows it.
pub(crate) const OF_PAD: u64 = 1 << 62;

/// Another one: an exception has passed through the call of the slot, whose caller's address the unwinder was still to read then.
pub(crate) const LEFT: u64 = 1 << 61;

/// The words that belong to a slot.
pub(crate) struct Frame {
    /// The caller's address; 0: this slot isn't watched.
    pub(crate) ret: *mut u64,
    /// Function and handlers, as the highest level packs them; 0: no handler sees the call.
    pub(crate) who: *mut u64,
    /// The handlers' own.
    pub(crate) data: *mut u64,
}

/// Sees to it that the shadows of `slot` are mapped. `false` if they can't be.
pub(crate) fn cover(slot: u64) -> bool {
    let thread = thread();
    // SAFETY: this thread's own memory. A signal handler may change it in between; it leaves a range that is mapped.
    unsafe {
        let Thread { low, size, .. } = *thread;
        if slot.wrapping_sub(low) < size {
            return true;
        }
        let piece = slot / PIECE;
        if slot >> ADDRESS_BITS != 0 || piece == 0 || !cover_piece(piece) {
            return false;
        }
        (*thread).size = 0;
        (*thread).low = piece * PIECE;
        (*thread).size = PIECE;
    }
    true
}

/// Maps the shadows of the piece with this number, if they aren't. `false` if they can't be.
pub(crate) fn cover_piece(piece: u64) -> bool {
    /// Looks at a piece that another thread is mapping. A forked child may look in vain.
    const PATIENCE: usize = 10_000;
    let start = usize::try_from(piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).unwrap_or(0);
    let places = (0..PIECES).filter_map(|step| ALL.get((start + step) % PIECES));
    for place in places {
        let mut found = place.load(SeqCst);
        if found == 0 {
            found = claim(place, piece);
        }
        for _ in 0..PATIENCE {
            if found >> 2 != piece || found & 3 != COMING {
                break;
            }
            // SAFETY: takes nothing.
            unsafe { libc::sched_yield() };
            found = place.load(SeqCst);
        }
        if found >> 2 == piece {
            return found & 3 == READY;
        }
    }
    false
}

/// Takes an empty place for a piece, and maps its shadows; what the place has then, perhaps for another piece.
fn claim(place: &AtomicU64, piece: u64) -> u64 {
    let before = block_signals();
    let result = place.compare_exchange(0, piece << 2 | COMING, SeqCst, SeqCst);
    if result.is_ok() {
        let state = if places::map(piece * PIECE) { READY } else { REFUSED };
        place.store(piece << 2 | state, SeqCst);
    }
    restore_signals(&before);
    result.err().unwrap_or_else(|| place.load(SeqCst))
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: a set is plain data, and both are ours.
    unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set of ours.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
