//! Calls by function. Functions have small numbers, so each has a place in a list.

/// How often each function was called.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By function.
    all: Vec<u32>,
    /// Those that were.
    called: Vec<u32>,
}

impl Counts {
    /// Greater numbers than any trace has.
    const MOST: usize = 1 << 24;

    #[inline]
    pub(super) fn add(&mut self, function: u32) {
        let place = usize::try_from(function).unwrap_or(Self::MOST);
        if place >= self.all.len() && place < Self::MOST {
            self.all.resize(place + 1, 0);
        }
        if let Some(count) = self.all.get_mut(place) {
            if *count == 0 {
                self.called.push(function);
            }
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn of(&self, function: u32) -> u32 {
        let place = usize::try_from(function).unwrap_or(Self::MOST);
        self.all.get(place).copied().unwrap_or(0)
    }

    /// So many calls of these functions.
    #[cfg(test)]
    pub(super) fn of_all(calls: &[(u32, u32)]) -> Self {
        let mut counts = Self::default();
        for (function, count) in calls {
            (0..*count).for_each(|_| counts.add(*function));
        }
        counts
    }

    /// Functions that were called, and how often.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.called.iter().map(|function| (*function, self.of(*function)))
    }

    pub(super) fn clear(&mut self) {
        for function in self.called.drain(..) {
            let place = usize::try_from(function).unwrap_or(Self::MOST);
            if let Some(count) = self.all.get_mut(place) {
                *count = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_until_they_are_forgotten() {
        let mut counts = Counts::default();
        for function in [3, 70_000, 3, u32::MAX, 3] {
            counts.add(function);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(3, 3), (70_000, 1)]);
        assert_eq!([3, 4, u32::MAX].map(|function| counts.of(function)), [3, 0, 0]);
        counts.clear();
        assert_eq!((counts.of(3), counts.iter().count()), (0, 0));
        counts.add(3);
        assert!(counts.iter().eq([(3, 1)]));
    }
}
