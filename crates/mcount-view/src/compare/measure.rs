//! One trace's data about each function: how often it was called, and how long a call takes.
//!
//! A machine that does other things as well adds time to some calls, and never takes any away. A sum has
//! all of that in it. So the time of a call is the mean of the fastest calls, and that in several views:
//! the fastest fiftieth is disturbed least; but where only the slow path of a function got slower, only the
//! view of nearly all calls shows it.

use crate::names::name_of;
use mcount_trace::{Call, Trace};
use std::collections::HashMap;

/// Which time of a function is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The time of a call without what it called
    Own,
    /// The time of a call with what it called
    Total,
    /// As total, but the median of the calls
    Median,
    /// No time: only how often functions were called
    Calls,
}

/// A function, as two builds have it in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its name in the source.
    pub name: String,
    /// The file name of its module without what follows `.so`; empty for the program itself.
    pub module: String,
}

/// A trace's data about a function.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// How often it was called.
    pub calls: u64,
    /// Nanoseconds of a call in each view, if one has ended.
    pub times: Option<[f64; VIEWS]>,
    /// The mean of all calls, or their median if that's compared, the same: what people are shown.
    pub shown: Option<f64>,
}

/// How many views of the calls there are.
pub(super) const VIEWS: usize = 4;

/// What share of the calls each view has, the fastest first.
pub(super) const SHARES: [f64; VIEWS] = [0.02, 0.25, 0.5, 0.9];

/// What a recorder calls the time in which other threads have the processor: it's a matter of what else the machine does.
const PREEMPTED: &[u8] = b"linux:schedule (preempted)";

/// A trace's data about all functions that were called.
pub type Functions = HashMap<Key, Measured>;

/// Goes through all calls of `trace`.
#[must_use]
pub fn measure(trace: &Trace<'_>, by: By, is_exact: bool) -> Functions {
    let mut counter = Counter::new(trace, by);
    for thread in 0..trace.threads.len() {
        for call in trace.thread_calls(thread).into_iter().flatten() {
            counter.call(&call);
        }
        counter.leave(0);
    }
    let program = trace.processes.first().map_or(&b""[..], |process| process.name);
    let mut merged: HashMap<Key, Row> = HashMap::new();
    let rows = trace.functions.iter().zip(counter.rows);
    for (function, row) in
        rows.filter(|(function, row)| row.calls > 0 && function.name != PREEMPTED)
    {
        let name = String::from_utf8_lossy(function.name);
        let name = if is_exact { &name } else { mcount::source_name(&name) };
        let name = match name {
            "" => format!("{:#x}", function.address),
            name => name_of(name, true).into_owned(),
        };
        let path = trace.module(function.module).map_or(&b""[..], |module| module.path);
        let module = if path == program { String::new() } else { module_name(path) };
        merged.entry(Key { name, module }).or_default().merge(row);
    }
    merged.into_iter().map(|(key, row)| (key, row.measured(by))).collect()
}

/// `libc.so` of `/lib/libc.so.6`.
pub(super) fn module_name(path: &[u8]) -> String {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let file = String::from_utf8_lossy(file);
    let end = file.find(".so.").map_or(file.len(), |at| at + ".so".len());
    file.get(..end).unwrap_or_default().to_owned()
}

/// A call that may enclose the next one of its thread.
struct Open {
    depth: usize,
    place: Option<usize>,
    duration: Option<u64>,
    /// Nanoseconds of the calls that it made.
    inner: u64,
}

struct Counter<'t, 'a> {
    trace: &'t Trace<'a>,
    by: By,
    /// For each function of the trace.
    rows: Vec<Row>,
    stack: Vec<Open>,
}

impl<'t, 'a> Counter<'t, 'a> {
    fn new(trace: &'t Trace<'a>, by: By) -> Self {
        let rows = trace.functions.iter().map(|_| Row::default()).collect();
        Self { trace, by, rows, stack: Vec::new() }
    }

    fn call(&mut self, call: &Call) {
        self.leave(call.depth);
        let start = self.trace.nanoseconds(call.start);
        let duration = call.end.map(|end| self.trace.nanoseconds(end).saturating_sub(start));
        if let (Some(caller), Some(duration)) = (self.stack.last_mut(), duration) {
            caller.inner = caller.inner.saturating_add(duration);
        }
        let place = self.trace.function_index(call.function);
        if let Some(row) = place.and_then(|place| self.rows.get_mut(place)) {
            row.calls += 1;
        }
        self.stack.push(Open { depth: call.depth, place, duration, inner: 0 });
    }

