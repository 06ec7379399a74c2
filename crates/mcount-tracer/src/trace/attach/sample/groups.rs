//! Functions in groups, of which a window has one.
//!
//! Most are in groups of up to some 256, drawn by lot. If recording one function takes much of the program's time, all others that are armed in
//! the same windows seem to take longer, and there are few windows. So such functions have groups of their own, with short windows. They're
//! chosen before the first window, so that biases no estimate.

use super::random::{Random, float};
use foldhash::HashMap;
use std::sync::Arc;

/// So many functions are armed in a window at most, on average. Arming one takes some microseconds, in which the others are already recorded.
const GROUP: usize = 256;
/// A group of up to 256 functions is drawn so many times as often as one of those that are called most often: for the same cost, the most
/// functions are known well if windows are as many as the square root of functions over cost (Neyman's allocation, Cochran 1977, 5.5). The first have some
/// 50 times as many functions as the others, and windows that cost 3 to 5 times as much.
const USUAL: u64 = 4;
/// So many groups of functions that are called often there are at most, about.
const BUSY: f64 = 32.0;
/// And so many if functions get theirs later, too.
const AT_MOST: usize = 100;

/// Functions in groups of about the same size, which are random, and those that are called most often in others.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// How many there are of the first kind.
    usual: u32,
    seed: u64,
    /// The others: whether they have some of the busiest functions.
    others: Arc<Vec<bool>>,
    /// Functions that these have.
    placed: Arc<HashMap<u32, u32>>,
}

impl Groups {
    /// Of so many functions.
    pub(super) fn new(functions: usize, seed: u64) -> Self {
        let usual = u32::try_from(functions.div_ceil(GROUP)).unwrap_or(u32::MAX).max(1);
        Self { usual, seed, others: Arc::default(), placed: Arc::default() }
    }

    /// The same, except that the busiest functions are in groups of their own: as many as it takes until the others have no more calls in a
    /// second than `room` for each group. If that would be too many groups, each has more.
    ///
    /// What isn't called is armed all the time, so the others are in as few groups as have room for them.
    pub(super) fn apart(&self, mut rates: Vec<(f64, u32)>, room: f64) -> Self {
        let usual = Self::new(rates.len(), self.seed).usual;
        rates.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let sum: f64 = rates.iter().map(|(rate, _)| rate).sum();
        let room = room.max(sum / BUSY);
        let mut groups = Self { usual, others: Arc::default(), placed: Arc::default(), ..*self };
        groups.place(&rates, (sum, room));
        groups
    }

    /// Functions that were in none turn out to be called so often. The busiest get groups of their own, until the others have no more calls in a
    /// second than `room` for each of the first kind. If these are too many for one group, they get others, too.
    pub(super) fn add(&mut self, mut rates: Vec<(f64, u32)>, room: f64) {
        rates.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let sum: f64 = rates.iter().map(|(rate, _)| rate).sum();
        let busy = self.place(&rates, (sum, room.max(sum / BUSY)));
        let Some(rest) = rates.get(busy..).filter(|rest| rest.len() > GROUP) else { return };
        let (first, more) = (self.count(), Self::new(rest.len(), self.seed));
        if self.others.len() < AT_MOST {
            let groups = (0..more.usual).map(|_| false);
            Arc::make_mut(&mut self.others).extend(groups);
            let rest = rest.iter().map(|(_, function)| (*function, first + more.of(*function)));
            Arc::make_mut(&mut self.placed).extend(rest);
        }
    }

    /// Puts the first of these functions into groups of their own, each of which has room for so many calls in a second, as the functions have `sum`
    /// together. How many.
    fn place(&mut self, rates: &[(f64, u32)], (sum, room): (f64, f64)) -> usize {
        let (mut left, mut filled) = (sum, room);
        let (mut number, usual) = (self.count(), self.usual);
        let (others, placed) = (Arc::make_mut(&mut self.others), Arc::make_mut(&mut self.placed));
        for (place, (rate, function)) in rates.iter().enumerate() {
            if left <= room * f64::from(usual) {
                return place;
            }
            left -= rate;
            if filled > 0.0 && filled + rate > room {
                if others.len() >= AT_MOST {
                    return place;
                }
                others.push(true);
                number += 1;
                filled = 0.0;
            }
            filled += rate;
            placed.insert(*function, number - 1);
        }
        rates.len()
    }

    /// Are there groups of functions that are called most often?
    pub(super) fn has_busy(&self) -> bool {
        self.others.contains(&true)
    }

    /// All lots, in an order that these random numbers say: each group is drawn as often as it's likely to before any is drawn once more.
    pub(super) fn shuffled(&self, mut random: impl FnMut() -> u64) -> Vec<u32> {
        let lots =
            |group| std::iter::repeat_n(group, usize::try_from(self.lots_of(group)).unwrap_or(0));
        let mut all: Vec<u32> = (0..self.count()).flat_map(lots).collect();
        // Fisher and Yates.
        for left in (1..all.len()).rev() {
            let chosen = random() % (left as u64 + 1);
            all.swap(left, usize::try_from(chosen).unwrap_or(0));
        }
        all
    }

