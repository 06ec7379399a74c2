//! How much of what recording costs is made up for by time in which the program would have waited.
//!
//! While hooks are armed, a thread that never waits makes fewer calls in a second. So does one whose requests come from a client that
//! waits for each answer. One whose requests come whenever they like has as many, and waits less. What a call costs without being
//! recorded is the same in windows and outside, in processor time of the program. So that tells how many calls in a second there are
//! outside, whichever of them it is: as many times more as there is processor time for, without recording.

use super::calibration::Cost;
use super::deviation;
use super::slowdown::{Normal, Told};

/// What a program used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Seconds of processor time, all threads together.
    pub used: f64,
    /// Seconds.
    pub elapsed: f64,
}

impl Load {
    fn rate(self) -> f64 {
        if self.elapsed > 0.0 { self.used / self.elapsed } else { 0.0 }
    }
}

/// The part of their threads' time that recording took when calls were made, at its usual cost, over these calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recording {
    pub(super) mean: f64,
    pub(super) variance: f64,
    /// What witnesses tell of what it costs, as a part of its usual cost.
    pub(super) told: Option<Told>,
}

impl Recording {
    /// How many more calls there would be, for each, if it took so many times as much. Where it takes more, there are more calls for each that was
    /// made, by more than in proportion (Taylor's theorem, to the second order).
    fn more(self, times: f64) -> f64 {
        let mean = (self.mean * times).min(BUSIEST);
        let curve = self.variance * times * times / (1.0 - mean).powi(3);
        more(mean) + curve.min(more(mean))
    }

    /// How many times as much calls differ, if there are `more` times as many as were seen. In a window with more calls recording takes more, so
    /// each stands for more others (the derivative of x / (1 - x)).
    pub(super) fn stretch(self, more: f64) -> f64 {
        if self.told.is_some() { more * more } else { more }
    }
}

/// The part of a thread's time that recording can have taken at most.
const BUSIEST: f64 = 0.98;

/// How much recording slows the program down: as a part of what it would if all threads had less time for the rest by as much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowed {
    /// As it is, and at least, and at most.
    parts: [f64; 3],
    cost: Cost,
    /// The part of its time that a thread had a processor, at most. Caches are as cold as recording is seldom in that part.
    runs: f64,
}

impl Slowed {
    /// How many times the calls there would be of those that threads made that were recorded for this part of their time, and how far that may be wrong.
    pub(super) fn more(&self, recording: Recording) -> (f64, f64) {
        let cost = self.cost.of(recording.mean / self.runs);
        let [least, most] = [(1.0 - cost.unsure).max(0.0), 1.0 + cost.unsure];
        let [slowed, slowed_least, slowed_most] = self.parts;
        let more = |part: f64, times: f64| 1.0 + part * recording.more(cost.part * times);
        let (more, least, most) =
            (more(slowed, 1.0), more(slowed_least, least), more(slowed_most, most));
        let unsure = (more - least).max(most - more);
        let Some(told) = recording.told else { return (more, unsure) };
        let (more, of_told) = Self::told(recording, told.after(self.likely(cost)));
        // If something slows the program down before the window as well, such as the work of this process a moment ago, witnesses can't tell. Where much
        // is recorded, that's little by comparison.
        (more, if told.is_busy { of_told } else { of_told.max(unsure) })
    }

    /// As `part` says of the cost.
    fn told(recording: Recording, part: Normal) -> (f64, f64) {
        let sure = 2.0 * part.variance.sqrt();
        let more = |part: f64| 1.0 + recording.more(part.max(0.0));
        let [least, known, most] = [part.mean - sure, part.mean, part.mean + sure].map(more);
        (known, (known - least).max(most - known))
    }

    /// What recording costs, as a part of its usual cost, as far as the program doesn't make up for it.
    fn likely(&self, cost: Cost) -> Normal {
        let [slowed, least, most] = self.parts;
        let (of_cost, of_load) = (slowed * cost.unsure / 2.0, (most - least) / 4.0);
        let deviation = cost.part * of_cost.hypot(of_load).max(0.1);
        Normal { mean: slowed * cost.part, variance: deviation * deviation }
    }

