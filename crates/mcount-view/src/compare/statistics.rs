//! Noise: the numbers of several traces of one side, as logarithms, and a bound that chance does not
//! pass.
//!
//! The bound is that of Student's t-test, with two additions. Many functions are compared, so each gets its
//! part of the odds (Bonferroni): a quarter of them is divided equally, and the rest by the time that functions
//! take in both sides together (Genovese, Roeder and Wasserman 2006, "False discovery control with p-value
//! weighting"). And a spread of a few traces can be small by luck, so it is averaged with that of functions
//! like it if there are several, as for gene expression (Smyth 2004, "Linear models and empirical Bayes
//! methods").

/// The odds that any difference is found between equal programs.
const ODDS: f64 = 0.01;

/// How many numbers a side needs to lose one.
const LEAST_TRIMMED: usize = 4;

/// Samples that lost their greatest numbers pass the bound of Student's t-test more often than they should, so it has to be wider:
/// by this over how many numbers there were. A simulation of ten million samples each, of 4 to 10 numbers, at odds of 1e-2 to 1e-5,
/// asks for 1.27 (of 4) to 1.11 (of 10) times the bound if numbers are distributed normally; one of four million samples, of 4 to
/// 8 numbers, at odds of 1e-4, for 1.65 (of 4) to 1.36 (of 8) times if they're distributed uniformly.
const WIDER: f64 = 3.0;

/// How many traces the spread of the other functions counts for.
const USUAL_WEIGHT: usize = 4;

/// The odds of one of `tests`.
pub(super) fn equal_odds(tests: usize) -> f64 {
    ODDS / count(tests)
}

/// What part of the odds is shared by time.
const BY_TIME: f64 = 0.75;

/// The odds of one of `tests` that has this share of the time of all.
pub(super) fn weighted_odds(tests: usize, share: f64) -> f64 {
    (1.0 - BY_TIME) * equal_odds(tests) + BY_TIME * ODDS * share
}

/// Numbers of the traces of both sides.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Natural logarithms, one a trace.
    pub(super) old: Vec<f64>,
    /// The same.
    pub(super) new: Vec<f64>,
}

impl Sample {
    /// How many numbers can vary freely.
    fn freedom(&self) -> usize {
        self.old.len().saturating_sub(1) + self.new.len().saturating_sub(1)
    }

    /// The variance within the sides; `None` if no side has two numbers.
    pub(super) fn variance(&self) -> Option<f64> {
        let freedom = self.freedom();
        (freedom > 0).then(|| (squares(&self.old) + squares(&self.new)) / count(freedom))
    }

    /// From the mean of the one side to that of the other.
    pub(super) fn difference(&self) -> f64 {
        mean(&self.new) - mean(&self.old)
    }

    /// Whether every number of one side is greater than all of the other.
    pub(super) fn is_apart(&self) -> bool {
        let least = |side: &[f64]| side.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = |side: &[f64]| side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        least(&self.new) > greatest(&self.old) || least(&self.old) > greatest(&self.new)
    }

    /// Without the greatest number of each side, and how many times as wide the bound has to be. Of sides with fewer than 4, too
    /// little remains.
    pub(super) fn trimmed(&self) -> Option<(Self, f64)> {
        let fewest = self.old.len().min(self.new.len());
        let without = |side: &[f64]| {
            let mut side = side.to_vec();
            side.sort_by(f64::total_cmp);
            side.pop();
            side
        };
        let trimmed = Self { old: without(&self.old), new: without(&self.new) };
        (fewest >= LEAST_TRIMMED).then(|| (trimmed, 1.0 + WIDER / count(fewest)))
    }

    /// The difference that chance passes with these odds. `usual` is the variance that other
    /// samples have, if that's known, and `floor` the least that there can be.
    pub(super) fn noise(&self, odds: f64, usual: Option<f64>, floor: f64) -> f64 {
        let own = self.variance().map(|variance| variance.max(floor));
        let (variance, freedom) = match (own, usual) {
            (Some(own), Some(usual)) => {
                let (weight, freedom) = (count(USUAL_WEIGHT), count(self.freedom()));
                let mean = (own * freedom + usual.max(floor) * weight) / (freedom + weight);
                (mean, self.freedom() + USUAL_WEIGHT)
            }
            (Some(own), None) => (own, self.freedom()),
            (None, usual) => (usual.unwrap_or(0.0).max(floor), GUESSED),
        };
        self.bound(odds, variance, freedom)
    }

