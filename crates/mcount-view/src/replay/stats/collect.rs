//! Adding up calls.

use super::durations::{Durations, Sums};
use super::groups::Groups;
use super::lock_waits::Longest;
use crate::replay::select::Filter;
use crate::replay::visit::between;
use crate::replay::waits::{Kind, Role, Waits};
use mcount_trace::{Call, Trace, Visitor};
use std::collections::HashMap;
use std::ops::Range;

/// Facts about the calls of a group. Times are nanoseconds. What follows from the durations isn't counted with
/// each call.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    durations: Durations,
    /// In calls that are within others of the same group.
    inner: i64,
    /// In what they called. It can be counted before them.
    children: i64,
    /// Waiting that's part of these calls' own time.
    inside: i64,
    /// Waiting that's in calls which stand for time off the processor, beneath these.
    beneath: u64,
    /// Own time of calls that stand for time off the processor: it's the waiting of what they're beneath.
    given: u64,
}

impl Row {
    #[inline]
    fn add(&mut self, duration: u64, is_outermost: bool) {
        if !is_outermost {
            self.inner = self.inner.saturating_add(signed(duration));
        }
        self.durations.add(duration);
    }

    fn merge(&mut self, other: Self) {
        self.inner = self.inner.saturating_add(other.inner);
        self.children = self.children.saturating_add(other.children);
        self.inside = self.inside.saturating_add(other.inside);
        self.beneath = self.beneath.saturating_add(other.beneath);
        self.given = self.given.saturating_add(other.given);
        self.durations.merge(other.durations);
    }

    /// So much time of the calls was in what they called.
    #[inline]
    fn call_others(&mut self, duration: u64) {
        self.children = self.children.saturating_add(signed(duration));
    }

    /// The time in the calls themselves.
    fn own(&self) -> u64 {
        without(self.durations.sums().sum, self.children)
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
        let (total, own) = (without(sum, self.inner), self.own());
        [total, own, mean, min, quantile(50), quantile(99), max]
    }

    /// The time in these calls alone, in nanoseconds: running, and waiting. Each moment of a thread is one of both in one row.
    pub(super) fn split(&self) -> [u64; 2] {
        let own = self.own();
        let inside = u64::try_from(self.inside).unwrap_or(0);
        let running = own.saturating_sub(inside).saturating_sub(self.given);
        [running, inside.saturating_add(self.beneath)]
    }
}

/// Where a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    /// The number of the function that waits.
    pub(super) function: u32,
    /// That of its caller.
    pub(super) caller: Option<u32>,
}

/// Goes through all calls of some threads: what a function called is not its own time, whether that is wanted or not.
pub(super) struct Collector<'c> {
    pub(super) rows: Vec<Row>,
    /// How many calls of a group are open.
    open: Vec<u32>,
    /// How long threads waited where, in nanoseconds.
    pub(super) places: HashMap<Wait, i64, foldhash::fast::RandomState>,
    /// The longest waits for locks.
    pub(super) locks: Longest,
    /// What's known where stacks take turns.
    turns: Option<Turns>,
    of: Subject<'c>,
}

/// What is added up.
#[derive(Clone, Copy)]
pub(super) struct Subject<'c> {
    pub(super) trace: &'c Trace<'c>,
    pub(super) filter: &'c Filter<'c>,
    pub(super) groups: &'c Groups<'c>,
    pub(super) waits: &'c Waits,
    /// When calls that had not ended count as ended.
    pub(super) latest: u64,
}

/// A call that encloses others.
#[derive(Clone, Copy)]
pub(super) struct Enclosing {
    group: usize,
    is_wanted: bool,
    /// All of its own time is waiting.
    waits: bool,
    place: Wait,
}

/// Where stacks take turns on a thread, calls overlap, so no sum of durations says what took how long. Instead, `spend` says how long the
/// thread was in each call itself, and a group's time is that in which any of its calls was open.
struct Turns {
    /// The stretch, in nanoseconds.
    between: Range<u64>,
    /// How many calls of each group are open, and until when there were some.
    open: Vec<(u32, u64)>,
}

impl Turns {
    /// A call of this duration ends at `end`.
    fn enter(&mut self, row: &mut Row, group: usize, times: (u64, u64), is_outermost: bool) {
        let (duration, end) = times;
        self.open(group, end);
        // What's told will be left.
        row.call_others(duration);
        if is_outermost {
            row.inner = row.inner.saturating_add(signed(duration));
        }
    }

    fn open(&mut self, group: usize, end: u64) {
        if let Some((count, until)) = self.open.get_mut(group) {
            if *count == 0 {
                *until = end.min(self.between.end);
            }
            *count += 1;
        }
    }

    fn leave(&mut self, row: &mut Row, group: usize, start: u64) {
        if let Some((count, until)) = self.open.get_mut(group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                let time = until.saturating_sub(start.max(self.between.start));
                row.inner = row.inner.saturating_sub(signed(time));
            }
        }
    }
}

impl<'c> Collector<'c> {
    pub(super) fn new(of: Subject<'c>) -> Self {
        let count = of.groups.all().len();
        let (rows, open) = (vec![Row::default(); count], vec![0; count]);
        let (places, locks) = (HashMap::default(), Longest::default());
        Self { rows, open, places, locks, turns: None, of }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        for (row, other) in self.rows.iter_mut().zip(other.rows) {
            row.merge(other);
        }
        for (place, time) in other.places {
            self.waited(place, time);
        }
        self.locks.merge(other.locks);
        self
    }

