//! What recording a call costs in this program, found by experiment: in one window of four, only some functions are armed, drawn by lot.
//!
//! What the program does in a second of its processor time is the same in both kinds of windows, but for what recording takes of that second. So
//! a function that's armed in both has more calls in a second of processor time where fewer others are armed. By how many more says what
//! a recorded call costs, whatever the program waits for, and however cold its caches are in a window:
//!
//! > *a* (1 − *o K*) = *b* (1 − *o L*)
//!
//! *a* and *b* are the calls of a function in a second where fewer and where all are armed, *L* and *K* those of all armed functions, and
//! *o* is what one costs. The sum over all functions is solved for *o*. How sure that is comes from leaving out a tenth of the windows at a time (the
//! jackknife: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 11).

use foldhash::HashMap;

/// Parts of all windows, of which one is left out at a time.
const BLOCKS: usize = 10;
/// What the cost is likely to be before anything is known, in parts of what it's taken for, and the standard deviation: in windows, little
/// of what recording needs is in the caches. It was 1.7 to 2.8 in redis, 3.9 to 4.9 in nginx, and 5.6 to 6.4 there with jumps in pages of their own.
const LIKELY: [f64; 2] = [4.0, 2.0];
/// That deviation at least, however much is recorded.
const LEAST_UNSURE: f64 = 0.6;
/// What it may be found to be at least and at most, as parts of what it's taken for.
const LIMITS: [f64; 2] = [0.3, 8.0];
/// Which part of all recorded calls has to be missing where fewer functions are armed, so that it tells something. Nothing is if there's only one
/// function.
const FEWER: f64 = 0.05;
/// Of threads that are recorded for this part of their time, at its usual cost, recording finds about half of what it needs in the caches.
const WARM: f64 = 0.05;
/// How far the usual cost may be wrong then, at 95 %, as a part of it. In lua, four of the busiest functions had 0.8 to 1.5 of it.
const UNSURE: f64 = 0.4;
/// By how much ten parts make the deviation look too small (Student's t, 9 degrees of freedom).
const FEW: f64 = 1.15;

/// Sums over windows, in seconds of processor time, and calls.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    used: f64,
    /// Calls of all armed functions.
    all: f64,
    /// Calls of the function itself.
    own: f64,
}

impl Sum {
    fn minus(self, other: Self) -> Self {
        let Self { used, all, own } = self;
        Self { used: used - other.used, all: all - other.all, own: own - other.own }
    }

    fn add(&mut self, window: &Measured) {
        self.used += window.weight * window.used;
        self.all += window.weight * window.calls;
    }
}

/// By the parts of all windows; the last one is their sum.
type Sums = [Sum; BLOCKS + 1];

/// What a window has measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) weight: f64,
    /// Processor time in each of its seconds, and calls of armed functions.
    pub(super) used: f64,
    pub(super) calls: f64,
    /// Seconds.
    pub(super) elapsed: f64,
    /// Only some functions were armed.
    pub(super) is_thinned: bool,
}

/// What recording costs, as a part of what it's taken for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) part: f64,
    /// How far that may be wrong, at 95 %, as a part of it.
    pub(super) unsure: f64,
    /// The part of their time that threads were recorded for when it was found, at its usual cost; 0 if it wasn't.
    pub(super) found_at: f64,
}

/// How much of what recording needs isn't in the caches of threads that are recorded for this part of their time.
fn cold(recording: f64) -> f64 {
    1.0 / (1.0 + (recording / WARM).powi(2))
}

impl Cost {
    /// What it is if threads are recorded for this part of their time, at its usual cost. The more that is, the more of what recording needs
    /// is in the caches, as in the loop that the usual cost is of.
    pub(super) fn of(self, recording: f64) -> Self {
        let colder = (cold(recording) / cold(self.found_at)).min(1.0);
        let part = 1.0 + (self.part - 1.0) * colder;
        let error = (self.part * self.unsure * colder).hypot(UNSURE * (1.0 - colder));
        Self { part, unsure: error / part, found_at: self.found_at }
    }
}

/// What is known of what recording costs.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// Windows in which all are armed, and others.
    windows: [usize; 2],
    /// By function, those windows in which it's armed: with all others, and with only some of them.
    functions: HashMap<u32, [Sums; 2]>,
}

impl Calibration {
    /// A window in which `armed` were, all functions of its group or only some, but for those that weren't by lot. `calls` has those that
    /// were called, and how often.
    pub(super) fn add(
        &mut self,
        window: &Measured,
        armed: impl Iterator<Item = u32>,
        calls: impl Fn(u32) -> u64,
    ) {
        // Each part has as many windows of either kind.
        let kind = usize::from(window.is_thinned);
        let Some(count) = self.windows.get_mut(kind) else { return };
        let blocks = [*count % BLOCKS, BLOCKS];
        *count += 1;
        for function in armed {
            let own = window.weight * super::to_float(calls(function)) / window.elapsed;
            let sums = self.functions.entry(function).or_default().get_mut(kind);
            for (block, sum) in sums.into_iter().flatten().enumerate() {
                if blocks.contains(&block) {
                    sum.add(window);
                    sum.own += own;
                }
            }
        }
    }

    /// What has been seen so far counts half as much as what comes: a program may change.
    pub(super) fn age(&mut self) {
        for sum in self.functions.values_mut().flatten().flatten() {
            *sum = Sum { used: sum.used / 2.0, all: sum.all / 2.0, own: sum.own / 2.0 };
        }
    }

