//! What the system told the recorder: calls into it, and when threads were off the processor.
//!
//! That comes from elsewhere than calls of functions, and names threads by their IDs. Each is put among the calls of its thread, below all
//! that enclose it. A thread that makes no other calls has those into the system.

use crate::bytes::Bytes;
use crate::file::File;
use crate::index::{Descriptor, Index};
use crate::layout::{chunk, off_cpu, told};
use crate::limits::Limits;
use crate::record::Raw;
use std::collections::HashMap;

/// How much of a chunk is looked at at a time.
const WINDOW: usize = 65_536;

/// The IDs of a process and of a thread.
type Ids = (u32, u32);

/// Takes in the chunks of these kinds; `place` says where in the file one begins, and how many bytes of it are there. In a ring, what ended
/// before the oldest calls is left out. So is the time off the processor of threads without calls, that before a thread's first call, and
/// that which begins when it has ended or executed another program.
pub(crate) fn read(
    file: File<'_>,
    (descriptors, is_ring): (&[Descriptor], bool),
    place: impl Fn(u64) -> Option<(usize, usize)>,
    limits: &Limits<'_, '_>,
    index: &mut Index,
) {
    let of_kind = |kind: u32| descriptors.iter().filter(move |of| of.kind == kind);
    let places = |kind: u32| of_kind(kind).filter_map(|of| place(of.number)).collect::<Vec<_>>();
    let (calls, waits) = (places(chunk::TOLD), places(chunk::OFF_CPU));
    let woken = places(chunk::WOKEN);
    if calls.is_empty() && waits.is_empty() && woken.is_empty() {
        return;
    }
    let oldest = of_kind(chunk::CALLS).filter(|_| is_ring).map(|of| of.base).min().unwrap_or(0);
    let mut threads = Threads::of(index, limits);
    for (offset, size) in calls {
        each_call(file, offset, size, |ids, raw| {
            if raw.end > oldest && index.take_room() {
                let thread = threads.of_call(ids, raw.start, index, limits);
                if let Some(thread) = index.threads.get_mut(thread) {
                    thread.add_beneath(raw);
                }
            }
        });
    }
    let threads = Threads::of(index, limits);
    let mut add = |ids: Ids, raw: Raw| {
        if raw.end > oldest
            && let Some(thread) = threads.of_wait(ids, &raw)
            && index.take_room()
            && let Some(thread) = index.threads.get_mut(thread)
        {
            thread.add_beneath(raw);
        }
    };
    for (offset, size) in waits {
        each_wait(file, offset, size, &mut add);
    }
    for (offset, size) in woken {
        each_call(file, offset, size, |ids, raw| {
            add(ids, Raw::beneath(raw.function(), raw.start, raw.end, raw.ordinal));
        });
    }
}

/// Shows `each` the times off the processor in a chunk.
fn each_wait(file: File<'_>, offset: usize, size: usize, mut each: impl FnMut(Ids, Raw)) {
    for window in (0..size).step_by(WINDOW) {
        let part = file.load(offset + window, (size - window).min(WINDOW));
        for (at, bytes) in (0_usize..).zip(part.as_chunks::<{ off_cpu::SIZE }>().0) {
            let record = Bytes { bytes, big_endian: file.is_big_endian() };
            let place = (offset + window + at * off_cpu::SIZE) as u64;
            if let Some((ids, raw)) = wait(record, place) {
                each(ids, raw);
            }
        }
    }
}

/// The IDs of process and thread in a record, and what it says.
fn wait(record: Bytes<'_>, place: u64) -> Option<(Ids, Raw)> {
    let (start, end) = (record.u64(off_cpu::START)?, record.u64(off_cpu::END)?);
    let function = record.u32(off_cpu::FUNCTION)?;
    let ids = (record.u32(off_cpu::PID)?, record.u32(off_cpu::TID)?);
    (start != 0 || end != 0).then(|| (ids, Raw::beneath(function, start, end, place)))
}

