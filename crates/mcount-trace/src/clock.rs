//! Two clocks: the one whose ticks a trace has, and one of the system in nanoseconds, with which the ticks get a length.

/// What both clocks showed at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// The clock of the trace.
    pub ticks: u64,
    /// The other one, in nanoseconds.
    pub nanoseconds: u64,
}

impl Moment {
    /// Reads both. A thread that is interrupted between two readings gets times that don't belong together, so it's
    /// done several times, and the one that took least counts.
    pub fn read(ticks: impl Fn() -> u64, nanoseconds: impl Fn() -> u64) -> Self {
        const TRIES: usize = 16;
        let once = || {
            let before = ticks();
            let nanoseconds = nanoseconds();
            let took = ticks().saturating_sub(before);
            (took, Self { ticks: before.saturating_add(took / 2), nanoseconds })
        };
        let best = std::iter::repeat_with(once).take(TRIES).min_by_key(|(took, _)| *took);
        best.map_or(Self::default(), |(_, moment)| moment)
    }

    /// How many ticks there are in a second, by what has passed since `begin`.
    #[must_use]
    pub fn ticks_per_second(self, begin: Self) -> u64 {
        let elapsed = u128::from(self.nanoseconds.saturating_sub(begin.nanoseconds).max(1));
        let ticks = u128::from(self.ticks.saturating_sub(begin.ticks)) * 1_000_000_000 / elapsed;
        u64::try_from(ticks).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use std::cell::Cell;

    /// A clock that is a hundred ticks on each time, and a million while the thread is interrupted, at these readings.
    fn interrupted_at(readings: impl Fn(u64) -> bool) -> impl Fn() -> u64 {
        let (count, now) = (Cell::new(0), Cell::new(1000));
        move || {
            count.set(count.get() + 1);
            now.set(now.get() + if readings(count.get()) { 1_000_000 } else { 100 });
            now.get()
        }
    }

    #[test]
    fn the_quickest_reading_counts() {
        // Only between the ninth and the tenth is the thread left alone.
        let moment =
            Moment::read(interrupted_at(|reading| reading % 2 == 0 && reading != 10), || 7);
        assert_eq!(moment, Moment { ticks: 1000 + 4 * 1_000_100 + 100 + 50, nanoseconds: 7 });
        let moment = Moment::read(interrupted_at(|_| false), || 7);
        assert_eq!(moment, Moment { ticks: 1150, nanoseconds: 7 });
        // A clock that stands, or goes back.
        assert_eq!(Moment::read(|| u64::MAX, || 0).ticks, u64::MAX);
    }

    #[test]
    fn ticks_in_a_second() {
        let at = |ticks, nanoseconds| Moment { ticks, nanoseconds };
        let table = [
            (at(0, 0), at(3_000_000, 1_000_000), 3_000_000_000),
            (at(500, 1_000), at(500, 2_000), 0),
            (at(0, 5), at(7, 5), 7_000_000_000),
            (at(9, 9), at(1, 1), 0),
            (at(0, 0), at(u64::MAX, 1), 0),
        ];
        for (begin, end, rate) in table {
            assert_eq!(end.ticks_per_second(begin), rate, "{begin:?} to {end:?}");
        }
    }
}
