//! Cuts a trace into slices of time, so that several processors can go through its calls in the order of starts.
//!
//! A slice begins where a piece of some thread does, so little is read twice. What encloses calls at its beginning is
//! known without what lies before ([`crate::index`]: the extras).

use crate::calls::{Call, Calls};
use crate::trace::Trace;

/// The calls that start within some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// In ticks.
    start: u64,
    /// In ticks; these are of the next slice.
    end: Option<u64>,
}

impl Trace<'_> {
    /// Slices of about `size` calls, in the order of time, with all calls of those threads that `is_wanted` names which
    /// start `from` nanoseconds after the start of the trace or later, and none that starts `to` or later if there's
    /// such a time. Some calls that start somewhat earlier than `from` or later than `to` can be among them.
    #[must_use]
    pub fn slices(
        &self,
        size: u64,
        (from, to): (u64, Option<u64>),
        is_wanted: impl Fn(usize) -> bool,
    ) -> Vec<Slice> {
        let from = self.ticks(from);
        let to = to.map_or(u64::MAX, |to| self.ticks(to).saturating_add(1));
        let wanted = self.indices().iter().enumerate().filter(|(at, _)| is_wanted(*at));
        let pieces = wanted.flat_map(|(_, thread)| thread.boundaries());
        let mut pieces: Vec<(u64, u64)> =
            pieces.filter(|(start, _)| *start > from && *start < to).collect();
        pieces.sort_unstable();
        let mut slices = Vec::new();
        let (mut start, mut calls) = (from, 0);
        for (boundary, count) in pieces {
            if calls >= size && boundary > start {
                slices.push(Slice { start, end: Some(boundary) });
                (start, calls) = (boundary, 0);
            }
            calls += count;
        }
        slices.push(Slice { start, end: None });
        slices
    }

    /// The calls of a slice of those threads that `is_wanted` names, in the order of starts.
    pub fn calls_within(
        &self,
        slice: Slice,
        is_wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Call> {
        let threads = (0..self.indices().len()).filter(|at| is_wanted(*at));
        let calls = threads.filter_map(|at| self.thread_calls(at));
        let calls = Calls::new(calls.map(|calls| calls.starting_at(slice.start)).collect());
        calls
            .skip_while(move |call| call.start < slice.start)
            .take_while(move |call| slice.end.is_none_or(|end| call.start < end))
    }
}
