//! When no thread had a call: what a page can leave out.

/// Times without calls that are shorter than this part of the trace aren't looked at, so there are never many.
const PARTS: u64 = 400;

/// When some thread had a call. Times are nanoseconds since the start of the trace.
pub(super) struct Busy {
    /// Shorter pauses don't count.
    least: u64,
    /// Of all threads before the present one, in order, with such pauses between them.
    all: Vec<(u64, u64)>,
    /// The same of the present thread.
    thread: Vec<(u64, u64)>,
}

impl Busy {
    /// `end` is when the trace ends.
    pub(super) fn new(end: u64) -> Self {
        Self { least: (end / PARTS).max(1), all: Vec::new(), thread: Vec::new() }
    }

    /// The thread has an outermost call. They come in the order of time.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        match self.thread.last_mut() {
            Some(last) if start < last.1.saturating_add(self.least) => last.1 = last.1.max(end),
            _ => self.thread.push((start, end)),
        }
    }

    /// What follows is of another thread.
    pub(super) fn end_thread(&mut self) {
        let mut both = std::mem::take(&mut self.all);
        both.append(&mut self.thread);
        both.sort_unstable();
        for (start, end) in both {
            match self.all.last_mut() {
                Some(last) if start < last.1.saturating_add(self.least) => last.1 = last.1.max(end),
                _ => self.all.push((start, end)),
            }
        }
    }

    /// The first call; 0 if there is none.
    pub(super) fn begin(&self) -> u64 {
        self.all.first().map_or(0, |first| first.0)
    }

    /// The pauses between calls, and after the last one up to `end`.
    pub(super) fn pauses(&self, end: u64) -> Vec<(u64, u64)> {
        let ends = self.all.iter().map(|busy| busy.1);
        let starts = self.all.iter().skip(1).map(|busy| busy.0).chain([end]);
        let pauses = ends.zip(starts).filter(|(from, to)| to.saturating_sub(*from) >= self.least);
        pauses.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Busy;

    #[test]
    fn pauses_are_those_of_all_threads() {
        let mut busy = Busy::new(4_000);
        assert_eq!((busy.begin(), busy.pauses(4_000)), (0, vec![]));
        for thread in [
            [(1_000, 1_100), (1_105, 1_200), (3_000, 3_100)],
            [(900, 950), (1_150, 1_500), (3_050, 3_060)],
        ] {
            for (start, end) in thread {
                busy.add(start, end);
            }
            busy.end_thread();
        }
        assert_eq!(busy.begin(), 900);
        assert_eq!(busy.pauses(4_000), [(950, 1_000), (1_500, 3_000), (3_100, 4_000)]);
    }
}
