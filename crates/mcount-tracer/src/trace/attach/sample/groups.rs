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

/// Functions in groups of about the same size, which are random, and those that are called most often in others.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// How many there are of the first kind, and all.
    usual: u32,
    all: u32,
    seed: u64,
    busy: Arc<HashMap<u32, u32>>,
}

impl Groups {
    /// Of so many functions.
    pub(super) fn new(functions: usize, seed: u64) -> Self {
        let usual = u32::try_from(functions.div_ceil(GROUP)).unwrap_or(u32::MAX).max(1);
        Self { usual, all: usual, seed, busy: Arc::default() }
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
        let (mut left, mut busy) = (sum, HashMap::default());
        let (mut group, mut filled) = (usual, 0.0);
        for (rate, function) in rates {
            if left <= room * f64::from(usual) {
                break;
            }
            left -= rate;
            if filled > 0.0 && filled + rate > room {
                group += 1;
                filled = 0.0;
            }
            filled += rate;
            busy.insert(function, group);
        }
        let all = if busy.is_empty() { usual } else { group + 1 };
        Self { usual, all, busy: Arc::new(busy), ..*self }
    }

    /// The group that this random number draws.
    pub(super) fn draw(&self, random: u64) -> u32 {
        let usual = u64::from(self.usual) * USUAL;
        let drawn = random % self.lots();
        let group =
            if drawn < usual { drawn / USUAL } else { drawn - usual + u64::from(self.usual) };
        u32::try_from(group).unwrap_or(0)
    }

    /// How likely this group is to be drawn.
    pub(super) fn odds(&self, group: u32) -> f64 {
        float(if self.is_busy(group) { 1 } else { USUAL }) / float(self.lots())
    }

    fn lots(&self) -> u64 {
        u64::from(self.usual) * USUAL + u64::from(self.all - self.usual)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.all
    }

    /// The one that has this function.
    pub(super) fn of(&self, function: u32) -> u32 {
        if let Some(group) = self.busy.get(&function) {
            return *group;
        }
        let random = Random(self.seed.wrapping_add(u64::from(function) << 32)).next();
        u32::try_from(random % u64::from(self.usual)).unwrap_or(0)
    }

    /// Whether this group has some of the busiest functions.
    pub(super) fn is_busy(&self, group: u32) -> bool {
        group >= self.usual
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
        assert_eq!((groups.count(), apart.count(), apart.busy.len()), (1, 4, 4));
        let same = groups.apart(rates, 1e7);
        assert!((same.count(), same.busy.len()) == (1, 0));
        assert!(!same.is_busy(same.of(4)));
    }

    #[test]
    fn groups_are_drawn_as_often_as_they_are_likely_to() {
        let groups = Groups::new(500, 1).apart(vec![(1e6, 1), (1e6, 2), (1e6, 3)], 1e5);
        assert_eq!((groups.usual, groups.count()), (1, 4));
        let mut drawn = [0.0; 4];
        (0..700).for_each(|random| drawn[groups.draw(random) as usize] += 1.0);
        for (group, count) in (0..).zip(drawn) {
            assert!((groups.odds(group) - count / 700.0).abs() < 1e-9, "{drawn:?}");
        }
    }

    #[test]
    fn there_are_not_too_many_groups() {
        let rates: Vec<(f64, u32)> = (0..5000).map(|function| (1e6, function)).collect();
        let apart = Groups::new(5000, 1).apart(rates, 1000.0);
        assert!(apart.count() < 100, "{}", apart.count());
    }
}