    fn waited(&mut self, place: Wait, time: i64) {
        let sum = self.places.entry(place).or_default();
        *sum = sum.saturating_add(time);
    }

    /// Says of a call's time, which is this long, where it's waiting. Calls that aren't wanted are left out.
    #[inline(never)]
    fn split(&mut self, call: &Call, own: Enclosing, caller: Option<Enclosing>, duration: u64) {
        let of_call = self.of.waits.kind(self.of.trace, call.function);
        if own.is_wanted && self.of.waits.role(self.of.trace, call.function) == Role::Lock {
            self.locks.add(call, duration);
        }
        let time = signed(duration);
        match (of_call, caller) {
            (Kind::OffCpu | Kind::Preempted, Some(caller)) => {
                if let Some(row) = self.rows.get_mut(caller.group) {
                    row.beneath = row.beneath.saturating_add(duration);
                }
                if let Some(row) = self.rows.get_mut(own.group).filter(|_| own.is_wanted) {
                    row.given = row.given.saturating_add(duration);
                }
                let is_wait = of_call == Kind::OffCpu;
                self.waited(if is_wait { caller.place } else { own.place }, time);
            }
            _ if own.is_wanted && (own.waits || of_call != Kind::Runs) => {
                self.add_inside(own, time);
            }
            _ => {}
        }
        if let Some(caller) = caller.filter(|caller| caller.waits) {
            // A function that is called by one that waits does something.
            self.add_inside(caller, time.saturating_neg());
        }
    }

    /// A call has so much more waiting in its own time.
    fn add_inside(&mut self, of: Enclosing, time: i64) {
        if let Some(row) = self.rows.get_mut(of.group) {
            row.inside = row.inside.saturating_add(time);
        }
        self.waited(of.place, time);
    }

    /// A call as an enclosing one.
    #[inline]
    fn enclosing(&self, call: &Call, group: usize, is_wanted: bool) -> Enclosing {
        let Subject { waits, trace, .. } = self.of;
        let place = Wait { function: call.function, caller: call.caller };
        // Of a call that hadn't ended, nothing says until when the thread was off the processor.
        let waits = waits.is_known()
            && (waits.kind(trace, call.function) == Kind::Waits
                || call.end.is_none() && waits.role(trace, call.function).is_wait());
        Enclosing { group, is_wanted, waits, place }
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
        let Subject { filter, groups, waits, latest, .. } = self.of;
        let group = groups.of(call);
        let is_outermost = self.open(group);
        let (start, end) = filter.times(call);
        if filter.is_too_late(start) {
            return self.enclosing(call, group, false);
        }
        let is_wanted = filter.is_wanted(call, start, end);
        let duration = end.unwrap_or(latest).saturating_sub(start);
        if is_wanted && let Some(row) = self.rows.get_mut(group) {
            row.add(duration, is_outermost);
            if let Some(turns) = &mut self.turns {
                turns.enter(row, group, (duration, end.unwrap_or(latest)), is_outermost);
            }
        }
        let own = self.enclosing(call, group, is_wanted);
        let caller = caller.filter(|caller| caller.is_wanted && self.turns.is_none());
        if let Some(row) = caller.and_then(|caller| self.rows.get_mut(caller.group)) {
            row.call_others(duration);
        }
        if waits.is_known() {
            self.split(call, own, caller, duration);
        }
        own
    }

    fn enclose(&mut self, call: &Call, _: Option<Enclosing>) -> Enclosing {
        let group = self.of.groups.of(call);
        self.open(group);
        let filter = self.of.filter;
        let (start, end) = filter.times(call);
        let is_wanted = !filter.is_too_late(start) && filter.is_wanted(call, start, end);
        if let Some(turns) = self.turns.as_mut().filter(|_| is_wanted) {
            turns.open(group, u64::MAX);
        }
        self.enclosing(call, group, is_wanted)
    }

    #[inline]
    fn leave(&mut self, mark: Enclosing, start: u64) {
        if let Some(turns) = self.turns.as_mut().filter(|_| mark.is_wanted)
            && let Some(row) = self.rows.get_mut(mark.group)
        {
            turns.leave(row, mark.group, self.of.trace.nanoseconds(start));
        }
        if let Some(open) = self.open.get_mut(mark.group) {
            *open = open.saturating_sub(1);
        }
    }

    fn begin(&mut self, told: Option<Range<u64>>) {
        let trace = self.of.trace;
        let known = self.turns.take().map(|turns| turns.open);
        self.turns = told.map(|told| Turns {
            between: trace.nanoseconds(told.start)..trace.nanoseconds(told.end),
            open: known.unwrap_or_else(|| vec![(0, 0); self.rows.len()]),
        });
    }

    fn spend(&mut self, mark: Enclosing, from: u64, to: u64) {
        let duration = between(self.of.trace, from, to);
        if mark.is_wanted
            && let Some(row) = self.rows.get_mut(mark.group)
        {
            row.children = row.children.saturating_sub(signed(duration));
        }
    }
}

fn signed(duration: u64) -> i64 {
    i64::try_from(duration).unwrap_or(i64::MAX)
}

/// `sum` without a part, which can be less than nothing.
fn without(sum: u64, part: i64) -> u64 {
    let size = part.unsigned_abs();
    if part < 0 { sum.saturating_add(size) } else { sum.saturating_sub(size) }
}
