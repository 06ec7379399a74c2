//! The longest waits for locks: the others say less about who has them.

use mcount_trace::Call;

/// How many waits are kept.
const KEPT: usize = 32;

/// One wait for a lock; its duration is in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockWait {
    pub(super) duration: u64,
    /// In ticks.
    pub(super) start: u64,
    pub(super) thread: usize,
    function: u32,
}

/// The longest waits for locks.
#[derive(Debug, Default)]
pub(super) struct Longest(Vec<LockWait>);

impl Longest {
    /// Takes in a call of a function that locks, which took this many nanoseconds.
    pub(super) fn add(&mut self, call: &Call, duration: u64) {
        let Call { thread, function, start, .. } = *call;
        self.0.push(LockWait { duration, start, thread, function });
        if self.0.len() >= 2 * KEPT {
            self.cut();
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
        self.cut();
    }

    /// Those in this function.
    pub(super) fn of(&self, function: u32) -> impl Iterator<Item = &LockWait> {
        self.0.iter().filter(move |wait| wait.function == function)
    }

    fn cut(&mut self) {
        self.0.sort_unstable_by(|one, other| other.cmp(one));
        self.0.truncate(KEPT);
    }
}
