//! How many of the kernel's records are missing, and when.

/// Records that are missing.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Lost {
    count: u64,
    /// Between which times, in ticks.
    between: Option<(u64, u64)>,
}

impl Lost {
    /// So many more are missing at that time, in ticks.
    pub(super) fn add(&mut self, count: u64, ticks: u64) {
        self.count += count;
        if count > 0 {
            let (first, last) = self.between.unwrap_or((ticks, ticks));
            self.between = Some((first.min(ticks), last.max(ticks)));
        }
    }

    /// How many and when, if any are, in a trace that began at `start`, with so many ticks in a second.
    pub(super) fn when(&self, start: u64, rate: u64) -> Option<(u64, String)> {
        let (first, last) = self.between?;
        #[expect(clippy::cast_precision_loss, reason = "it's rounded to milliseconds")]
        let seconds = |ticks: u64| ticks.saturating_sub(start) as f64 / rate as f64;
        Some((self.count, format!("from {:.3} s to {:.3} s", seconds(first), seconds(last))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_lies_between_two_times() {
        let mut lost = Lost::default();
        lost.add(0, 5);
        assert_eq!(lost.when(0, 1), None);
        lost.add(2, 2_500);
        lost.add(3, 1_500);
        assert_eq!(lost.when(1_000, 1_000), Some((5, "from 0.500 s to 1.500 s".to_owned())));
    }
}
