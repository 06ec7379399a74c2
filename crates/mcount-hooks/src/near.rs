//! Room for stubs: free memory that code of a module can jump to, and that can jump back.
//!
//! Below the module comes first, because the heap grows above an executable. Then comes memory far above it, and at last where a
//! heap would grow, since `malloc` does without it.

/// The lowest address that the kernel lets a process map by default (`vm.mmap_min_addr`).
const LOWEST: u64 = 1 << 16;

/// How far above a module comes first, if jumps go as far. Instructions at the beginning of functions, if a jump takes them for its distance, seldom lead to the
/// 128 MiB from there on: they'd have one of the opcodes 0x58 to 0x5f (`pop`) in the highest byte of it.
const FAR_ABOVE: u64 = 0x5800_0000;

/// What room is needed, and near what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near {
    /// The first address of the module, and the one behind its last.
    pub extent: (u64, u64),
    /// The lowest and the highest address that has to reach the room; those of the extent if that isn't known.
    pub sites: (u64, u64),
    /// Bytes of the room.
    pub size: u64,
    /// How far a jump goes, in bytes, each way.
    pub reach: u64,
    /// Bytes of a page, a power of two.
    pub page: u64,
}

impl Near {
    /// Where the room can be, the best place first; each begins a page. `taken` has the known mappings, first addresses and
    /// those after the last, in any order. The module itself is always taken. A caller without a list passes an empty one, and
    /// tries whether the places are free.
    pub fn places(&self, taken: &[(u64, u64)]) -> impl Iterator<Item = u64> + use<> {
        let Self { extent: (low, high), sites: (first, last), size, reach, page } = *self;
        let taken = merged(taken, self.extent);
        let is_far = reach >> 30 != 0;
        let step = if is_far { 1 << 20 } else { 1 << 18 };
        let heap = if is_far { FAR_ABOVE } else { reach / 2 };
        let lowest = last.saturating_sub(reach).max(LOWEST);
        let highest = first.saturating_add(reach).saturating_sub(size);
        // A page stays free between what is mapped and the room.
        let under = move |start: u64| start.saturating_sub(size.saturating_add(page)) & !(page - 1);
        let dense: Vec<u64> = taken.iter().rev().map(|(start, _)| under(*start)).collect();
        let nearest = under(low);
        let count = nearest.saturating_sub(lowest) / step;
        let sparse = (1..=count).map(move |number| nearest - number * step);
        let below = dense.into_iter().filter(move |start| *start < low).chain(sparse);
        let below = below.filter(move |start| *start >= lowest);
        let from = |start: u64| start.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let (above, behind) = (from(high.saturating_add(heap)), from(high));
        let above = (0..heap / step).map(move |number| above.saturating_add(number * step));
        let behind = (0..heap / step).rev().map(move |number| behind.saturating_add(number * step));
        let above = above.chain(behind).filter(move |start| *start <= highest);
        below.chain(above).filter(move |start| is_free(&taken, *start, size))
    }
}

/// All ranges, and one more, in ascending order, with those as one that touch.
fn merged(ranges: &[(u64, u64)], more: (u64, u64)) -> Vec<(u64, u64)> {
    let mut all = [ranges, &[more]].concat();
    all.sort_unstable();
    let mut found: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (low, high) in all {
        match found.last_mut() {
            Some((_, end)) if low <= *end => *end = high.max(*end),
            _ => found.push((low, high)),
        }
    }
    found
}

