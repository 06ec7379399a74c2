//! How many recorded calls were within each call, by thread.

use foldhash::HashMap;

/// Ended calls of a thread whose caller may not have ended.
#[derive(Debug, Default)]
pub(super) struct Inside(Vec<(u64, u64)>);

impl Inside {
    /// How many are kept apart; the oldest are forgotten.
    const MOST: usize = 4096;

    /// Takes in a call; how many recorded calls were within it.
    #[inline]
    pub(super) fn add(&mut self, start: u64) -> u64 {
        let mut count = 0;
        while let Some((_, within)) = self.0.pop_if(|(began, _)| *began >= start) {
            count += within;
        }
        self.0.push((start, count + 1));
        if self.0.len() > Self::MOST {
            self.0.drain(..Self::MOST / 2);
        }
        count
    }
}

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// The newest thread is apart: its calls come one after the other.
    newest: (u32, Inside),
    others: HashMap<u32, Inside>,
}

impl Threads {
    /// Threads whose calls are kept in mind.
    const MOST: usize = 10_000;

    /// Those of this thread.
    #[inline]
    pub(super) fn of(&mut self, thread: u32) -> &mut Inside {
        if self.newest.0 != thread {
            if self.others.len() > Self::MOST {
                self.others.clear();
            }
            let next = (thread, self.others.remove(&thread).unwrap_or_default());
            let (last, inside) = std::mem::replace(&mut self.newest, next);
            self.others.insert(last, inside);
        }
        &mut self.newest.1
    }
}
