//! What was measured, as plain data: times, memory, verdicts.

use serde::{Deserialize, Serialize};

/// A program that has taken this long, in seconds, after so many runs, runs no more.
const ENOUGH: &[(usize, f64)] = &[(3, 120.0), (10, 15.0)];

/// What one program of a row did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) label: String,
    pub(crate) command: String,
    /// Seconds from start to end, ascending.
    pub(crate) wall: Vec<f64>,
    /// Seconds of processor time, all threads and the kernel included, ascending.
    pub(crate) cpu: Vec<f64>,
    /// Peak memory in KiB.
    pub(crate) memory: Option<u64>,
    /// Entries that it recorded, or lines that it printed.
    pub(crate) result: Option<u64>,
}

/// A goal, and how far it was reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) text: String,
    pub(crate) measured: String,
    pub(crate) is_reached: bool,
}

/// A row that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) title: String,
    pub(crate) input: String,
    pub(crate) samples: Vec<Sample>,
    pub(crate) verdicts: Vec<Verdict>,
    /// What the floor does, and that it was the last sample.
    pub(crate) floor: Option<String>,
}

/// The value that the part `share` of ascending `values` is below.
pub(crate) fn quantile(values: &[f64], share: (usize, usize)) -> f64 {
    let last = values.len().saturating_sub(1);
    let (at, rest) = (last * share.0 / share.1, last * share.0 % share.1);
    let value = |at: usize| values.get(at).or(values.last()).copied().unwrap_or(f64::NAN);
    let weight = f64::from(u32::try_from(rest).unwrap_or(0))
        / f64::from(u32::try_from(share.1).unwrap_or(1));
    value(at) + (value(at + 1) - value(at)) * weight
}

impl Sample {
    pub(crate) fn median(&self) -> f64 {
        quantile(&self.wall, (1, 2))
    }

    pub(crate) fn median_cpu(&self) -> f64 {
        quantile(&self.cpu, (1, 2))
    }

    /// Whether `runs` runs are done, or it has taken long enough.
    pub(crate) fn is_enough(&self, runs: usize) -> bool {
        let spent: f64 = self.wall.iter().sum();
        let done = self.wall.len();
        done >= runs || ENOUGH.iter().any(|(least, time)| done >= *least && spent > *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let values = [1.0, 2.0, 3.0, 4.0];
        for (share, expected) in [((0, 4), 1.0), ((1, 4), 1.75), ((1, 2), 2.5), ((1, 1), 4.0)] {
            assert!((quantile(&values, share) - expected).abs() < 1e-9, "{share:?}");
        }
        assert!(quantile(&[], (1, 2)).is_nan());
    }
}