/// Are the `size` bytes from `start` on in none of these ranges, which are in order and apart?
fn is_free(taken: &[(u64, u64)], start: u64, size: u64) -> bool {
    let Some(end) = start.checked_add(size) else { return false };
    let before = taken.partition_point(|(low, _)| *low < end);
    let last = before.checked_sub(1).and_then(|last| taken.get(last));
    last.is_none_or(|(_, high)| *high <= start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAR: Near = Near {
        extent: (0x5555_5555_4000, 0x5555_6000_0000),
        sites: (0x5555_5555_4000, 0x5555_6000_0000),
        size: 0x10000,
        reach: (1 << 31) - (1 << 20),
        page: 4096,
    };

    fn at(extent: (u64, u64)) -> Near {
        Near { extent, sites: extent, ..FAR }
    }

    #[test]
    fn places_are_below_then_above_and_then_where_heaps_grow() {
        let places: Vec<u64> = FAR.places(&[]).collect();
        let (low, high) = FAR.extent;
        let is_below = |start: &&u64| **start < low;
        let below = places.iter().take_while(is_below).count();
        let far = places.iter().skip(below).take_while(|start| **start >= high + (1 << 30)).count();
        assert_eq!(places.first(), Some(&(low - 0x11000)));
        assert!(below > 100 && far > 100, "{below} {far}");
        assert!(
            places.iter().skip(below + far).all(|start| (high..high + (1 << 30)).contains(start))
        );
        assert_eq!(places.last(), Some(&high));
        // Near the start of the address space, nothing is below.
        assert!(at((0x10_0000, 0x20_0000)).places(&[]).all(|start| start >= LOWEST));
        assert!(at((0, 0x1000)).places(&[]).all(|start| start >= 0x1000));
        // And near its end, nothing above.
        let end = at((u64::MAX - 0x10_0fff, u64::MAX));
        assert!(end.places(&[]).count() > 100);
        assert!(end.places(&[]).all(|start| start < end.extent.0));
    }

    /// Where memory is crowded, gaps are found that no step meets.
    #[test]
    fn a_gap_of_just_its_size_is_found() {
        let (low, high) = FAR.extent;
        let gap = low - 0x123_0000;
        let taken = [(0, gap), (gap + 0x11000, low), (high, u64::MAX)];
        assert_eq!(FAR.places(&taken).collect::<Vec<_>>(), [gap]);
        let taken = [(0, gap), (gap + 0x10fff, low), (high, u64::MAX)];
        assert_eq!(FAR.places(&taken).next(), None);
    }

    #[test]
    fn ranges_are_merged() {
        type Ranges = &'static [(u64, u64)];
        let table: [(Ranges, Ranges); 4] = [
            (&[], &[(5, 7)]),
            (&[(7, 9), (1, 5)], &[(1, 9)]),
            (&[(0, 100), (20, 30)], &[(0, 100)]),
            (&[(8, 9), (1, 4)], &[(1, 4), (5, 7), (8, 9)]),
        ];
        for (ranges, expected) in table {
            assert_eq!(merged(ranges, (5, 7)), expected);
        }
    }

    proptest! {
        /// Every place is free, on a page, and within reach of all that has to reach it.
        #[test]
        fn places_are_free_and_within_reach(
            low in prop_oneof![0..1_u64 << 47, any::<u64>()],
            length in 0..1_u64 << 28,
            size in 1..1_u64 << 24,
            reach_bits in 24..34_u32,
            taken in proptest::collection::vec((0..1_u64 << 36, 0..1_u64 << 30), 0..40),
        ) {
            let extent = (low, low.saturating_add(length));
            let near = Near { extent, sites: extent, size, reach: 1 << reach_bits, page: 4096 };
            let around = low.saturating_sub(1 << 35);
            let taken: Vec<(u64, u64)> = taken
                .into_iter()
                .map(|(at, size)| (around.saturating_add(at), around.saturating_add(at + size)))
                .collect();
            for start in near.places(&taken) {
                let end = start + size;
                prop_assert_eq!(start % 4096, 0);
                prop_assert!(start >= LOWEST);
                prop_assert!(end <= extent.0 || start >= extent.1);
                prop_assert!(taken.iter().all(|(low, high)| end <= *low || start >= *high || low == high));
                prop_assert!(extent.1.saturating_sub(start) <= near.reach);
                prop_assert!(end.saturating_sub(extent.0) <= near.reach);
            }
        }
    }
}