    /// How likely this group is to be drawn.
    pub(super) fn odds(&self, group: u32) -> f64 {
        float(self.lots_of(group)) / float(self.lots())
    }

    fn lots(&self) -> u64 {
        (0..self.count()).map(|group| self.lots_of(group)).sum()
    }

    fn lots_of(&self, group: u32) -> u64 {
        if self.is_busy(group) { 1 } else { USUAL }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.usual + u32::try_from(self.others.len()).unwrap_or(0)
    }

    /// The one that has this function.
    #[inline]
    pub(super) fn of(&self, function: u32) -> u32 {
        if let Some(group) = self.placed.get(&function) {
            return *group;
        }
        let random = Random(self.seed.wrapping_add(u64::from(function) << 32)).next();
        u32::try_from(random % u64::from(self.usual)).unwrap_or(0)
    }

    /// Whether this group has some of the busiest functions.
    #[inline]
    pub(super) fn is_busy(&self, group: u32) -> bool {
        let place = group.checked_sub(self.usual).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.others.get(place)).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_most_often_is_apart() {
        let groups = Groups::new(200, 1);
        let rates = vec![(10.0, 1), (1e6, 2), (8e4, 3), (2e6, 4), (8e4, 5), (8e4, 6), (5e4, 7)];
        let apart = groups.apart(rates.clone(), 1.6e5);
        let of = |function| (apart.of(function), apart.is_busy(apart.of(function)));
        assert_eq!([of(4), of(2), of(3), of(5)], [(1, true), (2, true), (3, true), (3, true)]);
        // The others have room enough in one group.
        assert!([1, 6, 7].into_iter().all(|function| of(function) == (groups.of(function), false)));
        assert_eq!((groups.count(), apart.count(), apart.placed.len()), (1, 4, 4));
        let same = groups.apart(rates, 1e7);
        assert!((same.count(), same.placed.len()) == (1, 0));
        assert!(!same.is_busy(same.of(4)));
    }

    #[test]
    fn what_is_called_later_gets_groups_of_its_own() {
        let mut groups = Groups::new(200, 1).apart(vec![(1e6, 1), (10.0, 2)], 1e5);
        assert_eq!((groups.usual, groups.count()), (1, 2));
        groups.add(vec![(9e4, 3), (3e6, 4), (6e4, 5), (6e4, 6), (5e3, 7)], 1.1e5);
        let of = [1, 2, 3, 4, 5, 6, 7].map(|function| groups.of(function));
        assert_eq!((of, groups.count()), ([1, 0, 3, 2, 4, 0, 0], 5));
        // There's an end to that.
        for number in 10..500 {
            groups.add(vec![(1e6, number)], 1e3);
        }
        assert_eq!((groups.count(), groups.of(20), groups.of(499)), (101, 15, 0));
    }

    #[test]
    fn many_that_are_called_later_get_groups_like_others() {
        let mut groups = Groups::new(200, 1).apart(vec![(1e6, 1), (10.0, 2)], 1e5);
        let seldom = (10..1000).map(|function| (5.0, function));
        groups.add(seldom.chain([(1e6, 3)]).collect(), 1e5);
        assert_eq!((groups.count(), groups.of(2), groups.of(3)), (7, 0, 2));
        let mut members = [0; 7];
        (10..1000).for_each(|function| members[groups.of(function) as usize] += 1);
        assert!(members[..3] == [0, 0, 0] && members[3..].iter().all(|count| *count > 200));
        assert!(
            (0..7)
                .map(|group| groups.is_busy(group))
                .eq([false, true, true, false, false, false, false])
        );
        let odds: f64 = (0..7).map(|group| groups.odds(group)).sum();
        assert!((odds - 1.0).abs() < 1e-9 && (groups.odds(3) / groups.odds(2) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn groups_are_drawn_as_often_as_they_are_likely_to() {
        let groups = Groups::new(500, 1).apart(vec![(1e6, 1), (1e6, 2), (1e6, 3)], 1e5);
        assert_eq!((groups.usual, groups.count()), (1, 4));
        let mut random = Random(1);
        let mut first = [0; 4];
        for _ in 0..700 {
            let shuffled = groups.shuffled(|| random.next());
            let mut drawn = [0.0; 4];
            for group in &shuffled {
                drawn[*group as usize] += 1.0;
            }
            for (group, count) in (0..).zip(drawn) {
                assert!((groups.odds(group) - count / 7.0).abs() < 1e-9, "{drawn:?}");
            }
            first[shuffled[0] as usize] += 1;
        }
        assert!((350..450).contains(&first[0]) && first[1..].iter().all(|n| (60..150).contains(n)));
    }

    #[test]
    fn there_are_not_too_many_groups() {
        let rates: Vec<(f64, u32)> = (0..5000).map(|function| (1e6, function)).collect();
        let apart = Groups::new(5000, 1).apart(rates, 1000.0);
        assert!(apart.count() < 100, "{}", apart.count());
    }
}
