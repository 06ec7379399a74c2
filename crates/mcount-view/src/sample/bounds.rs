//! The sums that are kept of a function, and what they say: estimates with their intervals.
//!
//! The window is the unit. A ratio of two weighted sums over windows has the variance of what is left of each window when the ratio
//! times its denominator is taken away (Cochran 1977, Sampling Techniques, chapter 6), and Student's t gives the bound. If a few windows
//! have most of what was seen, the spread is known no better than from these few, so they are what degrees of freedom are counted by (Kish 1965, Survey Sampling).

use super::FEWEST;
use super::batch::Batch;
use super::durations::Durations;
use super::load::{Recording, Slowed};
use super::slowdown::Told;
use super::{Cell, Chance, Estimate, Row, Weight, deviation, to_float};
use crate::compare::statistics::limit;
use std::sync::OnceLock;

/// One in twenty intervals lacks the truth.
const ODDS: f64 = 0.05;

/// Sums over the windows of a group.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Windows {
    /// Not below 0, but for differences.
    pub(super) count: i64,
    pub(super) weights: f64,
    pub(super) squares: f64,
}

impl Windows {
    pub(super) fn add(&mut self, weight: f64) {
        self.count += 1;
        self.weights += weight;
        self.squares += weight * weight;
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            weights: self.weights + other.weights,
            squares: self.squares + other.squares,
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        let Self { count, weights, squares } = other;
        self.plus(Self { count: -count, weights: -weights, squares: -squares })
    }
}

/// How the windows of a function differ from those of its group, if it isn't armed in every one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Lots {
    weights: f64,
    squares: f64,
    absent: i64,
}

impl Lots {
    /// A window that counts for `weight`.
    pub(super) fn add(&mut self, chance: Chance, weight: f64) {
        let own = if chance.is_armed { weight / chance.chance } else { 0.0 };
        self.weights += own - weight;
        self.squares += own * own - weight * weight;
        self.absent += i64::from(!chance.is_armed);
    }

    /// Its windows, of all those of its group.
    pub(super) fn of(&self, all: &Windows) -> Windows {
        all.plus(Windows { count: -self.absent, weights: self.weights, squares: self.squares })
    }
}

/// One of so many calls may not have ended, if intervals of times are to be known.
const UNFINISHED: u64 = 100;

/// Sums over the windows in which a function was seen. What a window has counts for its weight.
#[derive(Debug, Default)]
pub(super) struct Sums {
    seen: u64,
    ended: u64,
    open: u64,
    calls: f64,
    time: f64,
    /// The parts of their threads' time that recording took, of calls that ended soon enough to tell, and these.
    slower: f64,
    slower_squares: f64,
    slower_calls: f64,
    /// Seconds that recording took within calls.
    recording: f64,
    /// Calls and time of calls that have ended.
    ended_calls: f64,
    durations: Durations,
    /// Products of calls, time and the window's weight.
    calls_calls: f64,
    calls_time: f64,
    time_time: f64,
    calls_weight: f64,
    time_weight: f64,
    pub(super) lots: Lots,
}

impl Sums {
    pub(super) fn calls(&self) -> u64 {
        self.ended + self.open
    }

    /// More calls in a window that had those in `cell`.
    pub(super) fn add(&mut self, cell: Cell, more: &Batch, weight: Weight) {
        self.ended += more.calls;
        self.ended_calls += weight.call * to_float(more.calls);
        for (step, calls) in &more.durations {
            self.durations.add(*step, weight.call * f64::from(*calls));
        }
        self.recording += weight.call * more.recording;
        self.add_to_window(cell, more.cell(), weight);
    }

    /// One that hasn't ended.
    pub(super) fn add_open(&mut self, cell: Cell, weight: Weight) {
        self.open += 1;
        self.add_to_window(cell, Cell { calls: 1.0, time: 0.0 }, weight);
    }

    fn add_to_window(&mut self, cell: Cell, more: Cell, Weight { window, call }: Weight) {
        let square = call * call;
        let after = Cell { calls: cell.calls + more.calls, time: cell.time + more.time };
        self.seen += u64::from(cell.calls == 0.0);
        self.calls += call * more.calls;
        self.time += call * more.time;
        self.calls_calls += square * (after.calls * after.calls - cell.calls * cell.calls);
        self.calls_time += square * (after.calls * after.time - cell.calls * cell.time);
        self.time_time += square * (after.time * after.time - cell.time * cell.time);
        self.calls_weight += call * window * more.calls;
        self.time_weight += call * window * more.time;
    }

