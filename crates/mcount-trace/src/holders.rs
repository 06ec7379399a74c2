//! Which function a thread is in while others wait for it, in words of statistics: at moments while somebody waits, and when the
//! waiting has ended. A function that threads are in at both has nothing to do with it.

use std::collections::{BTreeMap, BTreeSet};

/// What was seen of one function.
#[derive(Debug, Default)]
struct Seen {
    during: u64,
    after: u64,
    /// How deep it was in its thread, at all moments together.
    depth: u64,
    callers: BTreeMap<Option<u32>, u64>,
}

/// What threads were seen in.
#[derive(Debug, Default)]
pub struct Holders {
    functions: BTreeMap<u32, Seen>,
    moments: u64,
}

/// The function that threads are most likely in while others wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub function: u32,
    /// That of the function that called it most often.
    pub caller: Option<u32>,
    /// In how many of a hundred moments a thread was in it while others waited.
    pub percent: u64,
}

impl Holders {
    /// A moment at which a thread waits: the functions that the others are in, those of a thread from the outermost on.
    pub fn during(&mut self, stacks: impl IntoIterator<Item = Vec<u32>>) {
        self.moments += 1;
        let mut known = BTreeSet::new();
        for stack in stacks {
            let callers = std::iter::once(None).chain(stack.iter().copied().map(Some));
            for (depth, (function, caller)) in (0..).zip(stack.iter().zip(callers)) {
                if known.insert(*function) {
                    let seen = self.functions.entry(*function).or_default();
                    seen.during += 1;
                    seen.depth += depth;
                    *seen.callers.entry(caller).or_default() += 1;
                }
            }
        }
    }

    /// A moment at which such a thread has just stopped waiting. There have to be as many as of the others.
    pub fn after(&mut self, stacks: impl IntoIterator<Item = Vec<u32>>) {
        let functions: BTreeSet<u32> = stacks.into_iter().flatten().collect();
        for function in functions {
            self.functions.entry(function).or_default().after += 1;
        }
    }

    /// The function that's in more of the moments of waiting than of the others, by half of them at least; if that's said of several, the
    /// innermost.
    #[must_use]
    pub fn best(&self) -> Option<Holder> {
        let more = |seen: &Seen| seen.during.saturating_sub(seen.after);
        let most = self.functions.values().map(more).max()?;
        if most == 0 || most * 2 < self.moments {
            return None;
        }
        let all = self.functions.iter().filter(|(_, seen)| more(seen) * 10 >= most * 9);
        let depth = |seen: &Seen| seen.depth * 1000 / seen.during.max(1);
        let (function, seen) = all.max_by_key(|(_, seen)| depth(seen))?;
        let caller = seen.callers.iter().max_by_key(|(_, count)| **count)?.0;
        let percent = seen.during * 100 / self.moments;
        Some(Holder { function: *function, caller: *caller, percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_always_there_has_nothing_to_do_with_it() {
        const MAIN: u32 = 1;
        const ACCEPT: u32 = 2;
        const NOTE: u32 = 3;
        const WRITE: u32 = 4;
        const WORK: u32 = 5;
        let mut holders = Holders::default();
        assert_eq!(holders.best(), None);
        for at in 0..10 {
            let during = [vec![MAIN, ACCEPT], vec![MAIN, NOTE, WRITE], vec![MAIN, WORK]];
            holders.during(during);
            let noted = if at == 0 { vec![MAIN, NOTE] } else { vec![MAIN] };
            holders.after([vec![MAIN, ACCEPT], vec![MAIN, WORK], noted]);
        }
        let best = Holder { function: WRITE, caller: Some(NOTE), percent: 100 };
        assert_eq!(holders.best(), Some(best));
        for _ in 0..11 {
            holders.during([vec![MAIN]]);
            holders.after([vec![MAIN]]);
        }
        assert_eq!(holders.best(), None, "in less than half of the moments");
    }
}
