//! When threads were off the processor, as the system told the recorder.
//!
//! That comes from elsewhere than calls, and names threads by their IDs. Each such time is put among the calls of its thread, below
//! all that enclose it.

use crate::bytes::Bytes;
use crate::file::File;
use crate::index::{Descriptor, Index};
use crate::layout::{chunk, off_cpu};
use crate::limits::Limits;
use crate::record::Raw;
use std::collections::HashMap;

/// How much of a chunk is looked at at a time.
const WINDOW: usize = 65_536;

/// Takes in the chunks of this kind; `place` says where in the file one begins, and how many bytes of it are there. In a ring, what ended
/// before the oldest calls is left out. So are threads without calls, what a thread did before its first one, and what begins when it
/// has ended or executed another program.
pub(crate) fn read(
    file: File<'_>,
    (descriptors, is_ring): (&[Descriptor], bool),
    place: impl Fn(u64) -> Option<(usize, usize)>,
    limits: &Limits<'_, '_>,
    index: &mut Index,
) {
    let of_kind = |kind: u32| descriptors.iter().filter(move |of| of.kind == kind);
    let mut chunks = of_kind(chunk::OFF_CPU).filter_map(|of| place(of.number)).peekable();
    if chunks.peek().is_none() {
        return;
    }
    let oldest = of_kind(chunk::CALLS).filter(|_| is_ring).map(|of| of.base).min().unwrap_or(0);
    // Threads can have IDs that others had before.
    let mut threads: HashMap<(u32, u32), Vec<Life>> = HashMap::new();
    for (at, thread) in index.threads.iter().enumerate() {
        let (ids, first) = ((thread.pid, thread.tid), thread.first);
        let until = limits.of(ids.0, ids.1, first).map_or(u64::MAX, |(until, _)| until);
        threads.entry(ids).or_default().push(Life { first, until, at });
    }
    for of_id in threads.values_mut() {
        of_id.sort_unstable_by_key(|life| (life.first, life.at));
    }
    for (offset, size) in chunks {
        for window in (0..size).step_by(WINDOW) {
            let part = file.load(offset + window, (size - window).min(WINDOW));
            for (at, bytes) in (0_usize..).zip(part.as_chunks::<{ off_cpu::SIZE }>().0) {
                let record = Bytes { bytes, big_endian: file.is_big_endian() };
                let place = (offset + window + at * off_cpu::SIZE) as u64;
                let Some((ids, raw)) = one(record, place) else { continue };
                let Some(of_id) = threads.get(&ids).filter(|_| raw.end > oldest) else { continue };
                let begun = of_id.partition_point(|life| life.first < raw.end);
                let life = begun.checked_sub(1).and_then(|last| of_id.get(last));
                if let Some(life) = life.filter(|life| raw.start < life.until)
                    && index.take_room()
                    && let Some(thread) = index.threads.get_mut(life.at)
                {
                    thread.add_beneath(raw);
                }
            }
        }
    }
}

/// From a thread's first call until it ends or executes another program, in ticks.
struct Life {
    first: u64,
    until: u64,
    /// Its place in the index.
    at: usize,
}

/// The IDs of process and thread in a record, and what it says.
fn one(record: Bytes<'_>, place: u64) -> Option<((u32, u32), Raw)> {
    let (start, end) = (record.u64(off_cpu::START)?, record.u64(off_cpu::END)?);
    let function = record.u32(off_cpu::FUNCTION)?;
    let ids = (record.u32(off_cpu::PID)?, record.u32(off_cpu::TID)?);
    (start != 0 || end != 0).then(|| (ids, Raw::beneath(function, start, end, place)))
}