    /// So many calls were made while recording took this part of their thread's time.
    pub(super) fn add_slower(&mut self, calls: f64, part: f64, weight: Weight) {
        self.slower += weight.call * calls * part;
        self.slower_squares += weight.call * calls * part * part;
        self.slower_calls += weight.call * calls;
    }

    /// The part of their threads' time that recording took when it was called, at its usual cost.
    pub(super) fn slower(&self, told: Option<Told>) -> Recording {
        let calls = self.slower_calls.max(f64::MIN_POSITIVE);
        let mean = self.slower / calls;
        let variance = (self.slower_squares / calls - mean * mean).max(0.0);
        Recording { mean, variance, told }
    }

    /// Of the times of calls, in nanoseconds. Half of what recording a call costs is within it: so many seconds more than was taken off. How
    /// many others are within is only known of their mean.
    fn percentiles(&self, excess: f64) -> [Option<f64>; 3] {
        let found = self.durations.percentiles([0.5, 0.9, 0.99]);
        found.map(|one| one.map(|one| f64::max(one - excess * 1e9, 0.0)))
    }

    /// Of the time of a call, which takes so many seconds.
    fn deviation(&self, per_call: f64) -> f64 {
        let spread = self.time_time - 2.0 * per_call * self.calls_time
            + per_call * per_call * self.calls_calls;
        deviation(spread, self.calls, self.seen)
    }

    /// What they say. Recording slows the program down as `slowed` says, and usually costs so many seconds a call.
    pub(super) fn row(
        &self,
        function: u32,
        all: &Windows,
        (slowed, recording): (Slowed, Recording),
        usual: f64,
    ) -> Row {
        let Windows { count, weights, squares } = self.lots.of(all);
        let is_known = self.seen >= FEWEST;
        // What calls take that haven't ended isn't in any sum.
        let is_timed = is_known && self.open.saturating_mul(UNFINISHED) <= self.ended;
        // As many windows would say as much, if they all had the same weight and the same in them.
        let effective = |sum: f64, square: f64| {
            (sum * sum / square.max(f64::MIN_POSITIVE)).min(weights * weights / squares)
        };
        let rest = |sum: f64, square: f64, product: f64| {
            let mean = sum / weights;
            let rest = square - 2.0 * mean * product + mean * mean * squares;
            bound(effective(sum, square)) * deviation(rest, weights, count.unsigned_abs())
        };
        // Recording within calls was taken for what it usually costs.
        let cost = slowed.cost(recording);
        let within = self.recording / self.ended_calls.max(f64::MIN_POSITIVE);
        let time = (self.time - (cost.part - 1.0) * self.recording).clamp(0.0, f64::MAX);
        let per_call = if self.ended_calls > 0.0 { time / self.ended_calls } else { 0.0 };
        let mean_error = bound(effective(self.time, self.time_time)) * self.deviation(per_call);
        // What the correction for recording may be wrong by.
        let (more, more_error) = slowed.more(recording);
        let unsure = more_error / more;
        let stretch = recording.stretch(more);
        let unsure_time = cost.part * cost.unsure * within.max(usual / 2.0);
        let unsure_part = if per_call > 0.0 { unsure + unsure_time / per_call } else { unsure };
        let estimate = |value: f64, error: f64, unsure: f64, is_known: bool| Estimate {
            value,
            error: is_known.then(|| error.hypot(value * unsure)),
        };
        Row {
            function,
            calls: self.calls(),
            windows: self.seen,
            per_second: estimate(
                self.calls / weights * more,
                stretch * rest(self.calls, self.calls_calls, self.calls_weight),
                unsure,
                is_known,
            ),
            mean: Estimate {
                value: per_call * 1e9,
                error: is_timed.then(|| mean_error.hypot(unsure_time) * 1e9),
            },
            share: estimate(
                time / weights * more,
                stretch * rest(self.time, self.time_time, self.time_weight),
                unsure_part,
                is_timed,
            ),
            own: None,
            percentiles: self.percentiles((cost.part - 1.0) * usual / 2.0),
        }
    }
}

/// What Student's t doesn't pass, of so many windows. It's the same for each function with as many, and takes some microseconds to find.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it's between 1 and 200"
)]
pub(super) fn bound(windows: f64) -> f64 {
    const MOST: usize = 200;
    static KNOWN: [OnceLock<f64>; MOST + 1] = [const { OnceLock::new() }; MOST + 1];
    let freedom = (windows - 1.0).clamp(1.0, 200.0) as usize;
    let find = || limit(ODDS, freedom);
    KNOWN.get(freedom).map_or_else(find, |known| *known.get_or_init(find))
}
