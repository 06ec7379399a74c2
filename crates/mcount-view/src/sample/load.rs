//! How much of what recording costs is made up for by time in which the program would have waited.
//!
//! While hooks are armed, a thread that never waits makes fewer calls in a second. One that waits for its next request has as
//! many, and waits less. The program's processor time tells these apart: in windows it's as much as outside, or more by what
//! recording costs.

use super::deviation;

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

/// How much recording slows the program down, as a part of what it would if the program never waited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Slowed {
    pub(super) part: f64,
    /// How far that may be wrong.
    pub(super) error: f64,
}

/// What the program used in windows.
#[derive(Debug, Default)]
pub(super) struct Loads {
    newest: Option<(Load, f64)>,
    count: u64,
    weights: f64,
    used: f64,
    recording: f64,
    /// Sums of squares, of processor time that isn't recording: weights, and products.
    squares: [f64; 3],
}

impl Loads {
    /// A window that counts for `weight`.
    pub(super) fn begin(&mut self, load: Load, weight: f64) {
        self.newest = Some((load, weight));
    }

    /// Recording took so many seconds of each second in it.
    pub(super) fn end(&mut self, recording: f64) {
        let Some((load, weight)) = self.newest.take().filter(|(load, _)| load.elapsed > 0.0) else {
            return;
        };
        let used = load.rate();
        self.count += 1;
        self.weights += weight;
        self.used += weight * used;
        self.recording += weight * recording;
        let product = weight * used;
        let squares = [weight * weight, weight * product, product * product];
        self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
    }

    /// As compared with what it used outside.
    pub(super) fn slowed(&self, outside: Load) -> Slowed {
        if self.count < 2 || self.weights <= 0.0 || outside.elapsed <= 0.0 {
            return Slowed { part: 0.5, error: 0.5 };
        }
        let (used, recording) = (self.used / self.weights, self.recording / self.weights);
        let [weights, product, square] = self.squares;
        let sum = square - 2.0 * used * product + used * used * weights;
        let error = 2.0 * deviation(sum, self.weights, self.count);
        let part =
            |used: f64| (1.0 - (used - outside.rate()) / recording.max(1e-12)).clamp(0.0, 1.0);
        let (low, high) = (part(used + error), part(used - error));
        Slowed { part: f64::midpoint(low, high), error: (high - low) / 2.0 }
    }
}
