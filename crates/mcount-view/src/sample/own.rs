//! Own time, and who calls whom.
//!
//! A call that begins in a window says who made it. So the window has, of each pair of functions, the calls and their time, and these have unbiased
//! estimates like those of a function. The own time of a function is its time less that of the calls it makes. It doesn't matter that
//! a call and those within it begin in different windows: expectations add up.
//!
//! Windows that have only some of the functions are left out: a function and those that it calls have other windows there.

use super::FEWEST;
use super::batch::{Alike, Batch, Caller};
use super::bounds::{Lots, Windows, bound};
use super::calibration::Cost;
use super::groups::{Groups, Totals};
use super::load::{Recording, Slowed};
use super::{Cell, Chance, Estimate, Weight, deviation};
use foldhash::HashMap;

/// What is known of the calls of one function by another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Called {
    /// Who made them.
    pub caller: Caller,
    /// The function.
    pub function: u32,
    /// Calls that were seen.
    pub calls: u64,
    /// Calls in a second.
    pub per_second: Estimate,
    /// Their time, as a part of all time.
    pub share: Estimate,
}

/// Sums of one number that each window has.
#[derive(Debug, Default, Clone, Copy)]
struct Series {
    /// Windows that have it.
    seen: u64,
    sum: f64,
    /// Without regard to its sign.
    absolute: f64,
    square: f64,
    /// Times what the window counts for.
    product: f64,
}

impl Series {
    /// A window that has had `before`, if anything, has so much more.
    fn add(&mut self, before: Option<f64>, more: f64, weight: f64) {
        self.seen += u64::from(before.is_none());
        let before = before.unwrap_or(0.0);
        let after = before + more;
        self.sum += more;
        self.absolute += after.abs() - before.abs();
        self.square += after * after - before * before;
        self.product += weight * more;
    }

    /// How far the truth may be from the sum as a part of what windows count for.
    fn error(&self, all: &Windows) -> f64 {
        let mean = self.sum / all.weights;
        let rest = self.square - 2.0 * mean * self.product + mean * mean * all.squares;
        let effective = self.absolute * self.absolute / self.square.max(f64::MIN_POSITIVE);
        let effective = effective.min(all.weights * all.weights / all.squares);
        bound(effective) * deviation(rest, all.weights, all.count.unsigned_abs())
    }
}

/// Sums of calls.
#[derive(Debug, Default, Clone, Copy)]
struct Calls {
    count: u64,
    number: Series,
    time: Series,
    /// Seconds that recording took within them.
    recording: f64,
}

impl Calls {
    fn add(&mut self, cell: Option<Cell>, more: &Batch, weight: Weight) {
        let Weight { window, call } = weight;
        let Cell { calls, time } = more.cell();
        self.count += more.calls;
        self.number.add(cell.map(|cell| cell.calls * call), call * calls, window);
        self.time.add(cell.map(|cell| cell.time * call), call * time, window);
        self.recording += call * more.recording;
    }
}

/// Calls that one window has.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    called: HashMap<(Caller, u32), Cell>,
    /// The own time of functions as the window has it, which may be less than nothing.
    own: HashMap<u32, f64>,
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.called.len() + self.own.len()
    }
}

/// What is known of all pairs.
#[derive(Debug, Default)]
pub(super) struct Own {
    windows: Totals,
    /// How those of a function differ from them that isn't armed in every one.
    lots: HashMap<u32, Lots>,
    /// All calls of a function, and those by each caller.
    whole: HashMap<u32, Calls>,
    called: HashMap<(Caller, u32), Calls>,
    /// Own time as far as the functions are armed in every window, by function and group of windows.
    joint: HashMap<(u32, u32), Series>,
}

impl Own {
    /// A window of a group that has all of its functions, and counts for `times` as much to them as to all.
    pub(super) fn open(&mut self, group: u32, gap: f64, times: f64) {
        self.windows.add(group, gap, times);
    }

    /// From now on a function is armed all the time, or no longer.
    pub(super) fn change(&mut self, function: u32, groups: &Groups, is_always: bool) {
        self.windows.change(function, groups, is_always);
    }

    /// A function isn't armed in every window of its group.
    pub(super) fn adjust(&mut self, chance: Chance, weight: f64) {
        self.lots.entry(chance.function).or_default().add(chance, weight);
    }

    /// Forgets these functions, and who called them: their time is that of who did.
    pub(super) fn leave_out(&mut self, functions: &[u32]) {
        let is_left = |function: &u32| !functions.contains(function);
        self.whole.retain(|function, _| is_left(function));
        self.called.retain(|(caller, function), _| is_left(caller) && is_left(function));
        self.joint.retain(|(function, _), _| is_left(function));
    }

    /// The windows of a function.
    fn windows_of(&self, function: u32, by: &Corrections<'_>) -> Option<Windows> {
        let all = self.windows.of(function, by.groups);
        let own = self.lots.get(&function).map_or(all, |lots| lots.of(&all));
        Some(own).filter(|own| own.weights > 0.0)
    }

