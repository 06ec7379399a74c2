//! How often functions are called, before there has been a window. Short looks tell, in which all functions of a group are armed, however much
//! that slows the program down.

use super::super::random::float;
use super::Steering;
use std::collections::BTreeSet;
use std::time::Duration;

/// How much longer recording a call takes than in a loop, about, and the part of its time that a program has for itself at least.
const IN_PROGRAMS: f64 = 2.0;
const LEAST_OWN: f64 = 0.5;

impl Steering {
    /// All calls of the newest window were seen, which was so long and does nothing but to tell how often functions of this group are called. It
    /// counts for that part; the rest is what earlier ones have told. While its hooks were armed, the program used so many seconds of processor time.
    pub(in super::super) fn glanced(
        &mut self,
        group: u32,
        (length, part): (Duration, f64),
        used: f64,
    ) {
        // All functions of the group were armed, which may slow the program down much.
        let own = 1.0 - float(self.calls) * self.call * IN_PROGRAMS / used.max(1e-9);
        let per_second = part / length.as_secs_f64() / own.max(LEAST_OWN);
        let rates = self.rates.entry(group).or_default();
        for rate in rates.values_mut() {
            *rate *= 1.0 - part;
        }
        let seen = self.seen.iter().filter(|(function, _)| self.groups.of(*function) == group);
        for (function, calls) in seen {
            *rates.entry(function).or_default() += f64::from(calls) * per_second;
        }
        self.choose_lots(group);
    }

    /// These functions aren't sampled any more.
    pub(in super::super) fn forget(&mut self, functions: &BTreeSet<u32>) {
        for rates in self.rates.values_mut() {
            rates.retain(|function, _| !functions.contains(function));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::counts::Counts;
    use super::super::super::groups::Groups;
    use super::*;

    #[test]
    fn glances_count_alike() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        for (number, calls) in (1..=3).zip([[(7, 30), (8, 3)], [(7, 0), (8, 0)], [(7, 60), (9, 6)]])
        {
            steering.seen = Counts::of_all(&calls);
            steering.glanced(0, (Duration::from_millis(1), 1.0 / float(number)), 1.0);
        }
        let mut rates: Vec<(f64, u32)> = steering.all_rates().collect();
        rates.sort_by_key(|(_, function)| *function);
        let expected = [(3e4, 7), (1e3, 8), (2e3, 9)];
        assert_eq!(rates.len(), expected.len());
        for ((rate, function), (expected, of)) in rates.into_iter().zip(expected) {
            assert!(function == of && (rate - expected).abs() < 1e-6, "{function}: {rate}");
        }
    }

    /// Recording 2,000 calls takes 0.2 ms.
    #[test]
    fn glances_slow_the_program_down() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        for (used, expected) in [(1.0, 2e6), (0.000_8, 2.667e6), (0.000_1, 4e6)] {
            steering.calls = 2000;
            steering.seen = Counts::of_all(&[(7, 2000)]);
            steering.glanced(0, (Duration::from_millis(1), 1.0), used);
            let rates: Vec<f64> = steering.all_rates().map(|(rate, _)| rate).collect();
            assert!(rates.iter().all(|rate| (rate / expected - 1.0).abs() < 0.01), "{rates:?}");
        }
    }
}
