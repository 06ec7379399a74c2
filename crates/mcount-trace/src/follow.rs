//! Following a trace while it's written: the calls that have ended since the last look.
//!
//! Only what is new is read. It remembers where each chunk was read up to, so memory is in proportion to the
//! chunks of a ring, or to the threads of a growing trace. In a ring, chunks are written over while they are
//! read: a chunk's descriptor is looked at before and after, and what was read in between counts only if both
//! are the same.

use crate::bytes::Bytes;
use crate::index::{Descriptor, descriptor};
use crate::layout::{self, call, chunk, directory, header, share, special};
use crate::record::{End, Raw, Record, low_half, record};
use std::collections::{BTreeMap, BTreeSet};

/// A trace that can be read at any place: fills the bytes from this offset on, or says that it can't.
pub trait Source {
    /// Reads bytes. `false` if they aren't all there.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> bool;
}

impl<F: FnMut(u64, &mut [u8]) -> bool> Source for F {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> bool {
        self(offset, bytes)
    }
}

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number of its thread in the trace.
    pub thread: u32,
    /// The number of its process, as that process sees it.
    pub process: u32,
    /// The ID of its thread, as that process sees it; 0 if another thread recorded the call.
    pub tid: u32,
    /// The number of its function in the trace.
    pub function: u32,
    /// Ticks when it began.
    pub start: u64,
    /// Ticks when it ended.
    pub end: u64,
    /// How it ended.
    pub how: Option<End>,
    /// The address at which its caller goes on; `None` if it wasn't recorded.
    pub caller: Option<u64>,
}

/// The results of a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Calls that were handed out.
    pub calls: u64,
    /// Calls since the beginning that were written over before they were read, or weren't recorded.
    pub missed: u64,
    /// Chunks that are left for the next look.
    pub left: u64,
}

/// The thread that a chunk belongs to. In a ring that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Whose {
    base: u64,
    thread: u32,
    pid: u32,
    /// Its threads have shares of it.
    is_shared: bool,
}

impl Whose {
    fn of(of: &Descriptor) -> Self {
        Self { base: of.base, thread: of.thread, pid: of.pid, is_shared: of.shared != 0 }
    }
}

/// A part of a chunk that one thread at a time fills: all of it, or a share.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    whose: Whose,
    /// Bytes of the chunk, from and to.
    start: usize,
    end: usize,
    /// The earliest time in it.
    base: u64,
}

impl Part {
    fn whole(of: &Descriptor) -> Self {
        Self { number: of.number, whose: Whose::of(of), start: 0, end: SIZE, base: of.base }
    }

    fn key(&self) -> (u64, usize) {
        (self.number, self.start)
    }
}

/// How far a chunk has been read.
#[derive(Debug, Clone, Copy)]
struct ReadPosition {
    whose: Whose,
    /// Bytes that were read.
    at: usize,
    calls: u64,
    base: u64,
    thread: u32,
    tid: u32,
    /// What special records say of the next call.
    start: Option<u64>,
    owner: Option<u32>,
    caller: Option<u64>,
    /// There was nothing at [`Self::at`] the last time either.
    is_stuck: bool,
    /// How many looks found nothing more, though its thread had a newer chunk.
    idle: u8,
}

impl ReadPosition {
    fn new(whose: Whose) -> Self {
        let Whose { base, thread, .. } = whose;
        Self {
            whose,
            at: 0,
            calls: 0,
            base,
            thread,
            tid: 0,
            start: None,
            owner: None,
            caller: None,
            is_stuck: false,
            idle: 0,
        }
    }

    /// There's no room for a call with all that may be said of it.
    fn is_at_the_end(&self) -> bool {
        self.at + LONGEST > SIZE
    }
}

/// How far a trace has been read.
#[derive(Debug, Default)]
pub struct Follower {
    /// Chunks with smaller numbers are known.
    next: u64,
    /// How often a chunk of the ring had been asked for.
    turns: u64,
    /// By chunk and the part's start.
    places: BTreeMap<(u64, usize), ReadPosition>,
    /// Chunks with shares, of which there may be more.
    shared: BTreeSet<u64>,
    /// Chunks without a description yet.
    later: Vec<u64>,
    /// Calls that were read of chunks that have been written over since.
    gone: u64,
    missed: u64,
    buffer: Vec<u8>,
}

