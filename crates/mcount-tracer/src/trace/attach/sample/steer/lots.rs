//! Which functions are armed by lot, so that windows don't record too much.

use super::super::Lot;
use super::super::random::float;
use super::Steering;

/// How many times as much it may take if that's of many functions: each is then armed in more windows.
const OF_MANY: f64 = 4.0;
/// How likely functions are to be armed that are called too often. With less, it takes long until windows tell how much they differ.
const CHANCE: f64 = 0.5;

impl Steering {
    /// Chooses chances of functions: those that are called most often are armed less often, so that windows are less crowded.
    pub(in super::super) fn choose_lots(&mut self, group: u32) {
        let room = self.room();
        let is_busy = self.groups.is_busy(group);
        let rates = self.rates.entry(group).or_default();
        let mut busy: Vec<(u32, f64)> =
            rates.iter().map(|(function, rate)| (*function, *rate)).collect();
        busy.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let most = cap(busy.iter().map(|(_, rate)| *rate), room * OF_MANY);
        let lots = self.lots.entry(group).or_default();
        lots.clear();
        // Few calls are recorded in such a window however many there are, as it's short.
        if is_busy {
            return;
        }
        let busy = busy.into_iter().take_while(|(_, rate)| *rate > most);
        lots.extend(busy.map(|(function, _)| Lot { function, chance: CHANCE, is_armed: false }));
    }
}

/// What each of these numbers, which descend, may have at most, so that there's room for their sum; infinity if there is anyway.
fn cap(numbers: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator, room: f64) -> f64 {
    let (mut left, mut count) = (room, numbers.len());
    for number in numbers.rev() {
        let each = left / float(count as u64);
        if number > each {
            return each;
        }
        left -= number;
        count -= 1;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::super::super::groups::Groups;
    use super::*;

    /// It was seen in windows of its old group while it was armed all the time.
    #[test]
    fn what_has_moved_is_in_no_lots_of_its_old_group() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        steering.outside((1.0, 1.0));
        steering.set_rates(&[(7, 1e7), (8, 2e7), (9, 10.0)]);
        steering.choose_lots(0);
        assert_eq!(steering.lots[&0].len(), 2);
        let moved = steering.take_in([(7, 1e7), (9, 10.0)].into_iter(), |one| one == 7);
        assert!(moved.into_iter().eq([(7, 1)]));
        let functions = |group| steering.lots[&group].iter().map(|lot| lot.function);
        assert!(functions(0).eq([8]) && functions(1).count() == 0);
        assert!(steering.rates[&0].len() == 2 && steering.rates[&1].len() == 1);
    }

    #[test]
    fn there_is_room_for_what_is_less_than_the_cap() {
        let cases: [(&[f64], f64, f64); 5] = [
            (&[5.0, 1.0], 6.0, f64::INFINITY),
            (&[5.0, 1.0], 4.0, 3.0),
            (&[4.0, 4.0, 4.0], 6.0, 2.0),
            (&[9.0, 5.0, 1.0], 7.0, 3.0),
            (&[], 1.0, f64::INFINITY),
        ];
        for (numbers, room, expected) in cases {
            let found = cap(numbers.iter().copied(), room);
            let is_right =
                (found - expected).abs() < 1e-9 || found.is_infinite() && expected.is_infinite();
            assert!(is_right, "{numbers:?}: {found}");
        }
    }
}