    /// The calls at this depth and below it enclose no more.
    fn leave(&mut self, depth: usize) {
        while let Some(last) = self.stack.pop_if(|last| last.depth >= depth) {
            let row = last.place.and_then(|place| self.rows.get_mut(place));
            let (Some(row), Some(duration)) = (row, last.duration) else { continue };
            match self.by {
                By::Own => row.add(duration.saturating_sub(last.inner)),
                By::Total | By::Median => row.add(duration),
                By::Calls => {}
            }
        }
    }
}

/// Facts about a function.
#[derive(Default)]
struct Row {
    calls: u64,
    /// How many times there are of each size, and their sum, in buckets that get wider as times get longer.
    buckets: Vec<(u64, u64)>,
    /// The number of the first bucket.
    first: usize,
}

/// Bits of a time that choose its bucket.
const BITS: u32 = 5;

impl Row {
    fn add(&mut self, time: u64) {
        self.put(bucket(time), (1, time));
    }

    fn put(&mut self, bucket: usize, (count, sum): (u64, u64)) {
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            self.buckets.splice(0..0, std::iter::repeat_n((0, 0), self.first - bucket));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, (0, 0));
        }
        if let Some(bucket) = self.buckets.get_mut(at) {
            bucket.0 += count;
            bucket.1 = bucket.1.saturating_add(sum);
        }
    }

    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        for (at, bucket) in other.buckets.into_iter().enumerate().filter(|(_, bucket)| bucket.0 > 0)
        {
            self.put(other.first + at, bucket);
        }
    }

    /// The mean of the calls from one share of them to another, by time; of one call at least.
    #[expect(clippy::cast_precision_loss, reason = "2^53 calls are more than a file holds")]
    fn mean(&self, from: f64, to: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().map(|(count, _)| count).sum();
        let all = all as f64;
        let (from, to) = (from * all, (to * all).max(from * all + 1.0).min(all));
        let (mut seen, mut sum, mut weight) = (0.0, 0.0, 0.0);
        for (count, total) in self.buckets.iter().filter(|(count, _)| *count > 0) {
            let (count, mean) = (*count as f64, *total as f64 / *count as f64);
            let part = (to.min(seen + count) - from.max(seen)).max(0.0);
            seen += count;
            weight += part;
            sum += part * mean;
        }
        (weight > 0.0).then(|| sum / weight)
    }

    fn measured(&self, by: By) -> Measured {
        let times = match by {
            By::Own | By::Total => {
                let means = SHARES.map(|share| self.mean(0.0, share).unwrap_or(0.0));
                self.buckets.iter().any(|(count, _)| *count > 0).then_some(means)
            }
            // Some calls in the middle, because there is no exact median of buckets.
            By::Median => self.mean(0.49, 0.51).map(|median| [median; VIEWS]),
            By::Calls => None,
        };
        let shown = match by {
            By::Own | By::Total => self.mean(0.0, 1.0),
            By::Median => times.map(|[median, ..]| median),
            By::Calls => None,
        };
        Measured { calls: self.calls, times, shown }
    }
}

fn bucket(time: u64) -> usize {
    let shift = (u64::BITS - time.leading_zeros()).saturating_sub(BITS + 1);
    let high = usize::try_from(time >> shift).unwrap_or(0);
    high + (shift as usize) * (1 << BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_the_fastest_calls() {
        let mut row = Row::default();
        for time in (1..=100).rev() {
            row.add(time * 1000);
        }
        let close = |from, to, expected: f64| {
            let found = row.mean(from, to).unwrap_or(0.0);
            assert!((found / expected - 1.0).abs() < 0.01, "{from} to {to}: {found}");
        };
        close(0.0, 1.0, 50_500.0);
        close(0.0, 0.25, 13_000.0);
        close(0.49, 0.51, 50_500.0);
        assert_eq!(Row::default().mean(0.0, 0.5), None);
    }

    #[test]
    fn libraries_without_their_versions() {
        let rows = [
            ("/lib/libc.so.6", "libc.so"),
            ("/opt/libz.so", "libz.so"),
            ("program", "program"),
            ("", ""),
        ];
        for (path, expected) in rows {
            assert_eq!(module_name(path.as_bytes()), expected, "{path}");
        }
    }
}
