//! System calls in a traced program that aren't the program's: the agent makes some, and the recorder has threads make others.

use foldhash::HashMap;
use std::ops::Range;

/// Addresses of code that is in a process since then.
struct Places {
    /// In nanoseconds.
    since: u64,
    ranges: Vec<Range<u64>>,
}

/// A time in which a thread, or all if it's 0, makes no calls of the program's, in nanoseconds.
struct Window {
    thread: u32,
    from: u64,
    to: u64,
}

/// Where and when such calls are made.
#[derive(Default)]
pub(super) struct Ours {
    /// By process.
    places: HashMap<u32, Vec<Places>>,
    windows: Vec<Window>,
}

impl Ours {
    /// Is a call by this process and thread at that time none of the program's? It would go on at `instruction`, or is about our code.
    pub(super) fn has(
        &self,
        ids: (u32, u32),
        time: u64,
        (instruction, about): (Option<u64>, u64),
    ) -> bool {
        let is_then = |window: &Window| {
            [0, ids.1].contains(&window.thread) && (window.from..window.to).contains(&time)
        };
        if self.windows.iter().any(is_then) {
            return true;
        }
        let Some(all) = self.places.get(&ids.0) else { return false };
        let known = all.iter().rfind(|places| places.since <= time);
        let is_in = |range: &Range<u64>| {
            range.contains(&about) || instruction.is_some_and(|at| range.contains(&at))
        };
        known.is_some_and(|places| places.ranges.iter().any(is_in))
    }

    /// From now on, this code in a process isn't the program's, and none else.
    pub(super) fn know(&mut self, process: u32, since: u64, ranges: Vec<Range<u64>>) {
        /// More than a program has that begins.
        const MOST: usize = 8;
        let all = self.places.entry(process).or_default();
        if all.last().is_some_and(|last| last.ranges == ranges) {
            return;
        }
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(Places { since, ranges });
    }

    /// A process began with the memory of the one that made it. The recorder may have told of what came later.
    pub(super) fn forked(&mut self, process: u32, maker: u32, time: u64) {
        let of_maker = self.places.get(&maker).filter(|_| process != maker);
        let then = of_maker.and_then(|all| all.iter().rfind(|places| places.since <= time));
        if let Some(ranges) = then.map(|places| places.ranges.clone()) {
            self.places.entry(process).or_default().insert(0, Places { since: 0, ranges });
        }
    }

    pub(super) fn ended(&mut self, process: u32) {
        self.places.remove(&process);
    }

    /// From now on, a thread makes no calls of the program's.
    pub(super) fn begin(&mut self, thread: u32, now: u64) {
        self.windows.push(Window { thread, from: now, to: u64::MAX });
    }

    /// It does again.
    pub(super) fn end(&mut self, thread: u32, now: u64) {
        let is_open = |window: &&mut Window| window.thread == thread && window.to == u64::MAX;
        if let Some(window) = self.windows.iter_mut().rfind(is_open) {
            window.to = now;
        }
    }

    /// Nothing is asked any more about times before that.
    pub(super) fn forget(&mut self, before: u64) {
        self.windows.retain(|window| window.to >= before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_counts_from_when_it_is_there() {
        let mut ours = Ours::default();
        ours.know(7, 100, vec![10..20, 0..0]);
        ours.know(7, 200, vec![30..40, 0..0]);
        let table = [(99, 15, false), (100, 15, true), (199, 30, false), (200, 30, true)];
        for (time, at, expected) in table {
            assert_eq!(ours.has((7, 8), time, (Some(at), 0)), expected, "{time} {at}");
        }
        assert!(!ours.has((8, 8), 300, (Some(30), 0)) && !ours.has((7, 8), 300, (None, 0)));
        assert!(ours.has((7, 8), 300, (None, 30)));
        ours.know(9, 500, vec![50..60, 0..0]);
        ours.forked(9, 7, 250);
        assert!(ours.has((9, 9), 1, (Some(30), 0)) && !ours.has((9, 9), 1, (Some(15), 0)));
        assert!(ours.has((9, 9), 500, (Some(50), 0)) && !ours.has((9, 9), 500, (Some(30), 0)));
        ours.ended(9);
        assert!(!ours.has((9, 9), 1, (Some(30), 0)));
    }

    #[test]
    fn windows_are_of_a_thread_or_of_all() {
        let mut ours = Ours::default();
        ours.begin(8, 100);
        ours.begin(0, 300);
        ours.end(8, 200);
        let table =
            [(8, 99, false), (8, 100, true), (9, 150, false), (8, 200, false), (9, 300, true)];
        for (thread, time, expected) in table {
            assert_eq!(ours.has((7, thread), time, (None, 0)), expected, "{thread} {time}");
        }
        ours.end(0, 400);
        ours.forget(250);
        assert!(!ours.has((7, 8), 150, (None, 0)) && ours.has((7, 8), 350, (None, 0)));
        ours.forget(401);
        assert!(!ours.has((7, 8), 350, (None, 0)));
    }
}
