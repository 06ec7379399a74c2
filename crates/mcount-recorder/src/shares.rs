//! Shares of chunks. A thread that records few calls takes a few hundred bytes of a chunk that it has in common with other
//! threads of its process. The more it records, the more it takes at a time, and in the end whole chunks.
//!
//! Which chunk is shared is known in memory that `fork` wipes, so a child begins one of its own. How much of it was given out is
//! in its descriptor, for readers that follow the trace. Both are changed by any thread at any time, also in signal
//! handlers, so nothing here takes a lock. In a ring, chunks are written over as a whole, so there are no shares.

use crate::chunks;
use crate::host::Host;
use crate::layout::{self as trace, directory, share};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Chunks of a process that threads have in common, by number; 0: none.
pub(crate) struct Shares {
    /// The one that shares are taken of.
    current: AtomicU64,
    /// One that is to be the next: another thread was quicker when it was taken.
    spare: AtomicU64,
}

impl Shares {
    /// Nothing is known of the file any more: another one takes its place.
    pub(crate) fn forget(&self) {
        self.current.store(0, SeqCst);
        self.spare.store(0, SeqCst);
    }
}

/// A thread asks for this.
pub(crate) struct Wanted {
    pub(crate) thread: u32,
    pub(crate) process: u32,
    /// The base of the times in its records.
    pub(crate) base: u64,
    /// Bytes that it must have at least, and those that it should have: multiples of [`share::GRAIN`], up to those of a chunk.
    pub(crate) least: u64,
    pub(crate) size: u64,
}

impl Wanted {
    /// For a thread that has taken `taken` bytes before, and needs room for `records` at once. It's to have no more than it has
    /// had, so at most half of all is in vain.
    pub(crate) fn new(taken: u64, records: u64) -> Self {
        let power = if taken == 0 { 0 } else { 1 << taken.ilog2() };
        let least =
            (records * trace::call::SIZE as u64 + share::HEAD).next_multiple_of(share::GRAIN);
        let least = least.min(trace::CHUNK_SIZE);
        let size = least.max(power).min(trace::CHUNK_SIZE);
        Self { thread: 0, process: 0, base: 0, least, size }
    }
}

/// Where a thread may write to.
pub(crate) struct Room {
    pub(crate) descriptor: *mut u8,
    pub(crate) bytes: *mut u8,
    /// How many bytes there are.
    pub(crate) size: u64,
    /// It's a share, whose base isn't in the descriptor.
    pub(crate) is_share: bool,
}

/// Room for calls. `None` if there is none. In a ring, `is_left` says whether the thread that has a chunk is gone.
pub(crate) fn take<H: Host>(
    shares: &Shares,
    wanted: &Wanted,
    is_left: impl FnMut(*mut u8) -> bool,
) -> Option<Room> {
    /// How often all of a new chunk is gone before this thread gets a share of it.
    const PATIENCE: u32 = 8;
    let (thread, base, process) = (wanted.thread, wanted.base, wanted.process);
    if chunks::ring::<H>()? != 0 {
        let place = chunks::new_in_ring::<H>((thread, base, process), is_left)?;
        return Some(whole(&place));
    }
    if wanted.size < trace::CHUNK_SIZE {
        for _ in 0..PATIENCE {
            let number = shares.current.load(SeqCst);
            if let Some(room) = share_of::<H>(number, wanted) {
                return Some(room);
            }
            let next = match shares.spare.swap(0, SeqCst) {
                0 => chunks::new_of_calls::<H>(thread, base, process)?,
                spare => spare,
            };
            let is_used = shares.current.compare_exchange(number, next, SeqCst, SeqCst).is_ok()
                || shares.spare.compare_exchange(0, next, SeqCst, SeqCst).is_ok();
            if !is_used {
                return Some(whole(&chunks::place::<H>(next)));
            }
        }
    }
    chunks::new_of_calls::<H>(thread, base, process)
        .map(|number| whole(&chunks::place::<H>(number)))
}

/// All of a chunk.
fn whole(place: &chunks::Place) -> Room {
    let chunks::Place { descriptor, bytes } = *place;
    Room { descriptor, bytes, size: trace::CHUNK_SIZE, is_share: false }
}

/// A share of chunk `number`: as much as is wanted, or less if it's the last one. `None` if too little is left, or if it isn't a
/// chunk of the process's calls.
fn share_of<H: Host>(number: u64, wanted: &Wanted) -> Option<Room> {
    if number == 0 || !chunks::is_there::<H>(number) {
        return None;
    }
    let place = chunks::place::<H>(number);
    // SAFETY: descriptors of chunks that are there stay mapped, and their fields are aligned.
    let (kind, process, given) = unsafe {
        (
            place.descriptor.add(directory::KIND).cast::<u32>().read_volatile(),
            place.descriptor.add(directory::PID).cast::<u64>().read_volatile(),
            &*place.descriptor.add(directory::SHARED).cast::<AtomicU64>(),
        )
    };
    if kind != trace::chunk::CALLS || process != u64::from(wanted.process) {
        return None;
    }
    loop {
        let before = given.load(SeqCst);
        let size = share_at(before, wanted)?;
        if given.compare_exchange(before, before + size, SeqCst, SeqCst).is_ok() {
            let bytes = place.bytes.wrapping_add(before as usize);
            return Some(Room { descriptor: place.descriptor, bytes, size, is_share: true });
        }
    }
}

/// Bytes of the share that begins at `before` in its chunk. `None` if too few are left, or if none can begin there: a wild program may
/// have written over the number.
fn share_at(before: u64, wanted: &Wanted) -> Option<u64> {
    let left = trace::CHUNK_SIZE.checked_sub(before)?;
    (before.is_multiple_of(share::GRAIN) && left >= wanted.least).then_some(left.min(wanted.size))
}
