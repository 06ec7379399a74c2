//! Numbers for programs that are made up.

use super::to_float;

/// The same numbers for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// `SplitMix64`.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Above 0, below 1.
    pub(super) fn part(&mut self) -> f64 {
        (to_float(self.next() >> 12) + 0.5) / to_float(1 << 52)
    }

    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.part().ln()
    }

    /// Its logarithm is distributed normally, with this deviation.
    pub(super) fn log_normal(&mut self, median: f64, deviation: f64) -> f64 {
        let (one, other) = (self.part(), self.part());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        median * (deviation * normal).exp()
    }
}

/// So many coins for each function: are all of them heads?
pub(super) fn are_heads(seed: u64, coins: u32, function: u32) -> bool {
    Random(seed ^ u64::from(function) << 32).next().trailing_zeros() >= coins
}
