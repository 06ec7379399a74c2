//! Jump tables of words of four bytes that are relative to an address, which code takes.

use super::image::Image;
use super::references::{Base, Kind, References};
use std::ops::Range;

/// Adds what the tables could lead to that begin at addresses which code takes: word by word, as long as they lead to code, up to the
/// next such address.
pub(super) fn walk(image: &Image<'_>, references: &mut References) {
    let mut bases: Vec<u64> = references.bases.iter().map(|base| base.address).collect();
    bases.sort_unstable();
    bases.dedup();
    let nexts = bases.iter().skip(1).copied().chain([u64::MAX]);
    for (base, next) in bases.iter().zip(nexts) {
        let length = usize::try_from(next - base).unwrap_or(usize::MAX);
        let bytes = image.at(*base);
        let bytes = bytes.get(..length).unwrap_or(bytes);
        for (index, entry) in bytes.chunks_exact(4).enumerate() {
            let entry = entry.first_chunk().map_or(0, |entry| i32::from_le_bytes(*entry));
            let target = base.wrapping_add_signed(i64::from(entry));
            if !image.is_code(target) {
                break;
            }
            references.add(target, base + 4 * index as u64, Kind::Table);
        }
    }
}

/// All words of four bytes in data, by value.
#[derive(Debug)]
pub(super) struct Words {
    /// Value and address, ascending.
    all: Vec<(i32, u64)>,
}

impl Words {
    pub(super) fn of(image: &Image<'_>) -> Self {
        let mut all = Vec::new();
        for (start, bytes) in &image.data {
            // Data that's loaded at an odd address begins with bytes that belong to no word.
            let skipped = usize::try_from(start.wrapping_neg() % 4).unwrap_or(0);
            let words = bytes.get(skipped..).unwrap_or_default().chunks_exact(4);
            for (index, word) in words.enumerate() {
                let value = word.first_chunk().map_or(0, |word| i32::from_le_bytes(*word));
                all.push((value, start + (skipped + 4 * index) as u64));
            }
        }
        all.sort_unstable();
        Self { all }
    }

    /// A word that leads into `range`, relative to one of the `bases`.
    pub(super) fn lead_to(&self, bases: &[Base], range: &Range<u64>) -> Option<u64> {
        bases.iter().find_map(|base| {
            let distance =
                |address: u64| i32::try_from(address.wrapping_sub(base.address).cast_signed()).ok();
            let (first, end) = (distance(range.start)?, distance(range.end)?);
            let at = self.all.partition_point(|(value, _)| *value < first);
            self.all.get(at).filter(|(value, _)| *value < end).map(|(_, address)| *address)
        })
    }
}
