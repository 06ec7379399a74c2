//! When threads are off the processor, on its way into the trace.

use super::chunks::Chunks;
use crate::trace::room::Shared;
use mcount_trace::layout::{chunk, off_cpu};
use std::collections::HashMap;
use std::sync::Arc;

/// Chunks that a trace has room for: a million times.
const CHUNKS: usize = 512;

/// The functions that say why. No function with a hook has such a number.
pub(super) const SCHEDULED: u32 = 0xff_fffe;
pub(super) const PREEMPTED: u32 = 0xff_ffff;

/// A thread that is off the processor.
#[derive(Debug, Clone, Copy)]
struct Away {
    process: u32,
    /// In ticks.
    since: u64,
    is_preempted: bool,
}

/// A time that a thread was off the processor, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    start: u64,
    end: u64,
    /// Process and thread.
    pub(super) ids: (u32, u32),
    is_preempted: bool,
}

impl Time {
    fn record(&self) -> [u8; off_cpu::SIZE] {
        let function = if self.is_preempted { PREEMPTED } else { SCHEDULED };
        let mut record = [0; off_cpu::SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = record.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(off_cpu::START, &self.start.to_ne_bytes());
        put(off_cpu::END, &self.end.to_ne_bytes());
        put(off_cpu::PID, &self.ids.0.to_ne_bytes());
        put(off_cpu::TID, &self.ids.1.to_ne_bytes());
        put(off_cpu::FUNCTION, &function.to_ne_bytes());
        record
    }
}

/// The threads that are off the processor.
pub(super) struct Waits {
    away: HashMap<u32, Away>,
    records: Chunks,
    /// How often threads came back so far.
    pub(super) switches: u64,
}

impl Waits {
    pub(super) fn new(trace: &Arc<Shared>) -> Self {
        let records = Chunks::new(trace, chunk::OFF_CPU, CHUNKS, trace.is_ring());
        Self { away: HashMap::new(), records, switches: 0 }
    }

    /// A thread is taken off at that time, in ticks.
    pub(super) fn off(&mut self, ids: (u32, u32), ticks: u64, is_preempted: bool) {
        self.away.insert(ids.1, Away { process: ids.0, since: ticks, is_preempted });
    }

    /// It's put on again.
    pub(super) fn on(&mut self, ids: (u32, u32), ticks: u64) -> Option<Time> {
        let Away { since, is_preempted, .. } = self.away.remove(&ids.1)?;
        Some(Time { start: since, end: ticks, ids, is_preempted })
    }

    /// Is this thread off the processor?
    pub(super) fn has(&self, thread: u32) -> bool {
        self.away.contains_key(&thread)
    }

    /// A thread is new. It may have the number of one that has ended.
    pub(super) fn begun(&mut self, thread: u32) {
        self.away.remove(&thread);
    }

    /// Which threads are off isn't known any more.
    pub(super) fn lose(&mut self) {
        self.away.clear();
    }

    /// A thread that is away now won't be seen coming back: to the trace, that's at its end.
    pub(super) fn rest(&mut self, end: u64) -> Vec<Time> {
        let away = std::mem::take(&mut self.away).into_iter();
        let time = |(thread, away): (u32, Away)| Time {
            start: away.since,
            end,
            ids: (away.process, thread),
            is_preempted: away.is_preempted,
        };
        away.map(time).collect()
    }

    pub(super) fn write(&mut self, times: &[Time]) {
        self.records.write(times.iter().map(Time::record));
    }

    /// Nothing is in the trace any more, nor will be: half of it would make waits look like work.
    pub(super) fn forget(&mut self) {
        self.records.forget();
    }

    /// Why later ones aren't in the trace, if there was no room.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.records.missing("a million")
    }
}