    /// What recording costs in such threads.
    pub(super) fn cost(&self, recording: Recording) -> Cost {
        let cost = self.cost.of(recording.mean / self.runs);
        // It isn't less than what the program doesn't make up for.
        let told = recording.told.map(|told| told.after(self.likely(cost)));
        match told.filter(|told| told.mean > cost.part) {
            Some(told) => {
                let unsure = 2.0 * told.variance.sqrt() / told.mean;
                Cost { part: told.mean, unsure, ..cost }
            }
            None => cost,
        }
    }
}

/// What the program used in windows.
#[derive(Debug, Default)]
pub(super) struct Loads {
    newest: Option<(Load, f64)>,
    count: u64,
    weights: f64,
    used: f64,
    /// Of each second, what recording took of it, and what it took of the time of the threads that were recorded, on average over what it took.
    recording: f64,
    of_threads: f64,
    /// Processor time in each second, on average over what recording took, times that.
    runs: f64,
    /// Sums of squares, of processor time: weights, and products.
    squares: [f64; 3],
}

impl Loads {
    /// A window that counts for `weight`.
    pub(super) fn begin(&mut self, load: Load, weight: f64) {
        self.newest = Some((load, weight));
    }

    /// Recording took these parts of the time of threads in it.
    pub(super) fn end(&mut self, threads: impl IntoIterator<Item = f64>) {
        let Some((load, weight)) = self.newest.take().filter(|(load, _)| load.elapsed > 0.0) else {
            return;
        };
        let used = load.rate();
        self.count += 1;
        self.weights += weight;
        self.used += weight * used;
        let (mut all, mut squares) = (0.0, 0.0);
        for recording in threads {
            all += recording;
            squares += recording * recording;
        }
        self.recording += weight * all;
        self.runs += weight * all * used;
        self.of_threads += weight * squares / all.max(f64::MIN_POSITIVE);
        let product = weight * used;
        let squares = [weight * weight, weight * product, product * product];
        self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
    }

    /// As compared with what it used outside.
    pub(super) fn slowed(&self, outside: Load, cost: Cost) -> Slowed {
        if self.count < 2 || self.weights <= 0.0 || outside.elapsed <= 0.0 {
            return Slowed { parts: [0.5, 0.0, 1.0], cost, runs: 1.0 };
        }
        let (used, recording) = (self.used / self.weights, self.recording / self.weights);
        let runs = (self.runs / self.recording.max(f64::MIN_POSITIVE)).clamp(1e-3, 1.0);
        let of_threads = self.of_threads / self.weights;
        let [weights, product, square] = self.squares;
        let sum = square - 2.0 * used * product + used * used * weights;
        let error = 2.0 * deviation(sum, self.weights, self.count);
        let Cost { part, unsure, .. } = cost.of(of_threads / runs);
        let slowed = |used: f64, times: f64| {
            let rest = (used - recording * part * times).max(f64::MIN_POSITIVE);
            let most = more(of_threads * part * times).max(1e-12);
            ((outside.rate() / rest - 1.0) / most).clamp(0.0, 1.0)
        };
        let least = slowed(used + error, (1.0 - unsure).max(0.0));
        let most = slowed(used - error, 1.0 + unsure);
        Slowed { parts: [slowed(used, 1.0), least, most], cost, runs }
    }
}

/// How many more calls, for each, a thread would make that is recorded for this part of its time.
fn more(recording: f64) -> f64 {
    let recording = recording.min(BUSIEST);
    recording / (1.0 - recording)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_waits_for_processors_leaves_its_caches_as_they_are() {
        let cost = Cost { part: 4.0, unsure: 0.5, found_at: 0.0 };
        let found = [1.0, 0.25].map(|part| {
            let mut loads = Loads::default();
            for _ in 0..20 {
                loads.begin(Load { used: part, elapsed: 1.0 }, 1.0);
                loads.end([0.1 * part]);
            }
            let slowed = loads.slowed(Load { used: part, elapsed: 1.0 }, cost);
            slowed.cost(Recording { mean: 0.1 * part, ..Recording::default() }).part
        });
        let [alone, among_others] = found.map(|part| part - cost.of(0.1).part);
        assert!(alone.abs() < 1e-9 && among_others.abs() < 1e-9, "{found:?}");
    }
}
