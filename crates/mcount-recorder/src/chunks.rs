//! Chunks of the trace: taking a new one, or, in a ring, the oldest one again.
//!
//! Which one is next is reported by the trace itself, and a wild program may have written over that. So a number is looked at
//! before it's used as an address: beyond the mapping nothing is the trace's, and beyond the end of the file an access is
//! a signal.

use crate::abi::flags::IN_MEMORY;
use crate::host::Host;
use crate::layout::{self as trace, directory, ring};
use crate::numbers::has;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The chunk up to which the file is known to go.
static KNOWN: AtomicU64 = AtomicU64::new(0);

/// How many chunks of a ring a call looks at, at most.
static LOOKS: AtomicU64 = AtomicU64::new(ring::MOST);

/// A chunk in memory.
pub struct Place {
    /// Its entry in the directory.
    pub descriptor: *mut u8,
    /// Its first byte.
    pub bytes: *mut u8,
}

/// A call isn't recorded: the trace counts those.
pub fn drop_call<H: Host>() {
    if let Some(dropped) = H::header(trace::header::DROPPED) {
        dropped.fetch_add(1, Relaxed);
    }
}

/// The mapping of this offset of the trace.
fn at<H: Host>(offset: u64) -> *mut u8 {
    H::file().wrapping_add(offset as usize)
}

/// Where chunk `number` is.
pub fn place<H: Host>(number: u64) -> Place {
    let first = number - number % directory::SPAN;
    let entry = (number - first) * directory::DESCRIPTOR_SIZE as u64;
    Place {
        descriptor: at::<H>(trace::HEADER_BLOCK + first * trace::CHUNK_SIZE + entry),
        bytes: at::<H>(trace::HEADER_BLOCK + number * trace::CHUNK_SIZE),
    }
}

/// Nothing is known of the file any more: another one takes its place.
pub fn forget() {
    KNOWN.store(0, SeqCst);
    LOOKS.store(ring::MOST, SeqCst);
}

/// Is `number` that of a chunk of the file? The last one that's mapped isn't looked for.
pub fn is_there<H: Host>(number: u64) -> bool {
    /// How many chunks are looked for ahead.
    const AHEAD: u64 = 16;
    let most = H::mapped().saturating_sub(trace::HEADER_BLOCK) / trace::CHUNK_SIZE;
    if number.is_multiple_of(directory::SPAN) || number >= most {
        return false;
    }
    // A thread that may make no system calls can't ask.
    if number <= KNOWN.load(Relaxed) || H::is_confined() {
        return true;
    }
    let found = [number.saturating_add(AHEAD).min(most - 1), number]
        .into_iter()
        .find(|last| sys::is_readable(place::<H>(*last).bytes as u64 + trace::CHUNK_SIZE - 8));
    if let Some(last) = found {
        KNOWN.fetch_max(last, Relaxed);
    }
    found.is_some()
}

/// Says what a chunk is.
///
/// # Safety
///
/// It's the caller's, and there is room for it and its directory.
unsafe fn describe(descriptor: *mut u8, kind: u32, thread: u32, base: u64, process: u32) {
    // SAFETY: the caller promises that the chunk is its own, so the descriptor is mapped and no other thread writes to it.
    unsafe {
        descriptor.add(directory::THREAD).cast::<u32>().write_volatile(thread);
        descriptor.add(directory::BASE).cast::<u64>().write_volatile(base);
        descriptor.add(directory::PID).cast::<u64>().write_volatile(u64::from(process));
        descriptor.add(directory::KIND).cast::<u32>().write_volatile(kind);
    }
}

/// A new chunk of this kind. `None` if there is no room.
pub fn new_chunk<H: Host>(kind: u32, thread: u32, base: u64, process: u32) -> Option<Place> {
    new_number::<H>(kind, thread, base, process).map(place::<H>)
}

/// The number of a new chunk of this kind. `None` if there is no room.
pub fn new_number<H: Host>(kind: u32, thread: u32, base: u64, process: u32) -> Option<u64> {
    let (next, ready) = (H::header(trace::header::NEXT_CHUNK)?, H::header(trace::header::READY)?);
    let number = loop {
        let number = next.load(SeqCst);
        if number >= u64::MAX - 2 || !H::has_room(ready, number) {
            return None;
        }
        // Every 1024th chunk is a directory.
        let taken = if number % directory::SPAN == 0 { number + 1 } else { number };
        if !is_there::<H>(taken) {
            return None;
        }
        if next.compare_exchange(number, taken + 1, SeqCst, SeqCst).is_ok() {
            break taken;
        }
    };
    // SAFETY: the recorder has made room for the directory and for this chunk.
    unsafe { describe(place::<H>(number).descriptor, kind, thread, base, process) };
    Some(number)
}

/// The number of a new chunk for calls, where there's no ring. `None` if there is no room.
pub fn new_of_calls<H: Host>(thread: u32, base: u64, process: u32) -> Option<u64> {
    let number = new_number::<H>(trace::chunk::CALLS, thread, base, process)?;
    if has::<H>(IN_MEMORY) {
        touch(place::<H>(number).bytes);
    }
    Some(number)
}

