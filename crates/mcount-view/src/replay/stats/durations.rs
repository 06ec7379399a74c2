//! Durations of the calls of one row, for their percentiles: a few as they are, many as a histogram. Most calls are short, and
//! the short ones are counted here, because finding their place in the histogram takes longer than all else.

use hdrhistogram::Histogram;

/// So many are kept as they are: a histogram takes more room than those of a function that is rarely called.
const FEW: usize = 64;

/// Significant digits that a histogram keeps: durations are at most 1 % off.
const DIGITS: u8 = 2;

/// Shorter ones than this are short, in nanoseconds. A histogram is exact there, too.
const SHORT: usize = 256;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(super) enum Durations {
    Few(Vec<u64>),
    Many(Box<Many>),
}

/// How many there are of each.
#[derive(Debug, Clone)]
pub(super) struct Many {
    short: [u32; SHORT],
    /// `None`: there's no longer one.
    long: Option<Histogram<u32>>,
    /// Of those in `long`.
    sums: Sums,
}

/// Facts about durations together. The least and the greatest of none are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Sums {
    const NONE: Self = Self { count: 0, sum: 0, min: 0, max: 0 };

    #[inline]
    fn add(&mut self, duration: u64, count: u64) {
        self.merge(Self {
            count,
            sum: duration.saturating_mul(count),
            min: duration,
            max: duration,
        });
    }

    #[inline]
    fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

impl Many {
    const NONE: Self = Self { short: [0; SHORT], long: None, sums: Sums::NONE };

    #[inline]
    fn add(&mut self, duration: u64) {
        match usize::try_from(duration).ok().and_then(|at| self.short.get_mut(at)) {
            Some(count) if *count < u32::MAX => *count += 1,
            _ => self.add_long(duration, 1),
        }
    }

    fn add_long(&mut self, duration: u64, count: u32) {
        self.sums.add(duration, count.into());
        if self.long.is_none() {
            self.long = Histogram::new(DIGITS).ok();
        }
        if let Some(histogram) = &mut self.long {
            histogram.auto(true);
            // It grows as it needs to, so this can't fail.
            let _ = histogram.record_n(duration, count);
        }
    }

    fn merge(&mut self, other: &Self) {
        let mut full = Vec::new();
        for (duration, (own, other)) in (0..).zip(self.short.iter_mut().zip(&other.short)) {
            match own.checked_add(*other) {
                Some(sum) => *own = sum,
                None => full.push((duration, *other)),
            }
        }
        for (duration, count) in full {
            self.add_long(duration, count);
        }
        self.sums.merge(other.sums);
        match (&mut self.long, &other.long) {
            (Some(own), Some(other)) => {
                let _ = own.add(other);
            }
            (own @ None, Some(other)) => *own = Some(other.clone()),
            (_, None) => {}
        }
    }

    /// All of them as a histogram.
    fn whole(&self) -> Option<Histogram<u32>> {
        let mut all = self.clone();
        for (duration, count) in (0..).zip(self.short) {
            if count != 0 {
                all.add_long(duration, count);
            }
        }
        all.long
    }
}

impl Default for Durations {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Durations {
    #[expect(
        clippy::inline_always,
        reason = "each call goes through it, and the compiler leaves it out of line"
    )]
    #[inline(always)]
    pub(super) fn add(&mut self, duration: u64) {
        match self {
            Self::Many(many) => many.add(duration),
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
            (Self::Many(many), Self::Many(other)) => many.merge(&other),
        }
    }

    /// Facts about all of them together.
    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::NONE;
        match self {
            Self::Few(few) => few.iter().for_each(|duration| sums.add(*duration, 1)),
            Self::Many(many) => {
                sums = many.sums;
                for (duration, count) in (0..).zip(many.short) {
                    sums.add(duration, count.into());
                }
            }
        }
        sums
    }

    /// The duration that that many hundredths of all are not longer than.
    pub(super) fn quantile(&mut self, hundredths: u64) -> u64 {
        match self {
            Self::Few(few) => {
                few.sort_unstable();
                let rank = (few.len() as u64 * hundredths).div_ceil(100).max(1);
                usize::try_from(rank - 1).ok().and_then(|at| few.get(at)).copied().unwrap_or(0)
            }
            #[expect(clippy::cast_precision_loss, reason = "at most 100")]
            Self::Many(many) => {
                many.whole().map_or(0, |all| all.value_at_quantile(hundredths as f64 / 100.0))
            }
        }
    }
}

/// A histogram of these.
fn many(durations: impl Iterator<Item = u64>) -> Durations {
    let mut many = Box::new(Many::NONE);
    for duration in durations {
        many.add(duration);
    }
    Durations::Many(many)
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

    /// Short and long ones together, in parts and at once.
    #[test]
    fn short_and_long() {
        let mut all = Durations::default();
        let mut parts = [Durations::default(), Durations::default()];
        let mut sorted = Vec::new();
        for at in 0..4_000_u64 {
            let duration = at * at % 1_000;
            sorted.push(duration);
            all.add(duration);
            parts[usize::from(at % 3 == 0)].add(duration);
        }
        sorted.sort_unstable();
        let [mut first, second] = parts;
        first.merge(second);
        for hundredths in [1, 10, 50, 90, 99, 100] {
            let expected = sorted[(sorted.len() * hundredths).div_ceil(100) - 1];
            for durations in [&mut all, &mut first] {
                let found = durations.quantile(hundredths as u64);
                assert!(
                    found.abs_diff(expected) <= expected / 100,
                    "{hundredths}: {found} {expected}"
                );
            }
        }
        let mut many = Many::NONE;
        many.short[7] = u32::MAX;
        many.add(7);
        let mut other = Many::NONE;
        other.short[7] = 5;
        many.merge(&other);
        assert_eq!((many.short[7], many.long.map(|long| long.len())), (u32::MAX, Some(6)));
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
