//! The timeline: the longest calls of the busiest threads, and for the others, how many there are in each
//! stretch of time.
//!
//! Which calls are the longest isn't known before all were seen. So calls are kept until there are twice as
//! many as are wanted; then the shorter half is counted and dropped, and from then on what's as short is
//! only counted.

use mcount_trace::{Call, Trace};
use std::collections::BTreeMap;

/// How many calls the page has.
pub(super) const MOST: usize = 150_000;
/// How many threads.
const MOST_THREADS: usize = 48;
/// How deep calls may be.
const DEEPEST: usize = 96;
/// Into how many stretches the time of a trace is divided, for calls that are only counted.
pub(super) const STRETCHES: u64 = 1_024;
/// How many of these stretches with calls there may be, of all depths and threads.
const MOST_COUNTS: usize = 200_000;

/// How many markers the page has.
pub(super) const MOST_MARKS: usize = 5_000;

/// How many arrows.
const MOST_ARROWS: usize = 20_000;

/// A thread goes on because another one woke it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrow {
    /// The thread that woke it, and when, in nanoseconds since the start of the trace.
    pub(super) from: (usize, u64),
    pub(super) to: (usize, u64),
}

/// A call as it's drawn. Times are nanoseconds since the start of the trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bar {
    pub(super) start: u64,
    pub(super) duration: u64,
    pub(super) depth: usize,
    /// The function's number.
    pub(super) function: u32,
}

impl Bar {
    pub(super) fn new(call: &Call, start: u64, duration: u64) -> Self {
        Self { start, duration, depth: call.depth, function: call.function }
    }
}

/// Calls that are only counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) calls: u64,
    /// Nanoseconds.
    pub(super) time: u64,
    longest: u64,
    /// The function of the longest.
    pub(super) function: u32,
}

/// A thread's part.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) bars: Vec<Bar>,
    /// By stretch and depth.
    pub(super) counts: BTreeMap<(u64, usize), Count>,
    /// The texts of markers, and their times: nanoseconds since the start of the trace.
    pub(super) marks: Vec<(u64, String)>,
}

pub(super) struct Timeline {
    /// When the trace ends.
    pub(super) end: u64,
    /// By thread.
    pub(super) lanes: BTreeMap<usize, Lane>,
    /// How many bars there are.
    bars: usize,
    counts: usize,
    /// Calls that aren't longer are counted.
    pub(super) limit: Option<u64>,
    /// Calls of other threads, or deeper than is shown.
    pub(super) left_out: u64,
    marks: usize,
    /// Markers that the page hasn't.
    pub(super) marks_left_out: usize,
    pub(super) arrows: Vec<Arrow>,
    /// The same of arrows.
    pub(super) arrows_left_out: usize,
}

impl Timeline {
    pub(super) fn new(trace: &Trace<'_>) -> Self {
        let mut threads: Vec<usize> =
            (0..trace.threads.len()).filter(|at| trace.count(*at) > 0).collect();
        threads.sort_by_key(|at| std::cmp::Reverse(trace.count(*at)));
        threads.truncate(MOST_THREADS);
        Self {
            end: trace.nanoseconds(trace.latest()).max(1),
            lanes: threads.into_iter().map(|at| (at, Lane::default())).collect(),
            bars: 0,
            counts: 0,
            limit: None,
            left_out: 0,
            marks: 0,
            marks_left_out: 0,
            arrows: Vec::new(),
            arrows_left_out: 0,
        }
    }

    pub(super) fn arrow(&mut self, arrow: Arrow) {
        let is_shown = |(thread, _): (usize, u64)| self.lanes.contains_key(&thread);
        if self.arrows.len() < MOST_ARROWS && is_shown(arrow.from) && is_shown(arrow.to) {
            self.arrows.push(arrow);
        } else {
            self.arrows_left_out += 1;
        }
    }

    /// The place of a thread among those that are shown.
    pub(super) fn place(&self, thread: usize) -> usize {
        self.lanes.range(..thread).count()
    }

    pub(super) fn mark(&mut self, thread: usize, time: u64, text: String) {
        match self.lanes.get_mut(&thread).filter(|_| self.marks < MOST_MARKS) {
            Some(lane) => {
                lane.marks.push((time, text));
                self.marks += 1;
            }
            None => self.marks_left_out += 1,
        }
    }

    pub(super) fn add(&mut self, thread: usize, bar: Bar) {
        let Some(lane) = self.lanes.get_mut(&thread).filter(|_| bar.depth < DEEPEST) else {
            self.left_out += 1;
            return;
        };
        if self.limit.is_some_and(|limit| bar.duration <= limit) {
            let is_new = lane.count(self.end, bar, self.counts < MOST_COUNTS);
            self.counts += usize::from(is_new == Some(true));
            self.left_out += u64::from(is_new.is_none());
            return;
        }
        lane.bars.push(bar);
        self.bars += 1;
        if self.bars >= MOST * 2 {
            self.shorten();
        }
    }

    /// Leaves the longest bars, as many as the page has.
    pub(super) fn shorten(&mut self) {
        let all = self.lanes.values().flat_map(|lane| &lane.bars);
        let mut durations: Vec<u64> = all.map(|bar| bar.duration).collect();
        let Some(place) = durations.len().checked_sub(MOST + 1) else { return };
        let (_, limit, _) = durations.select_nth_unstable(place);
        let limit = *limit;
        self.limit = Some(limit);
        self.bars = 0;
        for lane in self.lanes.values_mut() {
            let (short, long): (Vec<Bar>, Vec<Bar>) =
                std::mem::take(&mut lane.bars).into_iter().partition(|bar| bar.duration <= limit);
            self.bars += long.len();
            lane.bars = long;
            for bar in short {
                let is_new = lane.count(self.end, bar, self.counts < MOST_COUNTS);
                self.counts += usize::from(is_new == Some(true));
                self.left_out += u64::from(is_new.is_none());
            }
        }
    }
}

impl Lane {
    /// Counts a call; whether it's the first of its stretch and depth; `None` if there's no room for one.
    fn count(&mut self, end: u64, bar: Bar, has_room: bool) -> Option<bool> {
        let stretch = u128::from(bar.start) * u128::from(STRETCHES) / u128::from(end);
        let stretch = u64::try_from(stretch).unwrap_or(0).min(STRETCHES - 1);
        let known = self.counts.len();
        let key = (stretch, bar.depth);
        if !has_room && !self.counts.contains_key(&key) {
            return None;
        }
        let count = self.counts.entry(key).or_default();
        count.calls += 1;
        count.time = count.time.saturating_add(bar.duration);
        if bar.duration >= count.longest {
            (count.longest, count.function) = (bar.duration, bar.function);
        }
        Some(self.counts.len() > known)
    }
}
