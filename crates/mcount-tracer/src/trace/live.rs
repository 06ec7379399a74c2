//! Facts about calls while they are being traced: how often each function was called since the last look, and
//! how long it took.
//!
//! Time in a function without what it called is known because calls of a thread come in the order of their ends: those
//! that began after a call's start, and came before it, are what it called.

use super::file::TraceFile;
use super::live_inside::{Inside, Span};
use super::live_waits::{LiveWaits, Waited, Watched};
use mcount_trace::{Ended, Follower, layout};
use std::collections::HashMap;

/// Calls of one function. Times are ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) total: u64,
    /// Without what it called.
    pub(super) own: u64,
    pub(super) longest: u64,
}

impl Tally {
    pub(super) fn add(&mut self, elapsed: u64, inside: u64) {
        self.calls += 1;
        self.total += elapsed;
        self.own += elapsed.saturating_sub(inside);
        self.longest = self.longest.max(elapsed);
    }
}

/// Facts about a trace that's being written.
#[derive(Debug, Default)]
pub(super) struct Live {
    follower: Follower,
    /// By number, since the last [`Self::take`].
    now: Vec<Tally>,
    /// How often each function was called since the beginning.
    calls: Vec<u64>,
    /// Where in `waiting` each thread's calls are.
    threads: HashMap<u32, usize>,
    waiting: Vec<Inside>,
    waits: LiveWaits,
    /// Calls that were written over before they were read.
    pub(super) missed: u64,
    /// Chunks that have not been read yet.
    pub(super) left: u64,
}

impl Live {
    /// Threads whose calls are kept in mind.
    const THREADS: usize = 10_000;
    /// Chunks that are read before their contents are decided upon: 400,000 calls.
    const AT_ONCE: usize = 100;

    /// It's also to be known who calls these functions.
    pub(super) fn watch(&mut self, watched: Watched) {
        self.waits = LiveWaits::new(watched);
    }

    /// How many chunks haven't been read, or have been begun since the last look.
    pub(super) fn news(&self, trace: &TraceFile) -> u64 {
        self.left + self.follower.news(&mut |offset, bytes: &mut [u8]| trace.read(offset, bytes))
    }

    /// Reads what is new, but not for long.
    pub(super) fn look(&mut self, trace: &TraceFile) {
        let Self { follower, now, calls, threads, waiting, waits, .. } = self;
        if threads.len() > Self::THREADS {
            threads.clear();
            waiting.clear();
        }
        let mut last = (0, usize::MAX);
        let mut read = |offset: u64, bytes: &mut [u8]| trace.read(offset, bytes);
        let look = follower.look(&mut read, Self::AT_ONCE, |call: &Ended| {
            if last != (call.thread, last.1) || last.1 == usize::MAX {
                let at = *threads.entry(call.thread).or_insert(waiting.len());
                waiting.resize_with(waiting.len().max(at + 1), Inside::default);
                last = (call.thread, at);
            }
            let Ok(function) = usize::try_from(call.function) else { return };
            if now.len() <= function {
                now.resize(function + 1, Tally::default());
                calls.resize(function + 1, 0);
            }
            // Its thread ended in a call that another one has recorded: when isn't known.
            let is_timed = call.tid != 0;
            let elapsed = if is_timed { call.end.saturating_sub(call.start) } else { 0 };
            let span = Span::new(call.start, elapsed, waits.waiting(call.function));
            waits.add(call);
            let each = |function, took| waits.call(function, call.function, took);
            let inside = waiting.get_mut(last.1).map_or(0, |one| one.add(span, each));
            if let (Some(tally), Some(calls)) = (now.get_mut(function), calls.get_mut(function)) {
                tally.add(elapsed, inside);
                *calls += 1;
            }
        });
        (self.missed, self.left) = (look.missed, look.left);
    }

    /// Reads all that is new.
    pub(super) fn look_at_all(&mut self, trace: &TraceFile) {
        const MOST: u32 = 1000;
        for _ in 0..MOST {
            self.look(trace);
            if self.left == 0 {
                return;
            }
        }
    }

    /// How often each function was called since the beginning, by number, and about how many calls were missed.
    pub(super) fn all_calls(&self) -> (&[u64], u64) {
        const CALLS: u64 = layout::CHUNK_SIZE / layout::call::SIZE as u64;
        (&self.calls, self.missed + self.left * CALLS)
    }

    /// The calls since the last time, by the functions' numbers.
    pub(super) fn take(&mut self) -> Vec<Tally> {
        let count = self.now.len();
        std::mem::replace(&mut self.now, vec![Tally::default(); count])
    }

    /// What functions that wait were called by since the last time.
    pub(super) fn take_waits(&mut self) -> Waited {
        self.waits.take()
    }

    /// How often function `number` was called since the beginning.
    pub(super) fn calls(&self, number: u32) -> u64 {
        let at = usize::try_from(number).ok().and_then(|at| self.calls.get(at));
        at.copied().unwrap_or(0)
    }
}
