//! Which windows a function has: those of its group, or all of them.
//!
//! A window arms the functions of one group, which is drawn among all, so it counts for one over its odds. Functions that are called seldom are armed all the time, and every window is theirs. Which ones
//! these are may change from one window to the next, by what was seen before. The odds are known whenever a window is drawn, so each
//! counts for one over its odds (Horvitz and Thompson 1952), whatever it was for the function before.

use super::bounds::Windows;
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The groups of functions.
#[derive(Debug, Default)]
pub(super) struct Groups {
    of: HashMap<u32, u32>,
    /// Those of each group that aren't armed all the time.
    members: HashMap<u32, Vec<u32>>,
    /// Functions that are or were armed all the time: whether they are, from which window on. The newest come last.
    always: HashMap<u32, Vec<(u64, bool)>>,
}

impl Groups {
    pub(super) fn add(&mut self, function: u32, group: u32) {
        self.of.insert(function, group);
        self.members.entry(group).or_default().push(function);
    }

    /// The group that has this function, also if it's armed all the time.
    pub(super) fn of(&self, function: u32) -> u32 {
        self.of.get(&function).copied().unwrap_or(0)
    }

    pub(super) fn members(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        self.members.get(&group).into_iter().flatten().copied()
    }

    /// Do windows of this group arm it, and only these?
    pub(super) fn is_in(&self, function: u32, group: u32) -> bool {
        self.of(function) == group && !self.is_always(function)
    }

    /// Is it armed all the time now?
    pub(super) fn is_always(&self, function: u32) -> bool {
        self.was_always(function, u64::MAX)
    }

    /// Was it armed all the time in this window?
    pub(super) fn was_always(&self, function: u32, window: u64) -> bool {
        if self.always.is_empty() {
            return false;
        }
        let turns = self.always.get(&function).map(Vec::as_slice).unwrap_or_default();
        turns
            .iter()
            .rev()
            .find(|(from, _)| *from <= window)
            .is_some_and(|(_, is_always)| *is_always)
    }

    /// These functions, which are armed all the time and have been from the first window on, have other groups when they no longer are.
    pub(super) fn move_always(&mut self, groups: &BTreeMap<u32, u32>) {
        for (function, group) in groups {
            if self.is_always(*function) {
                self.of.insert(*function, *group);
            }
        }
    }

    /// From this window on, these are armed all the time, or no longer. Those of which the contrary was true.
    pub(super) fn set_always(
        &mut self,
        functions: &BTreeSet<u32>,
        is_always: bool,
        window: u64,
    ) -> Vec<u32> {
        let all = functions.iter().copied();
        let changed: Vec<u32> = all.filter(|one| self.is_always(*one) != is_always).collect();
        for function in &changed {
            self.always.entry(*function).or_default().push((window, is_always));
            if !is_always {
                self.members.entry(self.of(*function)).or_default().push(*function);
            }
        }
        if is_always && !changed.is_empty() {
            for members in self.members.values_mut() {
                members.retain(|one| !functions.contains(one));
            }
        }
        changed
    }
}

/// How many windows functions have had, and what these count for.
#[derive(Debug, Default)]
pub(super) struct Totals {
    every: Windows,
    groups: HashMap<u32, Windows>,
    /// What functions have had besides, that have been armed all the time, and haven't always been: the others less these.
    changed: HashMap<u32, Windows>,
}

impl Totals {
    /// A window of this group, which counts for `times` as much to it as to all.
    pub(super) fn add(&mut self, group: u32, gap: f64, times: f64) {
        self.every.add(gap);
        self.groups.entry(group).or_default().add(gap * times);
    }

    /// Those of a group.
    pub(super) fn of_group(&self, group: u32) -> Windows {
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// The windows that this function has.
    pub(super) fn of(&self, function: u32, groups: &Groups) -> Windows {
        let now = self.at(function, groups, groups.is_always(function));
        now.plus(self.changed.get(&function).copied().unwrap_or_default())
    }

    /// From now on it's armed all the time, or no longer.
    pub(super) fn change(&mut self, function: u32, groups: &Groups, is_always: bool) {
        let before = self.at(function, groups, !is_always);
        let after = self.at(function, groups, is_always);
        let changed = self.changed.entry(function).or_default();
        *changed = changed.plus(before.minus(after));
    }

    fn at(&self, function: u32, groups: &Groups, is_always: bool) -> Windows {
        if is_always { self.every } else { self.of_group(groups.of(function)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_windows_of_their_time() {
        let (mut groups, mut totals) = (Groups::default(), Totals::default());
        groups.add(1, 0);
        groups.add(2, 1);
        let mut number = 0;
        let mut window = |totals: &mut Totals, group| {
            totals.add(group, 0.5, 2.0);
            number += 1;
            number
        };
        window(&mut totals, 0);
        let next = window(&mut totals, 1);
        let second = BTreeSet::from([2]);
        assert_eq!(groups.set_always(&second, true, next), [2]);
        totals.change(2, &groups, true);
        assert!(groups.set_always(&second, true, next).is_empty());
        assert_eq!(groups.members(1).count(), 0);
        window(&mut totals, 0);
        let next = window(&mut totals, 0);
        assert_eq!(groups.set_always(&second, false, next), [2]);
        totals.change(2, &groups, false);
        assert!(groups.members(1).eq([2]));
        window(&mut totals, 0);
        window(&mut totals, 1);
        // One of its group, two of all, and one of its group again.
        let of = |function| {
            let Windows { count, weights, squares } = totals.of(function, &groups);
            (count, weights.to_bits(), squares.to_bits())
        };
        let expected = |weights: f64, squares: f64| (4, weights.to_bits(), squares.to_bits());
        assert_eq!(of(2), expected(1.0 + 2.0 * 0.5 + 1.0, 1.0 + 2.0 * 0.25 + 1.0));
        assert_eq!(of(1), expected(4.0, 4.0));
        let was = [0, 1, 2, 3, 4, 5].map(|window| groups.was_always(2, window));
        assert_eq!(was, [false, false, true, true, false, false]);
        assert!(!groups.was_always(1, 3));
    }
}
