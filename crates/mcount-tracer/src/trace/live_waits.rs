//! Who calls functions that wait, and what has a lock meanwhile, while calls are being traced. A call's caller is known once that has
//! ended; until then it isn't said.

use mcount_trace::Ended;
use mcount_trace::holders::{Holder, Holders};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The functions that are looked at, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    /// Those that wait.
    pub(super) waits: BTreeSet<u32>,
    /// Those of these that wait for a lock.
    pub(super) locks: BTreeSet<u32>,
}

/// A call of a function that doesn't wait, in ticks.
#[derive(Debug, Clone, Copy)]
struct Span {
    thread: u32,
    function: u32,
    start: u64,
    end: u64,
}

impl Span {
    fn time(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Calls since the last look, if there is anything to look for.
#[derive(Debug, Default)]
pub(super) struct LiveWaits {
    watched: Watched,
    /// How many ticks the calls of a function that waits took together, by its number and its caller's.
    callers: HashMap<(u32, u32), u64>,
    /// The longest waits for locks.
    locks: Vec<Span>,
    /// The longest of the other calls.
    others: Vec<Span>,
}

/// What was found since the last time.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// How many ticks the calls of a function that waits took together, by its number and its caller's.
    pub(super) callers: HashMap<(u32, u32), u64>,
    /// The lock that threads waited for longest, and what was seen meanwhile.
    pub(super) holder: Option<(u32, Holder)>,
}

/// How many waits for locks are kept, and how many other calls.
const LOCKS: usize = 32;
const OTHERS: usize = 4096;

impl LiveWaits {
    pub(super) fn new(watched: Watched) -> Self {
        Self { watched, ..Self::default() }
    }

    /// Takes in a call that has ended.
    pub(super) fn add(&mut self, call: &Ended) {
        if self.watched.locks.is_empty() {
            return;
        }
        let Ended { thread, function, start, end, .. } = *call;
        let span = Span { thread, function, start, end };
        if self.watched.locks.contains(&function) {
            keep(&mut self.locks, span, LOCKS);
        } else if !self.watched.waits.contains(&function) {
            keep(&mut self.others, span, OTHERS);
        }
    }

    /// The function, if it's one that waits.
    pub(super) fn waiting(&self, function: u32) -> Option<u32> {
        self.watched.waits.contains(&function).then_some(function)
    }

    /// A call of the one function, which waits, was in one of the other, and took so many ticks.
    pub(super) fn call(&mut self, function: u32, caller: u32, took: u64) {
        let sum = self.callers.entry((function, caller)).or_default();
        *sum = sum.saturating_add(took);
    }

    /// What was found since the last time.
    pub(super) fn take(&mut self) -> Waited {
        let mut by_lock: BTreeMap<u32, u64> = BTreeMap::new();
        for lock in &self.locks {
            *by_lock.entry(lock.function).or_default() += lock.time();
        }
        let most = by_lock.into_iter().max_by_key(|(_, time)| *time).map(|(lock, _)| lock);
        let holder = most.and_then(|lock| Some((lock, self.holder(lock)?)));
        self.locks.clear();
        self.others.clear();
        Waited { callers: std::mem::take(&mut self.callers), holder }
    }

    fn holder(&self, lock: u32) -> Option<Holder> {
        let mut holders = Holders::default();
        let waits = || self.locks.iter().filter(|wait| wait.function == lock);
        let longest = waits().map(Span::time).max()?;
        // Short ones are no waits: the lock was free.
        for wait in waits().filter(|wait| wait.time().saturating_mul(10) >= longest) {
            let quarter = wait.time() / 4;
            for moment in [2, 3].map(|quarters| wait.start.saturating_add(quarter * quarters)) {
                holders.during(self.stacks(moment, wait.thread));
                holders.after(self.stacks(wait.end, wait.thread));
            }
        }
        holders.best()
    }

    /// The functions that other threads were in at that time, without threads that waited for a lock themselves.
    fn stacks(&self, moment: u64, thread: u32) -> Vec<Vec<u32>> {
        let is_then = |span: &&Span| (span.start..span.end).contains(&moment);
        let waiting: BTreeSet<u32> =
            self.locks.iter().filter(is_then).map(|span| span.thread).collect();
        let mut stacks: BTreeMap<u32, Vec<&Span>> = BTreeMap::new();
        let is_other = |span: &&Span| span.thread != thread && !waiting.contains(&span.thread);
        for span in self.others.iter().filter(is_then).filter(is_other) {
            stacks.entry(span.thread).or_default().push(span);
        }
        let functions = |mut stack: Vec<&Span>| {
            stack.sort_by_key(|span| (span.start, u64::MAX - span.end));
            stack.into_iter().map(|span| span.function).collect()
        };
        stacks.into_values().map(functions).collect()
    }
}

/// Keeps a call if it's among the longest.
fn keep(spans: &mut Vec<Span>, span: Span, most: usize) {
    spans.push(span);
    if spans.len() >= 2 * most {
        spans.sort_unstable_by_key(|span| u64::MAX - span.time());
        spans.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_lock_that_others_wait_for() {
        const LOCK: u32 = 1;
        const SLEEP: u32 = 2;
        const NOTE: u32 = 3;
        const WRITE: u32 = 4;
        const WORK: u32 = 5;
        let watched =
            Watched { waits: BTreeSet::from([LOCK, SLEEP]), locks: BTreeSet::from([LOCK]) };
        let mut waits = LiveWaits::new(watched);
        let mut add = |thread: u32, function: u32, start: u64, end: u64| {
            waits.add(&Ended {
                thread,
                process: 1,
                tid: 0,
                function,
                start,
                end,
                how: None,
                caller: None,
            });
        };
        for at in (0..10_000).step_by(1000) {
            // One writes, the other waits for it; a third one works.
            add(1, SLEEP, at + 10, at + 800);
            add(1, WRITE, at + 5, at + 810);
            add(1, NOTE, at, at + 820);
            add(2, LOCK, at + 100, at + 830);
        }
        add(3, WORK, 0, 10_000);
        waits.call(LOCK, NOTE, 730);
        waits.call(LOCK, NOTE, 730);
        assert_eq!([LOCK, WRITE].map(|number| waits.waiting(number)), [Some(LOCK), None]);
        let Waited { callers, holder } = waits.take();
        assert_eq!(callers, HashMap::from([((LOCK, NOTE), 1460)]));
        let expected = Holder { function: WRITE, caller: Some(NOTE), percent: 100 };
        assert_eq!(holder, Some((LOCK, expected)));
        assert!(waits.take().holder.is_none());
    }
}
