//! Jump tables: words of four bytes that are relative to an address, which code takes; and numbers of instructions, in one, two or four
//! bytes, from an address in code (AArch64).

use super::image::Image;
use mcount_cpu::probe::{Base, Kind, References};
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
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Value and number, in the high and the low half, ascending: a file has millions, and this way they're sorted in half the time.
    all: Vec<u64>,
    /// The number of the first word of each piece of data, and its address.
    pieces: Vec<(u64, u64)>,
}

impl Words {
    pub(super) fn of(image: &Image<'_>) -> Self {
        let (mut all, mut pieces) = (Vec::new(), Vec::new());
        for (start, bytes) in &image.data {
            // Data that's loaded at an odd address begins with bytes that belong to no word.
            let skipped = usize::try_from(start.wrapping_neg() % 4).unwrap_or(0);
            let words = bytes.get(skipped..).unwrap_or_default().chunks_exact(4);
            pieces.push((all.len() as u64, start + skipped as u64));
            let first = all.len() as u64;
            all.extend(words.zip(first..).map(|(word, number)| {
                let value = word.first_chunk().map_or(0, |word| i32::from_le_bytes(*word));
                // No file has so many words that the number is too large. It only says where the word is.
                from(value) | number.min(u32::MAX.into())
            }));
        }
        all.sort_unstable();
        Self { all, pieces }
    }

    /// A word that leads into `range`, relative to one of the `bases`.
    pub(super) fn lead_to(&self, bases: &[Base], range: &Range<u64>) -> Option<u64> {
        bases.iter().find_map(|base| {
            let distance =
                |address: u64| i32::try_from(address.wrapping_sub(base.address).cast_signed()).ok();
            let (first, end) = (distance(range.start)?, distance(range.end)?);
            let at = self.all.partition_point(|word| *word < from(first));
            let found = self.all.get(at).filter(|word| **word < from(end))?;
            self.address(found & u64::from(u32::MAX))
        })
    }

    /// The address of the word with this number.
    fn address(&self, number: u64) -> Option<u64> {
        let after = self.pieces.partition_point(|(first, _)| *first <= number);
        let (first, start) = self.pieces.get(after.checked_sub(1)?)?;
        Some(start + 4 * (number - first))
    }
}

/// The smallest entry with this value: the order of entries is that of values, which have a sign.
fn from(value: i32) -> u64 {
    u64::from(value.cast_unsigned() ^ 1 << 31) << 32
}

/// Where jump tables may begin.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// All addresses that code takes, ascending.
    starts: Vec<u64>,
}

/// How many entries are looked at for one function.
const MOST_ENTRIES: usize = 1 << 16;

/// How entries of a table are read, and how many bytes they have.
type Width = (usize, fn(&[u8]) -> i64);

/// gcc's entries have a sign, clang's don't.
const WIDTHS: [Width; 5] = [
    (1, |bytes| i64::from(bytes.first().copied().unwrap_or(0).cast_signed())),
    (1, |bytes| i64::from(bytes.first().copied().unwrap_or(0))),
    (2, |bytes| i64::from(bytes.first_chunk().map_or(0, |bytes| i16::from_le_bytes(*bytes)))),
    (2, |bytes| i64::from(bytes.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes)))),
    (4, |bytes| i64::from(bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes)))),
];

impl Tables {
    pub(super) fn of(references: &References) -> Self {
        let mut starts: Vec<u64> = references.bases.iter().map(|base| base.address).collect();
        starts.sort_unstable();
        starts.dedup();
        Self { starts }
    }

    /// An entry that leads into `range`, of a table that begins at one of the `bases` that a function takes, whose pieces are `owners`.
    pub(super) fn lead_to(
        &self,
        image: &Image<'_>,
        bases: &[Base],
        owners: &[Range<u64>],
        range: &Range<u64>,
    ) -> Option<u64> {
        let is_own = |address: u64| owners.iter().any(|owner| owner.contains(&address));
        let origins = || bases.iter().map(|base| base.address).filter(|at| is_own(*at));
        let starts = bases.iter().map(|base| base.address).filter(|at| !image.is_code(*at));
        let mut left = MOST_ENTRIES;
        for start in starts {
            let bytes = self.table(image, start);
            let plain = [(start, 1, WIDTHS[4])].into_iter();
            let scaled = origins().flat_map(|origin| WIDTHS.map(|width| (origin, 4, width)));
            for (origin, scale, (size, read)) in plain.chain(scaled) {
                for (index, entry) in bytes.chunks_exact(size).enumerate() {
                    let target = origin.wrapping_add_signed(read(entry).wrapping_mul(scale));
                    // Without an end to the search, nothing is proved.
                    if range.contains(&target) || left == 0 {
                        return Some(start + (index * size) as u64);
                    }
                    left -= 1;
                    if !is_own(target) {
                        break;
                    }
                }
            }
        }
        None
    }

    /// The bytes from `start` to the next address that code takes.
    fn table<'d>(&self, image: &Image<'d>, start: u64) -> &'d [u8] {
        let next = self.starts.partition_point(|other| *other <= start);
        let next = self.starts.get(next).copied().unwrap_or(u64::MAX);
        let length = usize::try_from(next - start).unwrap_or(usize::MAX);
        let bytes = image.at(start);
        bytes.get(..length).unwrap_or(bytes)
    }
}