impl Follower {
    /// One that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many chunks have been taken since the last look: a measure of how much there is to read, for little work.
    pub fn news(&self, file: &mut impl Source) -> u64 {
        let next = word(file, header::NEXT_CHUNK as u64).unwrap_or(self.next);
        let turns = word(file, header::RING_NEXT as u64).unwrap_or(self.turns);
        next.saturating_sub(self.next).max(turns.saturating_sub(self.turns))
    }

    /// Shows `each` the calls that have ended since the last look, those of a thread in the order of their ends; but of no
    /// more than `most` chunks.
    pub fn look(
        &mut self,
        file: &mut impl Source,
        most: usize,
        mut each: impl FnMut(&Ended),
    ) -> Look {
        let dropped = word(file, header::DROPPED as u64).unwrap_or(0);
        let ring = word(file, header::RING as u64).unwrap_or(0);
        let is_ring = ring != 0;
        self.turns = word(file, header::RING_NEXT as u64).unwrap_or(self.turns);
        let mut found = self.chunks(file, is_ring);
        // Those of one thread in the order in which it had them.
        found.sort_unstable_by_key(|part| (part.base, part.key()));
        let mut left = if is_ring && found.len() > most && found.len() as u64 > ring / 2 {
            self.skip(&mut found, most)
        } else {
            Vec::new()
        };
        left.extend(found.split_off(found.len().min(most)));
        if !is_ring {
            let is_known = |part: &&Part| {
                self.places.contains_key(&part.key()) || self.shared.contains(&part.number)
            };
            let unknown = left.iter().filter(|part| !is_known(part)).map(|part| part.number);
            self.later.extend(unknown.collect::<Vec<_>>());
        }
        let mut calls = 0;
        for one in found {
            calls += self.read(file, one, &mut each);
        }
        if !is_ring {
            let shared = &self.shared;
            self.places.retain(|(number, _), place| place.at < SIZE || shared.contains(number));
        }
        self.missed = self.missed.max(dropped.saturating_sub(self.gone));
        Look { calls, missed: self.missed, left: left.len() as u64 }
    }

    /// Gives up all chunks but the newest: the others are written over before they can be read.
    fn skip(&mut self, found: &mut Vec<Part>, most: usize) -> Vec<Part> {
        let newest = found.split_off(found.len() - most);
        let skipped = std::mem::replace(found, newest);
        for part in &skipped {
            let place = self.place(part);
            self.places.insert(part.key(), ReadPosition { at: SIZE, ..place });
        }
        skipped
    }

    /// How far a part has been read.
    fn place(&mut self, part: &Part) -> ReadPosition {
        match self.places.get(&part.key()) {
            Some(place) if place.whose == part.whose => *place,
            other => {
                self.gone += other.map_or(0, |place| place.calls);
                ReadPosition { at: part.start, ..ReadPosition::new(part.whose) }
            }
        }
    }

    /// Parts of chunks of calls in which there may be something new.
    fn chunks(&mut self, file: &mut impl Source, is_ring: bool) -> Vec<Part> {
        const MOST: u64 = 1 << 22;
        let next = word(file, header::NEXT_CHUNK as u64).unwrap_or(self.next).min(MOST);
        let numbers: BTreeSet<u64> = if is_ring {
            // Any of them may have become another thread's.
            (0..next).collect()
        } else {
            let known = self.places.keys().map(|(number, _)| *number);
            let known = known.chain(self.shared.iter().copied());
            known.chain(std::mem::take(&mut self.later)).chain(self.next..next).collect()
        };
        self.next = next;
        let mut descriptors = Descriptors::default();
        let mut found = Vec::new();
        // The start of each thread's newest chunk.
        let mut newest: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut at_the_end = Vec::new();
        for number in numbers.into_iter().filter(|number| !number.is_multiple_of(directory::SPAN)) {
            let Some(of) = descriptors.of(file, number) else { continue };
            if of.kind == chunk::UNUSED && !is_ring {
                // Who takes one counts first, and says afterwards what it is.
                self.later.push(number);
            }
            if of.kind == chunk::CALLS && of.shared != 0 && !is_ring {
                self.shares(file, &of, &mut found);
            } else if of.kind == chunk::CALLS {
                let part = Part::whole(&of);
                let start = newest.entry((of.pid, of.thread)).or_default();
                *start = of.base.max(*start);
                let known = self.places.get(&part.key());
                let known = known.filter(|place| place.whose == part.whose);
                if is_ring && known.is_some_and(ReadPosition::is_at_the_end) {
                    at_the_end.push(part);
                } else if known.is_none_or(|place| has_more(file, number, place)) {
                    found.push(part);
                }
            }
        }
        for part in at_the_end {
            let Some(place) = self.places.get_mut(&part.key()) else { continue };
            if place.idle >= IDLE {
                continue;
            }
            let Whose { base, thread, pid, .. } = part.whose;
            // A thread takes a new chunk if what it has to write is longer than the rest of this one.
            if has_more(file, part.number, place) {
                found.push(part);
            } else {
                let is_older = newest.get(&(pid, thread)).is_some_and(|start| *start > base);
                place.idle += u8::from(is_older);
            }
        }
        found
    }