    /// Calls have ended that began in a window of this group, which counts for `whole` and had those in `cell` of the function.
    pub(super) fn add(
        &mut self,
        pairs: &mut Pairs,
        (alike, more): (Alike, &Batch),
        (group, whole, cell): (u32, f64, Option<Cell>),
        weight: Weight,
    ) {
        let Alike { caller, function, .. } = alike;
        let mut add = |function: u32, more: f64| {
            let own = pairs.own.get(&function).copied();
            self.joint.entry((function, group)).or_default().add(own, more, whole);
            *pairs.own.entry(function).or_default() += more;
        };
        let is_joint = !self.lots.contains_key(&function);
        if is_joint {
            add(function, weight.call * more.time);
        }
        self.whole.entry(function).or_default().add(cell, more, weight);
        let Some(caller) = caller else { return };
        if is_joint {
            add(caller, -weight.call * more.time);
        }
        let pair = (caller, function);
        let cell = pairs.called.get(&pair).copied();
        self.called.entry(pair).or_default().add(cell, more, weight);
        pairs.called.entry(pair).or_default().add(more.cell());
    }
}

/// What is needed to say how things are when nobody looks.
#[derive(Clone, Copy)]
pub(super) struct Corrections<'c> {
    pub(super) slowed: Slowed,
    /// The group of each function.
    pub(super) groups: &'c Groups,
    /// The part of their threads' time that recording took when the function was called, at its usual cost.
    pub(super) recording: &'c HashMap<u32, Recording>,
}

impl Corrections<'_> {
    fn more(&self, function: u32) -> (f64, f64) {
        self.recording.get(&function).map_or((1.0, 0.0), |part| self.slowed.more(*part))
    }

    fn stretch(&self, function: u32, more: f64) -> f64 {
        self.recording.get(&function).map_or(more, |part| part.stretch(more))
    }

    fn cost(&self, function: u32) -> Cost {
        self.slowed.cost(self.recording.get(&function).copied().unwrap_or_default())
    }
}

/// Time as a part of all time, and what recording took of it.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    time: f64,
    recording: f64,
}

impl Own {
    /// The time of these calls of `function`; nothing if its group has had no window.
    fn part(&self, calls: &Calls, function: u32, by: &Corrections<'_>) -> Option<Part> {
        let all = self.windows_of(function, by)?;
        let (more, _) = by.more(function);
        let time = calls.time.sum - (by.cost(function).part - 1.0) * calls.recording;
        let part = more / all.weights;
        Some(Part { time: part * time, recording: part * calls.recording })
    }

    /// Who calls whom, by function.
    pub(super) fn called(&self, by: &Corrections<'_>) -> Vec<Called> {
        let row = |((caller, function), calls): (&(Caller, u32), &Calls)| {
            let all = self.windows_of(*function, by)?;
            let part = self.part(calls, *function, by)?;
            let (more, more_error) = by.more(*function);
            let is_known = calls.number.seen >= FEWEST;
            let (unsure, stretch) = (more_error / more, by.stretch(*function, more));
            let estimate = |value: f64, series: &Series, unsure: f64| Estimate {
                value,
                error: is_known.then(|| (stretch * series.error(&all)).hypot(unsure)),
            };
            let per_second = more * calls.number.sum / all.weights;
            let cost = by.cost(*function);
            let of_cost = cost.unsure * cost.part * part.recording;
            Some(Called {
                caller: *caller,
                function: *function,
                calls: calls.count,
                per_second: estimate(per_second, &calls.number, per_second * unsure),
                share: estimate(part.time, &calls.time, (part.time * unsure).hypot(of_cost)),
            })
        };
        let mut rows: Vec<Called> = self.called.iter().filter_map(row).collect();
        rows.sort_unstable_by_key(|row| (row.function, row.caller));
        rows
    }

    /// The own time of functions that call others that are sampled, as a part of all time.
    pub(super) fn of_callers(&self, by: &Corrections<'_>) -> HashMap<u32, Estimate> {
        let mut parts: HashMap<u32, Part> = HashMap::default();
        // The squares of errors; nothing if one of them isn't known.
        let mut squares: HashMap<u32, Option<f64>> = HashMap::default();
        // Those that aren't armed in every window have other windows than the rest.
        let mut apart = |of: u32, function: u32, calls: &Calls| {
            let all = self.windows_of(function, by).filter(|_| self.lots.contains_key(&function));
            if let Some(all) = all {
                let square = squares.entry(of).or_insert(Some(0.0));
                let more = (calls.time.seen >= FEWEST).then(|| calls.time.error(&all).powi(2));
                *square = square.zip(more).map(|(square, more)| square + more);
            }
        };
        for ((caller, function), calls) in &self.called {
            let Some(whole) = self.whole.get(caller) else { continue };
            let Some(part) = self.part(calls, *function, by) else { continue };
            apart(*caller, *function, calls);
            let own = parts.entry(*caller).or_insert_with(|| {
                apart(*caller, *caller, whole);
                self.part(whole, *caller, by).unwrap_or_default()
            });
            own.time -= part.time;
            own.recording -= part.recording;
        }
        for ((function, group), one) in &self.joint {
            let all = self.windows.of_group(*group);
            let square = squares.entry(*function).or_insert(Some(0.0));
            *square = square.map(|square| square + one.error(&all).powi(2));
        }
        let estimate = |(function, part): (u32, Part)| {
            let ((more, more_error), cost) = (by.more(function), by.cost(function));
            let of_cost = cost.unsure * cost.part * part.recording;
            let unsure = (part.time * more_error / more).hypot(of_cost);
            let seen = self.whole.get(&function).map_or(0, |whole| whole.time.seen);
            let square = squares.get(&function).copied().flatten().filter(|_| seen >= FEWEST);
            let stretch = by.stretch(function, more);
            let error = square.map(|square| (stretch * square.sqrt()).hypot(unsure));
            (function, Estimate { value: part.time, error })
        };
        parts.into_iter().map(estimate).collect()
    }
}
