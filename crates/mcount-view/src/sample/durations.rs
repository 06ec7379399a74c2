//! How long calls take, as a histogram in which each call counts for its weight: what part of all calls is no longer than this.
//!
//! Sixteen steps to each power of two: a percentile is at most 3 % off. Only steps that have calls take room.

use std::collections::BTreeMap;

/// As a power of two: so many steps to each power of two.
const STEPS: u32 = 4;

/// Weights by duration.
#[derive(Debug, Default)]
pub(super) struct Durations(BTreeMap<u16, f64>);

impl Durations {
    /// Calls of a step.
    pub(super) fn add(&mut self, step: u16, weight: f64) {
        *self.0.entry(step).or_default() += weight;
    }

    /// What these parts of all calls don't exceed, in nanoseconds, the smallest part first. `None` if there are no calls.
    pub(super) fn percentiles<const N: usize>(&self, parts: [f64; N]) -> [Option<f64>; N] {
        let all: f64 = self.0.values().sum();
        let mut steps = self.0.iter();
        let (mut sum, mut step) = (0.0, None);
        parts.map(|part| {
            while sum < part * all
                && let Some((next, weight)) = steps.next()
            {
                sum += weight;
                step = Some(*next);
            }
            step.map(middle_of)
        })
    }
}

/// The step that has this duration, in nanoseconds. Below 32 each has its own.
pub(super) fn step_of(nanoseconds: u64) -> u16 {
    let power = nanoseconds.max(1).ilog2();
    let shift = power.saturating_sub(STEPS);
    u16::try_from((u64::from(shift) << STEPS) + (nanoseconds >> shift)).unwrap_or(u16::MAX)
}

/// The middle of the durations of a step.
fn middle_of(step: u16) -> f64 {
    let steps = 1 << STEPS;
    let shift = (step >> STEPS).saturating_sub(1);
    let first = f64::from(step - shift * steps);
    let size = f64::from(shift).exp2();
    first * size + (size - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_what_is_near_their_middle() {
        let powers = (0..64).map(|power| 1_u64 << power);
        let around = powers.flat_map(|one| [one - 1, one, one + 1, one + one / 3, one + (one - 1)]);
        for nanoseconds in around.chain(0..100_000).chain([u64::MAX]) {
            let middle = middle_of(step_of(nanoseconds));
            #[expect(clippy::cast_precision_loss, reason = "it's compared roughly")]
            let off = (middle - nanoseconds as f64).abs();
            #[expect(clippy::cast_precision_loss, reason = "it's compared roughly")]
            let most = nanoseconds as f64 / 32.0;
            assert!(off <= most, "{nanoseconds}: {middle}");
        }
        let steps = (0..100_000).map(step_of);
        assert!(steps.clone().zip(steps.skip(1)).all(|(one, next)| next == one || next == one + 1));
    }

    #[test]
    fn percentiles_are_of_the_weights() {
        let mut durations = Durations::default();
        assert_eq!(durations.percentiles([0.5]), [None]);
        durations.add(step_of(10), 1.0);
        durations.add(step_of(20), 97.0);
        durations.add(step_of(30), 2.0);
        let found = durations.percentiles([0.01, 0.011, 0.5, 0.98, 0.99, 1.0]);
        assert_eq!(found, [10.0, 20.0, 20.0, 20.0, 30.0, 30.0].map(Some));
    }
}
