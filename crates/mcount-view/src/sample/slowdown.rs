//! How much slower a program is in windows, as witnesses tell: functions that are armed in all windows, and alone right before each.
//!
//! Where a window has functions that are called some million times in a second, recording takes much of the program's time, and how much that is can't
//! be seen from these functions. But their witnesses have fewer calls in the window than right before it:
//!
//! > *x* (1 − *o K*) = *y* (1 − *o L*)
//!
//! *x* and *y* are calls of witnesses by a thread in a second before and in the window, *L* and *K* those of all armed functions, and *o* is what one
//! costs. The sum over threads and windows is solved for *o*. Times aren't processor time, so that's what it costs as far as the program doesn't make up for it by waiting less. How
//! sure it is comes from what is left of each window (Cochran 1977, chapter 6).

use super::{FEWEST, deviation};
use foldhash::HashMap;

/// How far the cost in one group is from that in others, as a part of it: a standard deviation. In lua, it was 49 to 95 ns.
const SPREAD: f64 = 0.25;

/// What a window says of a thread, in calls in a second.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pair {
    /// Calls of witnesses before it, and in it.
    pub(super) before: f64,
    pub(super) within: f64,
    /// Calls of all armed functions before it, and in it.
    pub(super) few: f64,
    pub(super) many: f64,
}

/// Sums over windows.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    count: u64,
    /// What is missing of the calls of witnesses, and what would be if a call took a second.
    missing: f64,
    recorded: f64,
    missing_missing: f64,
    missing_recorded: f64,
    recorded_recorded: f64,
}

impl Sums {
    /// A window in which so much was missing and recorded.
    fn add(&mut self, [missing, recorded]: [f64; 2]) {
        self.count += 1;
        self.missing += missing;
        self.recorded += recorded;
        self.missing_missing += missing * missing;
        self.missing_recorded += missing * recorded;
        self.recorded_recorded += recorded * recorded;
    }

    /// What a call costs, in seconds, and the variance.
    fn cost(&self) -> Option<Normal> {
        if self.count < FEWEST || self.recorded <= 0.0 {
            return None;
        }
        let mean = self.missing / self.recorded;
        let rest = self.missing_missing - 2.0 * mean * self.missing_recorded
            + mean * mean * self.recorded_recorded;
        Some(Normal { mean, variance: deviation(rest, self.recorded, self.count).powi(2) })
    }

    fn age(&mut self) {
        let Self { count, missing, recorded, missing_missing, .. } = self;
        *count /= 2;
        *missing /= 2.0;
        *recorded /= 2.0;
        *missing_missing /= 2.0;
        self.missing_recorded /= 2.0;
        self.recorded_recorded /= 2.0;
    }
}

/// A value that isn't quite known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Normal {
    /// What both say together: each is as sure as its variance says.
    fn and(self, other: Self) -> Self {
        let [ours, theirs] = [self, other].map(|one| 1.0 / one.variance.max(1e-30));
        let mean = (ours * self.mean + theirs * other.mean) / (ours + theirs);
        Self { mean, variance: 1.0 / (ours + theirs) }
    }
}

/// What recording a call costs in windows of a group, in seconds, as far as witnesses tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    all: Normal,
    own: Option<Normal>,
    /// Functions of the group are called so often that recording takes much of the program's time.
    pub(super) is_busy: bool,
    /// The cost in its windows may differ from that in all.
    is_apart: bool,
}

impl Told {
    /// In parts of what it's taken for.
    pub(super) fn per(self, usual: f64) -> Self {
        let per = |one: Normal| Normal {
            mean: one.mean / usual,
            variance: one.variance / (usual * usual),
        };
        Self { all: per(self.all), own: self.own.map(per), ..self }
    }

    /// What it is if it was likely to be `likely` before.
    pub(super) fn after(self, likely: Normal) -> Normal {
        let all = likely.and(self.all);
        if !self.is_apart {
            return all;
        }
        let unsure = Normal { variance: all.variance + (SPREAD * all.mean).powi(2), ..all };
        self.own.map_or(unsure, |own| unsure.and(own))
    }
}

/// What witnesses have told.
#[derive(Debug, Default)]
pub(super) struct Slowdown {
    usual: Sums,
    busy: Sums,
    /// Of busy groups.
    groups: HashMap<u32, Sums>,
}