    /// Adds the shares of a chunk in which there's something new.
    fn shares(&mut self, file: &mut impl Source, of: &Descriptor, found: &mut Vec<Part>) {
        let given = usize::try_from(of.shared).unwrap_or(SIZE).min(SIZE);
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.resize(given, 0);
        let start = layout::HEADER_BLOCK + of.number * layout::CHUNK_SIZE;
        self.shared.insert(of.number);
        if file.read(start, &mut bytes) {
            let mut are_full = given + GRAIN > SIZE;
            for part in parts(&bytes, of) {
                let at = self.places.get(&part.key()).map_or(part.start, |place| place.at);
                let rest = bytes.get(at..part.end).unwrap_or_default();
                let mut records = rest.as_chunks::<{ call::SIZE }>().0.iter().take(2);
                if records.any(|record| record[..8] != [0; 8]) {
                    found.push(part);
                }
                are_full &= at >= part.end;
            }
            if are_full {
                self.shared.remove(&of.number);
                self.places.retain(|(number, _), _| *number != of.number);
            }
        }
        self.buffer = bytes;
    }

    /// Reads what is new in a chunk; how many calls that is.
    fn read(&mut self, file: &mut impl Source, part: Part, each: &mut impl FnMut(&Ended)) -> u64 {
        let mut place = self.place(&part);
        let before = place.calls;
        let start = layout::HEADER_BLOCK + part.number * layout::CHUNK_SIZE;
        while place.at < part.end {
            let end = part.end.min(place.at + AT_ONCE);
            self.buffer.resize(end - place.at, 0);
            let is_there = file.read(start + place.at as u64, &mut self.buffer);
            // It may be another one's by now; what was in it is gone then.
            if !is_there || whose(file, part.number) != Some(part.whose) {
                break;
            }
            take(&self.buffer, &mut place, each);
            if place.at < end {
                break;
            }
        }
        self.places.insert(part.key(), place);
        place.calls - before
    }
}

/// Is there anything in chunk `number` that hasn't been read?
fn has_more(file: &mut impl Source, number: u64, place: &ReadPosition) -> bool {
    let start = layout::HEADER_BLOCK + number * layout::CHUNK_SIZE + place.at as u64;
    // The next record, or the one after it.
    let mut is_there =
        |place: usize, at: u64| place < SIZE && word(file, at).is_some_and(|w| w != 0);
    is_there(place.at, start) || is_there(place.at + call::SIZE, start + call::SIZE as u64)
}

/// Bytes of a call with a start, an owner and a caller of its own.
const LONGEST: usize = 4 * call::SIZE;

/// After so many looks that found nothing, the end of a chunk is left alone if its thread has a newer one. Before, the thread may have been
/// interrupted while it wrote there.
const IDLE: u8 = 8;

/// Bytes that are read at a time.
const AT_ONCE: usize = 8 << 10;

/// Bytes of a chunk.
#[expect(clippy::cast_possible_truncation, reason = "it's 64 KiB")]
const SIZE: usize = layout::CHUNK_SIZE as usize;

/// Bytes that shares and their starts are multiples of.
#[expect(clippy::cast_possible_truncation, reason = "it's half a KiB")]
const GRAIN: usize = share::GRAIN as usize;