    /// The same, if the deviation is the one that's usual or that of this sample, whichever is greater. The spread of two or three
    /// traces says so little by itself that even five times as much would be within its bound.
    pub(super) fn guessed_noise(&self, odds: f64, deviation: f64) -> f64 {
        let variance = self.variance().unwrap_or(0.0).max(deviation.powi(2));
        self.bound(odds, variance, GUESSED)
    }

    fn bound(&self, odds: f64, variance: f64, freedom: usize) -> f64 {
        let per_trace = 1.0 / count(self.old.len()) + 1.0 / count(self.new.len());
        limit(odds, freedom) * (variance * per_trace).sqrt()
    }
}

/// How many numbers a spread is taken to come from that was guessed of many functions.
const GUESSED: usize = 12;

#[expect(clippy::cast_precision_loss, reason = "a number of traces or functions")]
fn count(number: usize) -> f64 {
    number.max(1) as f64
}

/// The sum of squares of what numbers differ by from their mean.
fn squares(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    numbers.iter().map(|number| (number - mean).powi(2)).sum()
}

/// The mean; 0 of none.
pub(super) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / count(numbers.len())
}

/// The number in the middle; 0 of none.
pub(super) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.get(half), half.checked_sub(1).and_then(|at| sorted.get(at))) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => {
            f64::midpoint(*lower, *upper)
        }
        (Some(middle), _) => *middle,
        _ => 0.0,
    }
}

/// What Student's t passes, up or down, with these odds.
pub(crate) fn limit(odds: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if odds_beyond(middle, freedom) > odds { low = middle } else { high = middle }
    }
    high
}

/// The odds that Student's t is farther from 0 than this. Of an odd number of degrees of freedom, one is
/// left out: the sum is finite only for even ones (Abramowitz and Stegun, 26.7.4).
fn odds_beyond(t: f64, freedom: usize) -> f64 {
    let even = (freedom / 2 * 2).max(2);
    let angle = (t / count(even).sqrt()).atan();
    let cosine = angle.cos().powi(2);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in (2..even).step_by(2) {
        term *= cosine * count(k - 1) / count(k);
        sum += term;
    }
    1.0 - angle.sin() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From printed tables of Student's distribution.
    #[test]
    fn limits_of_tables() {
        let rows = [(0.05, 2, 4.303), (0.05, 8, 2.306), (0.01, 12, 3.055), (0.001, 8, 5.041)];
        for (odds, freedom, expected) in rows {
            let found = limit(odds, freedom);
            assert!((found - expected).abs() < 0.001, "{odds} {freedom}: {found}");
        }
        assert!((limit(0.05, 9) - limit(0.05, 8)).abs() < 1e-9);
    }

    /// However time is shared, all odds together are those of any difference.
    #[test]
    fn odds_add_up() {
        for shares in [vec![1.0], vec![0.25; 4], vec![0.9, 0.1, 0.0, 0.0, 0.0]] {
            let sum: f64 = shares.iter().map(|share| weighted_odds(shares.len(), *share)).sum();
            assert!((sum - ODDS).abs() < 1e-12, "{shares:?}: {sum}");
        }
        assert!(weighted_odds(300, 0.3) > 10.0 * equal_odds(300));
    }

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }

    #[test]
    fn noise_grows_with_the_spread_and_the_number_of_functions() {
        let sample = |spread: f64| Sample {
            old: vec![0.0, spread, -spread, spread, -spread],
            new: vec![0.05, 0.05 + spread, 0.05 - spread, 0.05 + spread, 0.05 - spread],
        };
        let noise = |spread, tests| sample(spread).noise(equal_odds(tests), None, 0.0);
        assert!(noise(0.002, 100) < 0.05);
        assert!(noise(0.03, 100) > 0.05);
        assert!(noise(0.01, 1_000) > noise(0.01, 10));
        assert!(sample(0.02).is_apart() && !sample(0.03).is_apart());
    }
}