/// How many chunks of calls the trace may have if it's a ring, else 0.
pub fn ring<H: Host>() -> Option<u64> {
    Some(H::header(trace::header::RING)?.load(Relaxed).min(ring::MOST))
}

/// A chunk of a ring for calls, which is the caller's until it's released.
///
/// Where others write to all of them, or a wild program has written over the ring, none is found once around. Then whoever comes next
/// looks at a few only, further on each time, until one is found: else each call would take as long as thousands.
///
/// `is_left` is asked about the descriptors of chunks that a thread has. It says whether that one is gone, and releases it then.
pub fn new_in_ring<H: Host>(
    (thread, base, process): (u32, u64, u32),
    is_left: impl FnMut(*mut u8) -> bool,
) -> Option<Place> {
    const FEW: u64 = 8;
    // It may just have been written over.
    let count = ring::<H>().filter(|count| *count != 0)?;
    let place = look_around::<H>(count, LOOKS.load(Relaxed), (thread, base, process), is_left);
    let looks = if place.is_some() { ring::MOST } else { FEW };
    if LOOKS.load(Relaxed) != looks {
        LOOKS.store(looks, Relaxed);
    }
    place
}

/// The next chunk of a ring of `count` that no thread writes to, of at most `looks`.
///
/// Each place of the ring gets its chunk when its turn comes for the first time. If the recorder is behind then, it stays empty until a
/// later turn: or a ring for which there was no room for a moment would never have more chunks than it had by then.
fn look_around<H: Host>(
    count: u64,
    looks: u64,
    of: (u32, u64, u32),
    mut is_left: impl FnMut(*mut u8) -> bool,
) -> Option<Place> {
    let (thread, base, process) = of;
    let next = H::header(trace::header::RING_NEXT)?;
    let mut was_in_vain = false;
    for _ in 0..=count.min(looks) {
        let turn = next.fetch_add(1, SeqCst);
        let entry = H::header(ring::TABLE + (turn % count) as usize * ring::ENTRY)?;
        let number = entry.load(SeqCst);
        if number == 0 && !was_in_vain && (turn < count || has_room_now::<H>()) {
            let Some(number) = new_number::<H>(trace::chunk::CALLS, thread, base, process) else {
                was_in_vain = true;
                continue;
            };
            let place = place::<H>(number);
            busy(place.descriptor).store(1, SeqCst);
            entry.store(number, SeqCst);
            return Some(place);
        }
        if number == 0 || !is_there::<H>(number) {
            continue;
        }
        let place = place::<H>(number);
        let take = || busy(place.descriptor).compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
        if take() || is_left(place.descriptor) && take() {
            // SAFETY: it's nobody else's now.
            unsafe {
                empty::<H>(&place);
                describe(place.descriptor, trace::chunk::CALLS, thread, base, process);
            }
            return Some(place);
        }
    }
    None
}

/// Is there room for one more chunk and a directory, without waiting for any? A wild program may have emptied the ring, and the recorder
/// makes no room beyond it.
fn has_room_now<H: Host>() -> bool {
    let numbers = H::header(trace::header::NEXT_CHUNK).zip(H::header(trace::header::READY));
    numbers.is_some_and(|(next, ready)| {
        next.load(SeqCst).checked_add(3).is_some_and(|end| end <= ready.load(SeqCst))
    })
}

/// Maps the pages of a chunk before they are written to, which the recorder has cleared.
///
/// The kernel maps the one page that is written to, but where one is read, all that are ready in the 64 KiB around it
/// (`do_fault_around`). If the mapping isn't aligned to 64 KiB, a chunk is in two of those.
fn touch(bytes: *mut u8) {
    for at in [0, trace::CHUNK_SIZE as usize - 1] {
        // SAFETY: within the chunk, which is the caller's.
        unsafe { bytes.add(at).read_volatile() };
    }
}

/// The chunk with this descriptor, if it's one, is no longer written to.
pub fn release(descriptor: *mut u8) {
    if !descriptor.is_null() {
        busy(descriptor).store(0, SeqCst);
    }
}

fn busy(descriptor: *mut u8) -> &'static AtomicU64 {
    // SAFETY: descriptors stay mapped, and their fields are aligned.
    unsafe { &*descriptor.add(directory::BUSY).cast::<AtomicU64>() }
}

/// Forgets the calls of a chunk.
///
/// # Safety
///
/// It's the caller's.
unsafe fn empty<H: Host>(place: &Place) {
    let mut calls = 0;
    // SAFETY: the caller promises that the chunk is its own, so it's mapped, and no other thread writes to it.
    unsafe {
        place.descriptor.cast::<u32>().write_volatile(trace::chunk::UNUSED);
        for record in 0..trace::CHUNK_SIZE as usize / 16 {
            let words = place.bytes.cast::<u64>().add(2 * record);
            calls += u64::from(words.read_volatile() & 0xff_ffff != 0);
            words.write_volatile(0);
            words.add(1).write_volatile(0);
        }
    }
    if let Some(dropped) = H::header(trace::header::DROPPED) {
        dropped.fetch_add(calls, Relaxed);
    }
}