impl Slowdown {
    /// A window of this group, which counts for `weight`, and what it says of each thread.
    pub(super) fn add(
        &mut self,
        (group, is_busy): (u32, bool),
        weight: f64,
        threads: impl Iterator<Item = Pair>,
    ) {
        let sums = threads.fold([0.0, 0.0], |[missing, recorded], pair| {
            let Pair { before, within, few, many } = pair;
            [missing + before - within, recorded + before * many - within * few]
        });
        let sums = sums.map(|sum| weight * sum);
        if is_busy {
            self.busy.add(sums);
            self.groups.entry(group).or_default().add(sums);
        } else {
            self.usual.add(sums);
        }
    }

    /// What it costs in windows of this group.
    pub(super) fn of(&self, group: u32) -> Option<Told> {
        let is_busy = self.groups.contains_key(&group);
        let own = self.groups.get(&group).unwrap_or(&self.usual).cost();
        // Elsewhere it costs about as much as in busy groups, of which there are more windows.
        match self.busy.cost() {
            Some(all) => Some(Told { all, own, is_busy, is_apart: true }),
            None => own.map(|all| Told { all, own: None, is_busy, is_apart: false }),
        }
    }

    /// What has been seen so far counts half as much as what comes, and groups are others.
    pub(super) fn age(&mut self) {
        self.usual.age();
        self.busy.age();
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program at a speed of its own in each window, in which a call costs so much.
    fn windows(cost: f64, many: f64) -> impl Iterator<Item = Pair> {
        (0..40).map(move |number| {
            let speed = 1.0 + f64::from(number % 5) / 4.0;
            let noise = 1.0 + 0.1 * (f64::from(number % 3) - 1.0);
            let rate = |calls: f64| 1.0 / (1.0 / speed + cost * calls);
            let (few, all) = (4e5, many + 4e5);
            let (before, within) = (4e5 * rate(few), 4e5 * noise * rate(all));
            Pair { before, within, few: few * rate(few), many: all * rate(all) }
        })
    }

    #[test]
    fn each_busy_group_has_its_own_cost() {
        let mut slowdown = Slowdown::default();
        for (group, cost) in [(1, 40e-9), (2, 60e-9), (3, 80e-9)] {
            windows(cost, 2e7)
                .for_each(|pair| slowdown.add((group, true), 1.0, [pair].into_iter()));
        }
        windows(100e-9, 1e7).for_each(|pair| slowdown.add((0, false), 1.0, [pair].into_iter()));
        let likely = Normal { mean: 30e-9, variance: 1e-13 };
        for (group, expected, part) in [(0, 100e-9, 0.2), (1, 40e-9, 0.1), (3, 80e-9, 0.1)] {
            let found = slowdown.of(group).map(|told| told.after(likely)).unwrap();
            assert!((found.mean / expected - 1.0).abs() < part, "{group}: {found:?}");
            assert!(found.variance.sqrt() / expected < part, "{group}: {found:?}");
        }
        slowdown.age();
        assert!(slowdown.groups.is_empty() && slowdown.of(0).is_some());
    }

    /// Recording takes the time of the thread that calls, and of no other.
    #[test]
    fn each_thread_has_its_own_recording() {
        let mut slowdown = Slowdown::default();
        let idle = Pair { before: 1000.0, within: 1000.0, few: 1000.0, many: 1000.0 };
        for pair in windows(60e-9, 2e7) {
            slowdown.add((1, true), 1.0, [pair, pair, idle, pair, pair].into_iter());
        }
        let likely = Normal { mean: 30e-9, variance: 1e-13 };
        let found = slowdown.of(1).map(|told| told.after(likely)).unwrap();
        assert!((found.mean / 60e-9 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn few_windows_tell_nothing() {
        let mut slowdown = Slowdown::default();
        for pair in windows(40e-9, 2e7).take(11) {
            slowdown.add((1, true), 1.0, [pair].into_iter());
        }
        assert_eq!((slowdown.of(1), slowdown.of(0)), (None, None));
        let nothing = Pair { before: 0.0, within: 0.0, few: 0.0, many: 1e7 };
        (0..20).for_each(|_| slowdown.add((0, false), 1.0, [nothing].into_iter()));
        assert_eq!(slowdown.of(0), None);
    }
}
