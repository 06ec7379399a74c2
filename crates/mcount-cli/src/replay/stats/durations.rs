//! Durations of the calls of one row, for their percentiles: a few as they are, many as a histogram.

use hdrhistogram::Histogram;

/// So many are kept as they are: a histogram takes more room than those of a function that is rarely called.
const FEW: usize = 64;

/// Significant digits that a histogram keeps: durations are at most 1 % off.
const DIGITS: u8 = 2;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(super) enum Durations {
    Few(Vec<u64>),
    Many(Box<Histogram<u32>>),
}

impl Default for Durations {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Durations {
    #[inline]
    pub(super) fn add(&mut self, duration: u64) {
        match self {
            // It grows as it needs to, so this can't fail.
            Self::Many(histogram) => {
                let _ = histogram.record(duration);
            }
            Self::Few(few) if few.len() < FEW => few.push(duration),
            Self::Few(few) => {
                let few = std::mem::take(few);
                *self = many(few.into_iter().chain([duration]));
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (_, Self::Few(few)) => few.into_iter().for_each(|duration| self.add(duration)),
            (Self::Few(few), other @ Self::Many(_)) => {
                let few = std::mem::take(few);
                *self = other;
                for duration in few {
                    self.add(duration);
                }
            }
            (Self::Many(histogram), Self::Many(other)) => {
                let _ = histogram.add(&*other);
            }
        }
    }

    /// The duration that so many hundredths of all are not longer than.
    pub(super) fn quantile(&mut self, hundredths: u64) -> u64 {
        match self {
            Self::Few(few) => {
                few.sort_unstable();
                let rank = (few.len() as u64 * hundredths).div_ceil(100).max(1);
                usize::try_from(rank - 1).ok().and_then(|at| few.get(at)).copied().unwrap_or(0)
            }
            #[expect(clippy::cast_precision_loss, reason = "at most 100")]
            Self::Many(histogram) => histogram.value_at_quantile(hundredths as f64 / 100.0),
        }
    }
}

/// A histogram of these.
fn many(durations: impl Iterator<Item = u64>) -> Durations {
    let Ok(mut histogram) = Histogram::new(DIGITS) else { return Durations::default() };
    histogram.auto(true);
    for duration in durations {
        let _ = histogram.record(duration);
    }
    Durations::Many(Box::new(histogram))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        for count in [1_u64, 10, 64, 65, 100, 5_000] {
            let mut all = Durations::default();
            let mut parts = [Durations::default(), Durations::default()];
            for at in (1..=count).rev() {
                all.add(at * 1_000);
                parts[usize::from(at % 3 == 0)].add(at * 1_000);
            }
            let [mut first, second] = parts;
            first.merge(second);
            for hundredths in [1, 50, 99, 100] {
                let expected = (count * hundredths).div_ceil(100).max(1) * 1_000;
                for durations in [&mut all, &mut first] {
                    let found = durations.quantile(hundredths);
                    let error = if count <= 64 { 0 } else { expected / 100 };
                    assert!(found.abs_diff(expected) <= error, "{count} {hundredths}: {found}");
                }
            }
        }
    }

    #[test]
    fn the_longest_and_the_shortest() {
        let mut all = Durations::default();
        for _ in 0..100 {
            all.add(0);
            all.add(u64::MAX / 2);
        }
        assert_eq!(all.quantile(1), 0);
        assert!(all.quantile(99).abs_diff(u64::MAX / 2) <= u64::MAX / 200);
    }
}