    /// What recording costs, which is taken for `usual` seconds.
    pub(super) fn cost(&self, usual: f64) -> Cost {
        let [mut part, mut deviation] = LIKELY;
        let whole = self.solve(None);
        let found_at = whole.map_or(0.0, |(_, calls)| calls * usual);
        deviation = deviation.max(LEAST_UNSURE);
        let mut variance = deviation * deviation;
        let found = whole.zip((0..BLOCKS).map(|block| self.solve(Some(block))).collect());
        if let Some(((found, _), parts)) = found.filter(|_| usual > 0.0) {
            let parts: Vec<(f64, f64)> = parts;
            let parts = parts.into_iter().map(|(found, _)| found).collect();
            let parts: Vec<f64> = parts;
            let count = super::to_float(BLOCKS as u64);
            let mean = parts.iter().sum::<f64>() / count;
            let squares: f64 = parts.iter().map(|one| (one - mean).powi(2)).sum();
            let own = (squares * (count - 1.0) / count * FEW * FEW) / (usual * usual);
            // Each is as sure as its variance says.
            let [ours, theirs] = [1.0 / own.max(1e-9), 1.0 / variance];
            part = (ours * found / usual + theirs * part) / (ours + theirs);
            variance = 1.0 / (ours + theirs);
        }
        let [least, most] = LIMITS;
        let part = part.clamp(least, most);
        Cost { part, unsure: 2.0 * variance.sqrt() / part, found_at }
    }

    /// What a call costs, in seconds, without the windows of one part, and how many are recorded in a second of processor time. `None` if
    /// windows don't tell.
    fn solve(&self, without: Option<usize>) -> Option<(f64, f64)> {
        let rest = |sums: &Sums| {
            let all = sums.last().copied().unwrap_or_default();
            all.minus(without.and_then(|at| sums.get(at)).copied().unwrap_or_default())
        };
        let (mut more, mut fewer, mut all_recorded) = (0.0, 0.0, 0.0);
        // How much is recorded counts as far as it tells something.
        let (mut all, mut levels) = (0.0, 0.0);
        for sums in self.functions.values() {
            let [whole, thin] = sums.each_ref().map(rest);
            if whole.used <= 0.0 || thin.used <= 0.0 {
                continue;
            }
            let (here, there) = (thin.own / thin.used, whole.own / whole.used);
            more += here - there;
            all_recorded += here * whole.all / whole.used;
            let left_out = here * whole.all / whole.used - there * thin.all / thin.used;
            fewer += left_out;
            if left_out > 0.0 {
                all += left_out;
                levels += left_out * whole.all / whole.used;
            }
        }
        (fewer > FEWER * all_recorded).then(|| (more / fewer, levels / all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of a program that calls each of some functions as often, where recording a call takes so many seconds. A third of
    /// the functions have lots after half of the windows.
    fn windows(functions: u32, cost: f64) -> Calibration {
        let mut calibration = Calibration::default();
        for at in 0..400_u32 {
            let is_thinned = at % 4 == 0;
            let is_out = |one: u32| at >= 200 && one % 3 == 1 && at % 5 != 0;
            let is_in =
                |one: &u32| (!is_thinned || (at / 4 + one).is_multiple_of(2)) && !is_out(*one);
            let armed: Vec<u32> = (0..functions).filter(is_in).collect();
            // Each second of processor time has so many rounds, each of which calls all functions once.
            let count = super::super::to_float(armed.len() as u64);
            let rounds = 1.0 / (1e-6 + cost * count);
            let calls = 1e-3 * rounds;
            let measured = Measured {
                weight: 1.0,
                used: 0.5,
                calls: 0.5 * rounds * count,
                elapsed: 2e-3,
                is_thinned,
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it's small"
            )]
            let calls = |_| calls.round() as u64;
            calibration.add(&measured, armed.into_iter(), calls);
        }
        calibration
    }

    #[test]
    fn the_cost_is_found_whatever_it_is_taken_for() {
        for cost in [20e-9, 50e-9, 120e-9] {
            let found = windows(10, cost).cost(40e-9);
            assert!((found.part * 40e-9 / cost - 1.0).abs() < 0.05, "{cost}: {found:?}");
            assert!(found.unsure < 0.3, "{found:?}");
        }
    }

    #[test]
    fn it_costs_less_where_more_is_recorded() {
        let cost = Cost { part: 4.0, unsure: 0.5, found_at: 0.0 };
        assert!(cost.of(0.0) == cost && (2.4..2.6).contains(&cost.of(WARM).part));
        assert!((1.0..1.1).contains(&cost.of(0.4).part) && cost.of(0.4).unsure > 0.35);
        // It was found where as much was recorded.
        let found = Cost { found_at: 0.4, ..cost };
        assert_eq!([found.of(0.4), found.of(0.1)], [found; 2]);
    }

    /// With one function, all that's recorded is missing or nothing.
    #[test]
    fn one_function_tells_nothing() {
        let found = windows(1, 50e-9).cost(40e-9);
        let [likely, deviation] = LIKELY;
        assert_eq!(found, Cost { part: likely, unsure: 2.0 * deviation / likely, found_at: 0.0 });
        assert_eq!(Calibration::default().cost(40e-9), found);
        assert_eq!(windows(10, 50e-9).cost(0.0), found);
    }
}
