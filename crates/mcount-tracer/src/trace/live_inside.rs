//! How long a call spent in what it called, while calls are being traced, in bounded memory however many it called.
//!
//! A call is known when it has ended, and its caller later. Until then it waits, with those beside it. If too many wait,
//! neighbours become one span, whose parts can't be told apart: if a caller is found to begin within it, it's divided as
//! time is. So spans stay short compared with the time since they ended. All callers that can still come and begin in a
//! span go on at least that long, so what is wrong about such a caller is a small part of it.

/// Calls that have ended, one after the other, and their caller hasn't. Times are ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u64,
    end: u64,
    /// How long they took, without the time between them.
    took: u64,
    /// How long those of each function that waits took.
    waits: Vec<(u32, u64)>,
}

impl Span {
    /// One call; and its function, if that waits.
    pub(super) fn new(start: u64, took: u64, waiting: Option<u32>) -> Self {
        let waits = waiting.into_iter().map(|function| (function, took)).collect();
        Self { start, end: start.saturating_add(took), took, waits }
    }

    /// Takes in the one after it.
    fn join(&mut self, next: Self) {
        self.end = self.end.max(next.end);
        self.took = self.took.saturating_add(next.took);
        for (function, took) in next.waits {
            match self.waits.iter_mut().find(|(known, _)| *known == function) {
                Some((_, sum)) => *sum = sum.saturating_add(took),
                None => self.waits.push((function, took)),
            }
        }
    }

    /// Takes off what was since `time`, which is after the start and before the end.
    fn split(&mut self, time: u64) -> Self {
        let (part, whole) = (self.end.saturating_sub(time), self.end.saturating_sub(self.start));
        let take = |from: &mut u64| {
            let taken = u128::from(*from) * u128::from(part) / u128::from(whole.max(1));
            let taken = u64::try_from(taken).unwrap_or(*from).min(*from);
            *from -= taken;
            taken
        };
        let mut taken =
            Self { start: time, end: self.end, took: take(&mut self.took), waits: Vec::new() };
        for (function, took) in &mut self.waits {
            taken.waits.push((*function, take(took)));
        }
        self.end = time;
        taken
    }
}

/// The calls of a thread that have ended and whose caller hasn't.
#[derive(Debug, Default)]
pub(super) struct Inside(Vec<Span>);

impl Inside {
    /// How many are kept.
    const MOST: usize = 4096;
    /// A span of several calls is at most such a part of the time since it ended.
    const PART: u64 = 128;

    /// Takes in a call; the time that it spent in what it called. `each` is shown how long it was in each function that
    /// waits.
    pub(super) fn add(&mut self, call: Span, mut each: impl FnMut(u32, u64)) -> u64 {
        let mut inside = 0_u64;
        let mut take = |span: Span| {
            inside = inside.saturating_add(span.took);
            span.waits.into_iter().for_each(|(function, took)| each(function, took));
        };
        while let Some(span) = self.0.pop_if(|span| span.start >= call.start) {
            take(span);
        }
        if let Some(last) = self.0.last_mut().filter(|last| last.end > call.start) {
            take(last.split(call.start));
        }
        self.0.push(call);
        if self.0.len() > Self::MOST {
            self.join();
        }
        inside
    }

    /// Makes at most half as many of the spans.
    fn join(&mut self) {
        let now = self.0.last().map_or(0, |last| last.end);
        let mut part = Self::PART;
        while self.0.len() > Self::MOST / 2 {
            self.0.dedup_by(|next, span| {
                let length = next.end.saturating_sub(span.start);
                let is_short = length <= now.saturating_sub(next.end) / part.max(1) || part == 0;
                if is_short {
                    span.join(std::mem::take(next));
                }
                is_short
            });
            part /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(inside: &mut Inside, start: u64, took: u64) -> u64 {
        inside.add(Span::new(start, took, None), |_, _| {})
    }

    #[test]
    fn what_a_call_called_is_not_its_own_time() {
        let mut inside = Inside::default();
        // c in b in a, then d in a, then e beside a.
        assert_eq!(add(&mut inside, 30, 5), 0);
        assert_eq!(add(&mut inside, 20, 20), 5);
        assert_eq!(add(&mut inside, 50, 10), 0);
        assert_eq!(add(&mut inside, 10, 90), 30);
        assert_eq!(add(&mut inside, 200, 1), 0);
        let left = [(10, 90), (200, 1)];
        assert_eq!(inside.0, left.map(|(start, took)| Span::new(start, took, None)));
    }

    #[test]
    fn calls_whose_caller_goes_on_for_ever_take_no_memory() {
        let mut inside = Inside::default();
        for number in 0..1_000_000 {
            add(&mut inside, number * 10 + 10, 5);
            assert!(inside.0.len() <= Inside::MOST);
        }
        assert_eq!(add(&mut inside, 0, 20_000_000), 5_000_000);
        // Clocks that stand still, or go back, change nothing about it.
        for number in 0..100_000 {
            add(&mut inside, 30_000_000 - number, 0);
            add(&mut inside, u64::MAX - number % 2, 5);
        }
        assert!(inside.0.len() <= Inside::MOST);
    }

    /// Each of several calls in a call has many in it.
    #[test]
    fn calls_with_many_calls_inside_do_not_take_those_of_others() {
        const LEAVES: u64 = 20_000;
        const WAITS: u32 = 7;
        let mut inside = Inside::default();
        let mut now = 0;
        for _ in 0..20 {
            let outer = now;
            now += 10;
            for _ in 0..5 {
                let middle = now;
                now += 10;
                for number in 0..LEAVES {
                    let waits = (number % 100 == 0).then_some(WAITS);
                    inside.add(Span::new(now, 60, waits), |_, _| {});
                    now += 100;
                }
                let mut waited = 0;
                let each = |function, took| {
                    assert_eq!(function, WAITS);
                    waited += took;
                };
                let found = inside.add(Span::new(middle, now - middle, None), each);
                assert!(found.abs_diff(LEAVES * 60) < LEAVES * 60 / 100, "{found}");
                assert!(waited.abs_diff(LEAVES / 100 * 60) < LEAVES / 100, "{waited}");
                now += 1000;
            }
            let found = add(&mut inside, outer, now - outer);
            let expected = 5 * (LEAVES * 100 + 10);
            assert!(found.abs_diff(expected) < expected / 100, "{found}");
        }
    }
}
