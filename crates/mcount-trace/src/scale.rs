//! Ticks to nanoseconds, without a division where that can be had.

/// In a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// How many nanoseconds ticks are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Ticks in a second; 0 if not known.
    rate: u64,
    /// Nanoseconds in a tick × 2^64, rounded down; 0 where that doesn't fit, as for ticks that are nanoseconds.
    reciprocal: u64,
}

impl Scale {
    pub(crate) fn new(rate: u64) -> Self {
        let quotient = u128::from(NANOSECONDS) << 64;
        let reciprocal = quotient.checked_div(u128::from(rate)).unwrap_or(0);
        Self { rate, reciprocal: u64::try_from(reciprocal).unwrap_or(0) }
    }

    /// So many nanoseconds, rounded down. Where the length of a tick isn't known, it is taken for a nanosecond.
    #[inline]
    pub(crate) fn nanoseconds(self, ticks: u64) -> u64 {
        if self.reciprocal == 0 {
            return self.by_division(ticks);
        }
        // The product is too small by less than `ticks`, so the quotient is right unless that carries, which it rarely does.
        let product = u128::from(ticks) * u128::from(self.reciprocal);
        let quotient = u64::try_from(product >> 64).unwrap_or(u64::MAX);
        let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(u64::MAX);
        if low.checked_add(ticks).is_some() {
            return quotient;
        }
        self.by_division(ticks)
    }

    #[cold]
    fn by_division(self, ticks: u64) -> u64 {
        if self.rate == 0 || self.rate == NANOSECONDS {
            return ticks;
        }
        let exact = u128::from(ticks) * u128::from(NANOSECONDS) / u128::from(self.rate);
        u64::try_from(exact).unwrap_or(u64::MAX)
    }

    /// A tick that isn't later than the first one after that many nanoseconds.
    pub(crate) fn ticks(self, nanoseconds: u64) -> u64 {
        if self.rate == 0 || self.rate == NANOSECONDS {
            return nanoseconds;
        }
        let exact = u128::from(nanoseconds) * u128::from(self.rate) / u128::from(NANOSECONDS);
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_by_division() {
        let usual = [1, 24_000_000, 999_999_999, 1_000_000_001, 2_445_123_456, 1 << 40];
        let absurd = [(1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        let mut ticks = 1_u64;
        for step in 0..20_000_u64 {
            for rate in usual.into_iter().chain(absurd) {
                let exact = u128::from(ticks) * u128::from(NANOSECONDS) / u128::from(rate);
                let exact = u64::try_from(exact).unwrap_or(u64::MAX);
                let scale = Scale::new(rate);
                assert_eq!(scale.nanoseconds(ticks), exact, "{ticks} at {rate}");
                let back = scale.ticks(exact);
                assert!(back <= ticks || exact == u64::MAX, "{ticks} at {rate}: {back}");
            }
            // Numbers of all lengths, and the greatest.
            ticks = if step == 10_000 {
                u64::MAX
            } else {
                (ticks ^ ticks >> 7).wrapping_mul(step * 2 + 3)
            };
        }
    }
}
