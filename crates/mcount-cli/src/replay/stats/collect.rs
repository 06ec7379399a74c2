//! Adding up calls.

use super::durations::Durations;
use super::groups::Groups;
use crate::replay::select::Filter;
use mcount_trace::{Call, Visitor};

/// What is known of the calls of a group. Times are nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) calls: u64,
    /// In these calls and in what they called; of calls within calls of the same group, the outermost.
    total: u64,
    /// In these calls alone. What they called can be counted before them.
    own: i64,
    sum: u64,
    min: u64,
    max: u64,
    durations: Durations,
}

impl Row {
    #[inline]
    fn add(&mut self, duration: u64, is_outermost: bool) {
        self.min = if self.calls == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.calls += 1;
        self.sum = self.sum.saturating_add(duration);
        self.own = self.own.saturating_add_unsigned(duration);
        if is_outermost {
            self.total = self.total.saturating_add(duration);
        }
        self.durations.add(duration);
    }

    fn merge(&mut self, other: Self) {
        self.min = match (self.calls, other.calls) {
            (0, _) => other.min,
            (_, 0) => self.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.calls += other.calls;
        self.total = self.total.saturating_add(other.total);
        self.own = self.own.saturating_add(other.own);
        self.sum = self.sum.saturating_add(other.sum);
        self.durations.merge(other.durations);
    }

    /// The times, in the order of columns.
    pub(super) fn times(&self) -> [u64; 7] {
        let mean = self.sum.checked_div(self.calls).unwrap_or(0);
        let mut durations = self.durations.clone();
        let mut quantile = |hundredths| durations.quantile(hundredths).clamp(self.min, self.max);
        let own = u64::try_from(self.own).unwrap_or(0);
        [self.total, own, mean, self.min, quantile(50), quantile(99), self.max]
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
            row.own = row.own.saturating_sub_unsigned(duration);
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
