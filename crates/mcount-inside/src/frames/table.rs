//! The shadows of stacks where addresses have 32 bits: wherever there was room for those of a piece. A table says where.
//!
//! Slots can be 4 bytes apart, and have words of 8 bytes. So the shadows of a piece are twice as long as the piece.

use super::{Frame, PIECE};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::Release};

/// Bytes of address space that a trace takes while it's recorded: the most that it can grow to.
pub(crate) const LIMIT: u64 = 1 << 29;
/// The least that it makes do with.
pub(crate) const LEAST: u64 = 1 << 24;

/// Bytes of a shadow of a piece, and of all three.
const SHADOW: u64 = 2 * PIECE;
const BYTES: usize = 3 * SHADOW as usize;
const PIECES: usize = 1 << 17;
const _: () = assert!(PIECE * PIECES as u64 == 1 << 32);

/// For each piece, what's to be added to twice the address of a slot: then that's where its caller's address is. 0: its
/// shadows aren't there. The assembly, and unwind information, know of it.
pub(crate) static TABLE: [AtomicU32; PIECES] = [const { AtomicU32::new(0) }; PIECES];

fn place(slot: u64) -> Option<&'static AtomicU32> {
    TABLE.get(usize::try_from(slot / PIECE).ok()?)
}

/// The words of the slot at this address. They're there if [`cover`](super::cover) says so.
pub(crate) fn of(slot: u64) -> Frame {
    let distance = place(slot).map_or(0, |place| u64::from(place.load(Relaxed)));
    let ret = distance.wrapping_add(2 * slot) & 0xffff_ffff;
    Frame {
        ret: ret as *mut u64,
        who: (ret + SHADOW) as *mut u64,
        data: (ret + 2 * SHADOW) as *mut u64,
    }
}

/// The caller's address of the slot at this address; 0 if it isn't watched.
pub(crate) fn caller(slot: u64) -> u64 {
    if place(slot).is_none_or(|place| place.load(Relaxed) == 0) {
        return 0;
    }
    // SAFETY: the shadows are there.
    unsafe { of(slot).ret.read_volatile() }
}

/// Maps the shadows of the piece of stack that begins here.
pub(super) fn map(stack: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let Some(place) = place(stack) else { return false };
    // SAFETY: new memory.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: advice on it.
    unsafe { libc::madvise(found.cast::<c_void>(), BYTES, libc::MADV_NOHUGEPAGE) };
    let distance = (found as u64).wrapping_sub(2 * stack) & 0xffff_ffff;
    place.store(u32::try_from(distance).unwrap_or(0), Release);
    // One distance is what says that there are none.
    distance != 0
}
