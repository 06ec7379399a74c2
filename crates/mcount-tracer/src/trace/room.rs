//! Room in a trace: chunks that there is room for ahead of those who take them, and the header, in which programs
//! and recorder count them.

use super::prepare::{Prepared, Space};
use super::scope::Scope;
use mcount_trace::Moment;
use mcount_trace::layout::{self, directory, header};
use memmap2::MmapMut;
use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that a trace leaves free on its disk, whatever its size may be.
const RESERVE: u64 = 16 << 20;

/// A trace without a given size leaves this part of its disk free, but not more than `MOST` bytes: the program and others write
/// there, too.
const PART: u64 = 20;
const MOST: u64 = 1 << 30;

/// Chunks that there is room for ahead of need: 16 MiB.
pub(super) const AHEAD: u64 = 256;

/// How often it's looked whether there is still room.
const OFTEN: Duration = Duration::from_millis(1);
const SELDOM: Duration = Duration::from_millis(8);
/// There will hardly be more, as in a ring.
const WHOLE: Duration = Duration::from_millis(50);

/// How large a trace may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// As large as its disk has room for.
    Any,
    /// So many bytes; what comes then isn't recorded.
    Most(u64),
    /// So many bytes of calls; the oldest make room for new ones.
    Ring(u64),
}

impl Size {
    /// How many chunks of calls there are at most in a ring; 0 if it's none.
    pub(super) fn ring(self) -> u64 {
        match self {
            Self::Ring(bytes) => (bytes / layout::CHUNK_SIZE).clamp(2, layout::ring::MOST),
            _ => 0,
        }
    }
}

/// The view of it that the recorder's threads share.
pub(super) struct Shared {
    pub(super) file: File,
    pub(super) header: MmapMut,
    pub(super) stop: AtomicBool,
    pub(super) error: Mutex<Option<io::Error>>,
    /// How many chunks it may have.
    pub(super) limit: AtomicU64,
    /// Did the user give its size?
    pub(super) is_limited: bool,
    /// How many chunks of calls there are at most in a ring, else 0. Were it taken from the header, a program that writes zeroes there
    /// would have the trace grow without an end.
    pub(super) ring: u64,
    /// How many chunks there is room for, and whether there can't be more. The header says so, too; but programs have that in their
    /// memory, and may write anything there.
    pub(super) ready: AtomicU64,
    pub(super) is_full: AtomicBool,
    /// Are pages cleared before the program writes to them?
    pub(super) is_prepared: bool,
}

