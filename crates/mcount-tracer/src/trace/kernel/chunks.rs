//! Chunks of a trace that the recorder fills with what the kernel tells: in a ring, the oldest make room for new ones.

use crate::trace::room::Shared;
use mcount_trace::Entry;
use mcount_trace::layout::{CHUNK_SIZE, told};
use std::collections::VecDeque;
use std::sync::Arc;

/// The module of all functions of the kernel.
pub(super) const KERNEL: u32 = u32::MAX;

/// Chunks that a trace has room for: a gigabyte.
const CHUNKS: usize = 1 << 14;

/// In a ring, as many at least.
const CHUNKS_OF_RING: usize = 8;

/// Where records of one kind go.
pub(super) struct Chunks {
    trace: Arc<Shared>,
    kind: u32,
    /// How many chunks there may be.
    most: usize,
    /// Old ones are written over.
    is_ring: bool,
    /// Those that were taken, the newest last, and how many records each has.
    taken: VecDeque<(u64, u64)>,
    /// How many records were in chunks that were written over.
    pub(super) dropped: u64,
    /// Bytes of the newest that are in use.
    used: u64,
    pub(super) is_full: bool,
    is_forgotten: bool,
}

impl Chunks {
    pub(super) fn new(trace: &Arc<Shared>, kind: u32, most: usize, is_ring: bool) -> Self {
        Self {
            trace: Arc::clone(trace),
            kind,
            most,
            is_ring,
            taken: VecDeque::new(),
            dropped: 0,
            used: 0,
            is_full: false,
            is_forgotten: false,
        }
    }

    /// Writes records, each smaller than a chunk, while there's room. Returns how many it wrote.
    pub(super) fn write<R: AsRef<[u8]>>(&mut self, records: impl IntoIterator<Item = R>) -> u64 {
        self.write_each(records, |record, bytes| bytes.extend_from_slice(record.as_ref()))
    }

    /// The same of the records of these, which `append` appends to the bytes that it's given.
    pub(super) fn write_each<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        append: impl Fn(T, &mut Vec<u8>),
    ) -> u64 {
        let (mut written, mut waiting) = (0, 0);
        let mut bytes = Vec::new();
        for one in all {
            if self.is_full {
                break;
            }
            let before = bytes.len();
            append(one, &mut bytes);
            if self.taken.is_empty() || self.used + bytes.len() as u64 > CHUNK_SIZE {
                let record = bytes.split_off(before);
                written += self.put(&mut bytes, std::mem::take(&mut waiting));
                if self.next_chunk().is_none() {
                    self.is_full = true;
                    break;
                }
                bytes.extend(record);
            }
            waiting += 1;
        }
        written + self.put(&mut bytes, waiting)
    }

    /// Writes the bytes of this number of records to the newest chunk, which has room for them.
    fn put(&mut self, bytes: &mut Vec<u8>, records: u64) -> u64 {
        let Some((chunk, count)) = self.taken.back_mut().filter(|_| !bytes.is_empty()) else {
            return 0;
        };
        self.is_full |= self.trace.fill(*chunk, self.used, bytes).is_err();
        *count += records;
        self.used += bytes.len() as u64;
        bytes.clear();
        if self.is_full { 0 } else { records }
    }

    /// Nothing is in the trace any more, nor will be.
    pub(super) fn forget(&mut self) {
        let nothing = nothing();
        for (chunk, _) in &self.taken {
            // If it can't be written, that's said anyway.
            let _ = self.trace.fill(*chunk, 0, &nothing);
        }
        (self.is_full, self.is_forgotten) = (true, true);
    }

    /// The reason if the trace lacks something.
    pub(super) fn missing(&self, limit: &'static str) -> Option<&'static str> {
        let why = if self.taken.len() < self.most { "no room" } else { limit };
        (self.is_full && !self.is_forgotten).then_some(why)
    }

    /// Takes a chunk, or the oldest one again.
    fn next_chunk(&mut self) -> Option<()> {
        let has_room = self.taken.len() < self.most;
        let new = has_room.then(|| self.trace.take_chunk(self.kind)).flatten();
        let chunk = if let Some(new) = new {
            new
        } else if self.is_ring {
            let (oldest, count) = self.taken.pop_front()?;
            self.dropped += count;
            self.trace.fill(oldest, 0, &nothing()).ok()?;
            oldest
        } else {
            return None;
        };
        self.taken.push_back((chunk, 0));
        self.used = 0;
        Some(())
    }
}

/// A record of metadata.
pub(super) fn encoded<'e>(entry: impl Into<Entry<'e>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.into().append(&mut bytes);
    bytes
}

/// A chunk without anything in it.
fn nothing() -> Vec<u8> {
    vec![0; usize::try_from(CHUNK_SIZE).unwrap_or(0)]
}

/// How many chunks there may be in a trace, or in a ring of so many.
pub(super) fn chunks_of(ring: u64) -> usize {
    let of_ring = usize::try_from(ring).unwrap_or(CHUNKS).clamp(CHUNKS_OF_RING, CHUNKS);
    if ring == 0 { CHUNKS } else { of_ring }
}

/// A record: when it began and ended, by which process and thread, its function and how it ended, and its values.
pub(super) fn record(times: (u64, u64), ids: (u32, u32), how: u32, values: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(told::HEAD + values.len() + told::ALIGNMENT);
    append(&mut record, times, ids, how, |record| record.extend(values));
    record
}

/// Appends a record to others, and has `values` append its values.
pub(super) fn append(
    records: &mut Vec<u8>,
    (start, end): (u64, u64),
    ids: (u32, u32),
    how: u32,
    values: impl FnOnce(&mut Vec<u8>),
) {
    let words = [ids.0, ids.1, how].map(u32::to_ne_bytes);
    let all = [&start.to_ne_bytes()[..], &end.to_ne_bytes(), words.as_flattened()];
    let first = records.len();
    for bytes in all {
        records.extend_from_slice(bytes);
    }
    records.extend([0; 4]);
    let begin = records.len();
    values(records);
    let size = u32::try_from(records.len() - begin).unwrap_or(0).to_ne_bytes();
    if let Some(room) = records.get_mut(begin - size.len()..begin) {
        room.copy_from_slice(&size);
    }
    records.resize(first + (records.len() - first).next_multiple_of(told::ALIGNMENT), 0);
}
