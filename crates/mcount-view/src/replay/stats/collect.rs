//! Adding up calls.

use super::durations::{Durations, Sums};
use super::groups::Groups;
use crate::replay::select::Filter;
use mcount_trace::{Call, Visitor};

/// Facts about the calls of a group. Times are nanoseconds. What follows from the durations isn't counted with
/// each call.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    durations: Durations,
    /// In calls that are within others of the same group.
    inner: u64,
    /// In what they called. It can be counted before them.
    children: u64,
}

impl Row {
    #[inline]
    fn add(&mut self, duration: u64, is_outermost: bool) {
        if !is_outermost {
            self.inner = self.inner.saturating_add(duration);
        }
        self.durations.add(duration);
    }

    fn merge(&mut self, other: Self) {
        self.inner = self.inner.saturating_add(other.inner);
        self.children = self.children.saturating_add(other.children);
        self.durations.merge(other.durations);
    }

    /// How many there are.
    pub(super) fn calls(&self) -> u64 {
        self.durations.sums().count
    }

    /// The times, in the order of columns: in these calls and in what they called (of calls within calls of the same
    /// group, the outermost), in these calls alone, and those of one call.
    pub(super) fn times(&self) -> [u64; 7] {
        let Sums { count, sum, min, max } = self.durations.sums();
        let mean = sum.checked_div(count).unwrap_or(0);
        let mut durations = self.durations.clone();
        let mut quantile = |hundredths| durations.quantile(hundredths).clamp(min, max);
        let (total, own) = (sum.saturating_sub(self.inner), sum.saturating_sub(self.children));
        [total, own, mean, min, quantile(50), quantile(99), max]
    }
}

/// Goes through all calls of some threads: what a function called is not its own time, whether that is wanted or not.
pub(super) struct Collector<'c> {
    pub(super) rows: Vec<Row>,
    /// How many calls of a group are open.
    open: Vec<u32>,
    filter: &'c Filter<'c>,
    groups: &'c Groups<'c>,
    /// When calls that had not ended count as ended.
    latest: u64,
}

/// A call that encloses others.
#[derive(Clone, Copy)]
pub(super) struct Enclosing {
    group: usize,
    is_wanted: bool,
}

impl<'c> Collector<'c> {
    pub(super) fn new(filter: &'c Filter<'c>, groups: &'c Groups<'c>, latest: u64) -> Self {
        let count = groups.all().len();
        Self { rows: vec![Row::default(); count], open: vec![0; count], filter, groups, latest }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        for (row, other) in self.rows.iter_mut().zip(other.rows) {
            row.merge(other);
        }
        self
    }

    /// Opens a call; whether no other call of its group is open.
    #[inline]
    fn open(&mut self, group: usize) -> bool {
        self.open.get_mut(group).is_some_and(|open| {
            *open += 1;
            *open == 1
        })
    }
}

impl Visitor for Collector<'_> {
    type Mark = Enclosing;

    #[expect(
        clippy::inline_always,
        reason = "each call goes through it, and the compiler leaves it out of line"
    )]
    #[inline(always)]
    fn enter(&mut self, call: &Call, caller: Option<Enclosing>) -> Enclosing {
        let group = self.groups.of(call);
        let is_outermost = self.open(group);
        let (start, end) = self.filter.times(call);
        if self.filter.is_too_late(start) {
            return Enclosing { group, is_wanted: false };
        }
        let is_wanted = self.filter.is_wanted(call, start, end);
        let duration = end.unwrap_or(self.latest).saturating_sub(start);
        if is_wanted && let Some(row) = self.rows.get_mut(group) {
            row.add(duration, is_outermost);
        }
        let caller = caller.filter(|caller| caller.is_wanted);
        if let Some(row) = caller.and_then(|caller| self.rows.get_mut(caller.group)) {
            row.children = row.children.saturating_add(duration);
        }
        Enclosing { group, is_wanted }
    }

    fn enclose(&mut self, call: &Call, _: Option<Enclosing>) -> Enclosing {
        let group = self.groups.of(call);
        self.open(group);
        let (start, end) = self.filter.times(call);
        let is_wanted = !self.filter.is_too_late(start) && self.filter.is_wanted(call, start, end);
        Enclosing { group, is_wanted }
    }

    #[inline]
    fn leave(&mut self, mark: Enclosing) {
        if let Some(open) = self.open.get_mut(mark.group) {
            *open = open.saturating_sub(1);
        }
    }
}