impl Shared {
    pub(super) fn field(&self, offset: usize) -> &AtomicU64 {
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "a mapping begins at a page, and fields are aligned"
        )]
        // SAFETY: the header block is mapped, the offset is one of its fields and a multiple of 8, and other
        // processes use atomic instructions as well.
        unsafe {
            &*self.header.as_ptr().add(offset).cast::<AtomicU64>()
        }
    }

    pub(super) fn set(&self, offset: usize, value: u64) {
        self.field(offset).store(value, SeqCst);
    }

    /// How many chunks were given out.
    pub(super) fn given_out(&self) -> u64 {
        self.field(header::NEXT_CHUNK).load(SeqCst).min(self.ready.load(SeqCst))
    }

    /// There's room for no more chunks.
    pub(super) fn set_full(&self) {
        self.is_full.store(true, SeqCst);
        self.set(header::FULL, 1);
    }

    /// There's room for no more chunks: why not.
    pub(super) fn fail(&self, error: io::Error) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_full.load(SeqCst) {
            *first = Some(error);
        }
        self.set_full();
    }

    /// Why there's room for no more chunks.
    pub(super) fn why_full(&self) -> io::Error {
        let first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let why = first.as_ref().map(ToString::to_string);
        io::Error::new(io::ErrorKind::StorageFull, why.unwrap_or_else(|| "it's full".to_owned()))
    }

    /// Writes what the keeper knows best into the header again, if a program has written over it.
    pub(super) fn restore(&self) {
        let full = u64::from(self.is_full.load(SeqCst));
        let ready = self.ready.load(SeqCst);
        for (offset, value) in
            [(header::READY, ready), (header::FULL, full), (header::RING, self.ring)]
        {
            if self.field(offset).load(SeqCst) != value {
                self.set(offset, value);
            }
        }
    }

    /// Writes the header, but for what makes it a trace.
    pub(super) fn describe(&self, scope: &Scope, begin: Moment) -> io::Result<()> {
        let untimed = scope.untimed;
        self.file.write_all_at(&layout::BYTE_ORDER.to_ne_bytes(), header::BYTE_ORDER as u64)?;
        self.file.write_all_at(&layout::VERSION.to_ne_bytes(), header::VERSION as u64)?;
        let realtime = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let realtime = realtime.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
        self.set(header::CHUNK_SIZE, layout::CHUNK_SIZE);
        self.set(header::CLOCK, if untimed { layout::clock::NONE } else { layout::clock::COUNTER });
        self.set(header::START_TICKS, if untimed { 0 } else { begin.ticks });
        self.set(header::FLAGS, if scope.entries { layout::flags::ENTRIES } else { 0 });
        self.set(header::RING, self.ring);
        self.set(header::START_REALTIME, realtime);
        self.set(header::START_MONOTONIC, if untimed { 0 } else { begin.nanoseconds });
        // An agent that has had another trace before must not take this one's for that one's.
        self.set(header::HEARTBEAT, realtime);
        Ok(())
    }

    /// Makes room for the first `count` chunks. The error says how much that takes.
    pub(super) fn make_first_room(&self, count: u64) -> io::Result<()> {
        self.make_room(count).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => {
                let Ok(space) = Space::of(&self.file) else { return error };
                let wanted = megabytes(RESERVE + count * layout::CHUNK_SIZE);
                let free = megabytes(space.free);
                let text = format!(
                    "its disk has {free} MB free, and a trace begins with {wanted} MB: choose another disk with -o"
                );
                io::Error::new(error.kind(), text)
            }
            _ => error,
        })
    }

    /// Makes room for `count` chunks, or for as many as fit.
    fn make_room_ahead(&self, count: u64) -> io::Result<()> {
        let space = Space::of(&self.file)?;
        let reserve = if self.is_limited { 0 } else { (space.size / PART).min(MOST) };
        let reserve = reserve.max(RESERVE);
        let fitting = space.free.saturating_sub(reserve) / layout::CHUNK_SIZE;
        if fitting == 0 {
            let left = megabytes(reserve);
            let more = if reserve > RESERVE { "; --max-size may take more" } else { "" };
            let text = format!("no storage space: {left} MB of the disk are left free{more}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        self.make_room(count.min(self.ready.load(SeqCst) + fitting))
    }

    /// Makes room for `count` chunks.
    fn make_room(&self, count: u64) -> io::Result<()> {
        let ready = self.ready.load(SeqCst);
        let needed = (count - ready.min(count)) * layout::CHUNK_SIZE;
        if Space::of(&self.file)?.free < RESERVE + needed {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let start = if ready == 0 { 0 } else { layout::HEADER_BLOCK + ready * layout::CHUNK_SIZE };
        let size = layout::HEADER_BLOCK + count * layout::CHUNK_SIZE - start;
        let offset = |bytes: u64| libc::off_t::try_from(bytes).map_err(io::Error::other);
        // SAFETY: no pointer is passed.
        match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), offset(start)?, offset(size)?) }
        {
            0 => {
                self.ready.store(count, SeqCst);
                self.set(header::READY, count);
                Ok(())
            }
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Do older calls make room for newer ones?
    pub(super) fn is_ring(&self) -> bool {
        self.ring != 0
    }

    /// A chunk of this kind for the recorder; `None` if there is no room.
    pub(super) fn take_chunk(&self, kind: u32) -> Option<u64> {
        let next = self.field(header::NEXT_CHUNK);
        let chunk = loop {
            let (number, ready) = (next.load(SeqCst), self.ready.load(SeqCst));
            if number > ready {
                // A program has written over it.
                return None;
            }
            let taken = if number.is_multiple_of(directory::SPAN) { number + 1 } else { number };
            if taken >= ready {
                if self.is_full.load(SeqCst) {
                    return None;
                }
                thread::yield_now();
            } else if next.compare_exchange(number, taken + 1, SeqCst, SeqCst).is_ok() {
                break taken;
            }
        };
        let place = descriptor(chunk) + directory::KIND as u64;
        self.file.write_all_at(&kind.to_ne_bytes(), place).ok().map(|()| chunk)
    }

    /// Writes to a chunk of the recorder's, from its byte `at` on: that's its end then.
    pub(super) fn fill(&self, chunk: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let place = layout::HEADER_BLOCK + chunk * layout::CHUNK_SIZE + at;
        self.file.write_all_at(bytes, place)?;
        let used = (at + bytes.len() as u64).to_ne_bytes();
        self.file.write_all_at(&used, descriptor(chunk) + directory::USED as u64)
    }

    /// Keeps room ahead until told to stop. While little of it is taken, it looks less often: each look
    /// interrupts a thread.
    pub(super) fn keep(&self) {
        let mut pause = OFTEN;
        let mut last = self.given_out();
        let mut prepared = Prepared::default();
        while !self.stop.load(SeqCst) {
            self.field(header::HEARTBEAT).fetch_add(1, SeqCst);
            self.restore();
            if self.field(header::NEXT_CHUNK).load(SeqCst) > self.ready.load(SeqCst) {
                self.fail(io::Error::other("a program has written over the trace"));
            }
            let next = self.given_out();
            let used = next.saturating_sub(last);
            let ahead = AHEAD.max(used.saturating_mul(8));
            last = next;
            let (ready, limit) = (self.ready.load(SeqCst), self.limit.load(SeqCst));
            if next.saturating_add(ahead / 2) > ready && !self.is_full.load(SeqCst) {
                let result = if ready < limit {
                    self.make_room_ahead(next.saturating_add(ahead).min(limit))
                } else {
                    Err(io::Error::other("it's as large as it may be"))
                };
                if let Err(error) = result {
                    self.fail(error);
                }
            }
            if self.is_prepared {
                let ready = self.ready.load(SeqCst);
                prepared.keep_ahead(&self.file, next, used, ready);
            }
            let is_slow = used.saturating_mul(64) <= ready.saturating_sub(next);
            let is_whole = self.ring != 0 || self.ready.load(SeqCst) >= limit;
            let longest = if is_whole { WHOLE } else { SELDOM };
            pause = if is_slow { longest.min(pause * 2) } else { OFTEN };
            thread::park_timeout(pause);
        }
    }
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Where the descriptor of a chunk is in the file.
pub(super) fn descriptor(chunk: u64) -> u64 {
    let start = chunk - chunk % directory::SPAN;
    let entry = (chunk - start) * directory::DESCRIPTOR_SIZE as u64;
    layout::HEADER_BLOCK + start * layout::CHUNK_SIZE + entry
}