/// Shows `each` the calls into the system in a chunk.
fn each_call(file: File<'_>, offset: usize, size: usize, mut each: impl FnMut(Ids, Raw)) {
    let mut at = 0;
    while at < size {
        let part = file.load(offset + at, (size - at).min(WINDOW));
        let mut used = 0;
        while let Some(bytes) = part.get(used..) {
            let record = Bytes { bytes, big_endian: file.is_big_endian() };
            let Some((ids, raw, length)) = call(record, (offset + at + used) as u64) else { break };
            if length > bytes.len() {
                break;
            }
            each(ids, raw);
            used += length;
        }
        // The last record of a window may go on in the next one.
        if used == 0 || part.len() < WINDOW {
            return;
        }
        at += used;
    }
}

/// The IDs of process and thread in a record, what it says, and how many bytes it has. `None` if it's none.
fn call(record: Bytes<'_>, place: u64) -> Option<(Ids, Raw, usize)> {
    let (start, end) = (record.u64(told::START)?, record.u64(told::END)?);
    let ids = (record.u32(told::PID)?, record.u32(told::TID)?);
    let function = record.u32(told::FUNCTION)?;
    let values = values_in(record)?;
    let length = (told::HEAD + values).next_multiple_of(told::ALIGNMENT);
    (function & 0xff_ffff != 0).then(|| (ids, Raw::told(function, start, end, place), length))
}

/// How many bytes of values follow a record. `None` if that can't be.
pub(crate) fn values_in(record: Bytes<'_>) -> Option<usize> {
    let values = usize::try_from(record.u32(told::VALUES)?).ok()?;
    (values <= told::MOST).then_some(values)
}

/// From a thread's first call until it ends or executes another program, in ticks.
struct Life {
    first: u64,
    until: u64,
    /// Its place in the index.
    at: usize,
}

/// The threads by their IDs, which others may have had before.
struct Threads {
    lives: HashMap<Ids, Vec<Life>>,
    /// Those without calls of functions, by when they end.
    silent: HashMap<(Ids, u64), usize>,
}

impl Threads {
    fn of(index: &Index, limits: &Limits<'_, '_>) -> Self {
        let mut lives: HashMap<Ids, Vec<Life>> = HashMap::new();
        for (at, thread) in index.threads.iter().enumerate() {
            let (ids, first) = ((thread.pid, thread.tid), thread.first);
            let until = end_of(limits, ids, first);
            lives.entry(ids).or_default().push(Life { first, until, at });
        }
        for of_id in lives.values_mut() {
            of_id.sort_unstable_by_key(|life| (life.first, life.at));
        }
        Self { lives, silent: HashMap::new() }
    }

    /// The thread that was off the processor then.
    fn of_wait(&self, ids: Ids, raw: &Raw) -> Option<usize> {
        let of_id = self.lives.get(&ids)?;
        let begun = of_id.partition_point(|life| life.first < raw.end);
        let life = begun.checked_sub(1).and_then(|last| of_id.get(last))?;
        (raw.start < life.until).then_some(life.at)
    }

    /// The thread that made a call at `start`: it may have made none before. If it makes no other calls than such ones, it's a new one.
    fn of_call(
        &mut self,
        ids: Ids,
        start: u64,
        index: &mut Index,
        limits: &Limits<'_, '_>,
    ) -> usize {
        let of_id = self.lives.get(&ids).map_or(&[][..], Vec::as_slice);
        let later = of_id.partition_point(|life| life.first <= start);
        let before = later.checked_sub(1).and_then(|before| of_id.get(before));
        if let Some(life) = before.filter(|life| start < life.until) {
            return life.at;
        }
        let until = end_of(limits, ids, start);
        match of_id.get(later) {
            Some(next) if next.first <= until => next.at,
            _ => {
                let silent = self.silent.entry((ids, until));
                *silent.or_insert_with(|| index.add_thread(ids))
            }
        }
    }
}

/// When a thread that lives at `start` ends, or executes another program.
fn end_of(limits: &Limits<'_, '_>, ids: Ids, start: u64) -> u64 {
    limits.of(ids.0, ids.1, start).map_or(u64::MAX, |(until, _)| until)
}
