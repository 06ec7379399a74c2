//! What is added up by key while the calls of a window are read. The same few keys come again and again, so each has a place that it's found at without
//! a search. Where two want one place, the older one makes room.

/// Values by key.
#[derive(Debug)]
pub(super) struct Slots<Key, Value> {
    places: Vec<Option<(Key, Value)>>,
    /// The place of a number for which there's none, if there were any.
    first: Option<(Key, Value)>,
    /// Those that have made room, of which some may have come again.
    others: Vec<(Key, Value)>,
}

impl<Key, Value> Default for Slots<Key, Value> {
    fn default() -> Self {
        Self { places: Vec::new(), first: None, others: Vec::new() }
    }
}

impl<Key: Copy + Eq, Value: Default> Slots<Key, Value> {
    const BITS: u32 = 8;

    /// The value of a key, which is new or has been added to. Keys that differ should have numbers that do.
    #[inline]
    pub(super) fn of(&mut self, key: Key, number: u64) -> &mut Value {
        if self.places.is_empty() {
            self.places.resize_with(1 << Self::BITS, || None);
        }
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - Self::BITS);
        let place = usize::try_from(place).unwrap_or(0);
        let Self { places, first, others } = self;
        let slot = places.get_mut(place).unwrap_or(first);
        others.extend(slot.take_if(|(there, _)| *there != key));
        &mut slot.get_or_insert_with(|| (key, Value::default())).1
    }

    /// How many have made room.
    pub(super) fn len_of_others(&self) -> usize {
        self.others.len()
    }

    /// Takes all of them. A key may come several times.
    pub(super) fn take(&mut self) -> Vec<(Key, Value)> {
        let mut all = std::mem::take(&mut self.others);
        all.extend(self.places.iter_mut().chain([&mut self.first]).filter_map(Option::take));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// More keys than places.
    #[test]
    fn nothing_is_lost() {
        let mut slots: Slots<u32, u64> = Slots::default();
        let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
        for step in 0..10_000_u32 {
            let key = step * step % 1009;
            *slots.of(key, key.into()) += 1;
            *expected.entry(key).or_default() += 1;
        }
        assert!(slots.len_of_others() > 0);
        let mut found: BTreeMap<u32, u64> = BTreeMap::new();
        slots.take().into_iter().for_each(|(key, count)| *found.entry(key).or_default() += count);
        assert_eq!(found, expected);
        assert!(slots.take().is_empty());
    }
}
