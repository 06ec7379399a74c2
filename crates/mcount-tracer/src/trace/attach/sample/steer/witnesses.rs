//! Functions that are armed in all windows, and alone before them, to tell how much slower the program is in windows.
//!
//! What recording a call costs differs between programs and functions. Of a function that's called 20 million times in a second, its own windows
//! can't tell: all of them are as slow. But others that are armed as well have fewer calls as soon as it's armed, too. That's seen within
//! milliseconds, so it doesn't matter if the machine is faster at one time than at another.

use super::{LEAST_LOAD, Steering};
use std::collections::BTreeSet;
use std::sync::Arc;

/// So many are enough, and arming them takes little.
const MOST: usize = 16;
/// The part of the program's time that recording them may take, as far as it's known when they are chosen: glances slow a busy program down, so it may
/// be four times as much.
const PART: f64 = 0.005;
/// The part of the room that one of them may take, so that they're called in more than one phase of the program.
const ONE: f64 = 0.25;

impl Steering {
    /// Chooses those that are called most often, as far as recording them takes little. These are calls in a second of all functions.
    pub(super) fn choose_witnesses(&mut self, rates: &[(f64, u32)]) {
        self.witnesses = Arc::default();
        if !self.groups.has_busy() {
            return;
        }
        let mut room = PART * self.load.max(LEAST_LOAD) / self.usual;
        let most = room * ONE;
        let is_fit = |(rate, one): &&(f64, u32)| {
            (0.0..=most).contains(rate) && !self.groups.is_busy(self.groups.of(*one))
        };
        let mut all: Vec<(f64, u32)> = rates.iter().filter(is_fit).copied().collect();
        all.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let has_room = |(rate, _): &(f64, u32)| {
            let has_room = *rate <= room;
            room -= if has_room { *rate } else { 0.0 };
            has_room && *rate > 0.0
        };
        let chosen = all.into_iter().filter(has_room).take(MOST);
        let chosen: BTreeSet<u32> = chosen.map(|(_, function)| function).collect();
        self.witnesses = Arc::new(chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::groups::Groups;
    use super::*;

    #[test]
    fn those_that_are_called_most_often_as_far_as_there_is_room() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        steering.outside((1.0, 1.0));
        // There's room for 100,000 calls in a second, and a quarter of them may be those of one function.
        let rates = [
            (1, 1e7),
            (2, 5e4),
            (3, 2.2e4),
            (4, 2.2e4),
            (5, 2.2e4),
            (6, 2.2e4),
            (7, 2.2e4),
            (8, 1e4),
        ];
        steering.set_rates(&rates);
        steering.set_apart(|function| function == 6);
        assert!(steering.witnesses.iter().eq(&[3, 4, 5, 7, 8]), "{:?}", steering.witnesses);
        let whole = steering.whole(0);
        assert_eq!((steering.draw().witnesses.len(), whole.witnesses.len()), (5, 0));
        // Nothing is busy.
        let many: Vec<(u32, f64)> = (0..100).map(|one| (one, 1000.0)).collect();
        steering.set_rates(&many);
        steering.set_apart(|_| false);
        assert!(steering.witnesses.is_empty() && steering.draw().witnesses.is_empty());
        steering.set_rates(&[&many[..], &[(100, 1e7)]].concat());
        steering.set_apart(|_| false);
        assert_eq!(steering.witnesses.len(), MOST);
    }
}