/// The shares of a chunk, of which `bytes` were given out.
fn parts(bytes: &[u8], of: &Descriptor) -> Vec<Part> {
    let whole = Part::whole(of);
    let mut parts: Vec<Part> = Vec::new();
    for (start, grain) in (0..).step_by(GRAIN).zip(bytes.chunks(GRAIN)) {
        let mut records =
            grain.as_chunks::<{ call::SIZE }>().0.iter().map(|bytes| record(bytes, BIG));
        let base = match (records.next(), records.next()) {
            (
                Some(Record::Special(special::THREAD, ..)),
                Some(Record::Special(special::BASE, _, base)),
            ) => base,
            // Nobody has begun the first one yet.
            _ if start == 0 => of.base,
            _ => continue,
        };
        if let Some(last) = parts.last_mut() {
            last.end = start;
        }
        parts.push(Part { start, end: bytes.len(), base, ..whole });
    }
    parts
}

/// Shows `each` the calls in `bytes`, up to the first record that isn't there yet.
fn take(bytes: &[u8], place: &mut ReadPosition, each: &mut impl FnMut(&Ended)) {
    let records = bytes.as_chunks::<{ call::SIZE }>().0;
    for (index, bytes) in records.iter().enumerate() {
        match record(bytes, BIG) {
            Record::Empty => {
                // A signal handler may have left one for ever that was begun; what is after it counts.
                let more = records.get(index + 1..).unwrap_or_default();
                let is_behind = more.iter().take(64).any(|record| record[..8] != [0; 8]);
                if !(is_behind && place.is_stuck) {
                    place.is_stuck = true;
                    return;
                }
            }
            Record::Special(special::THREAD, number, ids) => {
                (place.thread, place.start, place.owner, place.caller) = (number, None, None, None);
                place.tid = low_half(ids);
            }
            Record::Special(special::START, _, ticks) => place.start = Some(ticks),
            Record::Special(special::OWNER, number, _) => place.owner = Some(number),
            Record::Special(special::BASE, _, ticks) => place.base = ticks,
            Record::Special(special::CALLER, _, address) => place.caller = Some(address),
            Record::Special(..) => {}
            Record::Call(first, second) => {
                let raw = Raw::new(first, second, place.base, 0);
                let owner = place.owner.take();
                each(&Ended {
                    thread: owner.unwrap_or(place.thread),
                    process: place.whose.pid,
                    tid: if owner.is_some() { 0 } else { place.tid },
                    function: raw.function(),
                    start: place.start.take().unwrap_or(raw.start),
                    end: raw.end,
                    how: raw.how_ended(),
                    caller: place.caller.take(),
                });
                place.calls += 1;
            }
        }
        place.is_stuck = false;
        place.at += call::SIZE;
    }
}

/// The thread that chunk `number` belongs to now, if it has calls.
fn whose(file: &mut impl Source, number: u64) -> Option<Whose> {
    let of = one(file, number)?;
    (of.kind == chunk::CALLS).then(|| Whose::of(&of))
}

/// Descriptors, of which a few are read at once.
#[derive(Default)]
struct Descriptors {
    first: u64,
    bytes: Vec<u8>,
}

impl Descriptors {
    /// As many as a page has.
    const SPAN: u64 = 64;

    fn of(&mut self, file: &mut impl Source, number: u64) -> Option<Descriptor> {
        let first = number - number % Self::SPAN;
        if self.bytes.is_empty() || self.first != first {
            self.first = first;
            self.bytes.resize(64 * directory::DESCRIPTOR_SIZE, 0);
            if !file.read(place(first), &mut self.bytes) {
                self.bytes.clear();
                return one(file, number);
            }
        }
        let at = usize::try_from(number - first).ok()? * directory::DESCRIPTOR_SIZE;
        descriptor(Bytes { bytes: &self.bytes, big_endian: BIG }, at, number)
    }
}

/// The descriptor of chunk `number`.
fn one(file: &mut impl Source, number: u64) -> Option<Descriptor> {
    let mut bytes = [0; directory::DESCRIPTOR_SIZE];
    let is_there = file.read(place(number), &mut bytes);
    is_there.then(|| descriptor(Bytes { bytes: &bytes, big_endian: BIG }, 0, number))?
}

/// Where the descriptor of chunk `number` is in the file.
fn place(number: u64) -> u64 {
    let first = number - number % directory::SPAN;
    let entry = (number - first) * directory::DESCRIPTOR_SIZE as u64;
    layout::HEADER_BLOCK + first * layout::CHUNK_SIZE + entry
}

/// The byte order of this machine, which the trace is written on.
const BIG: bool = cfg!(target_endian = "big");

fn word(file: &mut impl Source, offset: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read(offset, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}
