//! The pages of a column in a group of rows: a dictionary for texts, and the values.

use super::thrift::Struct;
use super::{Column, Field, Kind, Texts, Values};
use crate::varint::varint;

/// Encodings, by their numbers.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;

/// The compression, by its number: blocks of LZ4 without a frame.
const LZ4_RAW: i32 = 7;

/// Kinds of pages.
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// A column in a group of rows, as it is described at the end of a file.
#[derive(Debug)]
pub(super) struct Chunk {
    values: u64,
    nulls: u64,
    /// Where its pages begin in the bytes of the group; the dictionary is the first.
    dictionary: Option<u64>,
    data: u64,
    packed: u64,
    /// Bytes before they were compressed.
    pub(super) unpacked: u64,
    /// The least and the greatest number.
    bounds: Option<(i64, i64)>,
}

impl Chunk {
    /// Its description, in a file that has the group at `offset`.
    pub(super) fn describe(&self, field: &Field, offset: u64) -> Struct {
        let mut column = Struct::new();
        column.i32(1, field.kind.physical());
        match self.dictionary {
            Some(_) => column.numbers(2, &[PLAIN, RLE, RLE_DICTIONARY]),
            None => column.numbers(2, &[PLAIN, RLE]),
        }
        column.texts(3, &[field.name]);
        column.i32(4, LZ4_RAW);
        column.i64(5, self.values);
        column.i64(6, self.unpacked);
        column.i64(7, self.packed);
        column.i64(9, offset + self.data);
        if let Some(dictionary) = self.dictionary {
            column.i64(11, offset + dictionary);
        }
        let mut statistics = Struct::new();
        statistics.i64(3, self.nulls);
        if let Some((least, greatest)) = self.bounds {
            statistics.bytes(5, &greatest.to_le_bytes());
            statistics.bytes(6, &least.to_le_bytes());
        }
        column.inner(12, statistics);
        let mut chunk = Struct::new();
        chunk.i64(2, offset + self.dictionary.unwrap_or(self.data));
        chunk.inner(3, column);
        chunk
    }
}

/// Appends the pages of a column.
pub(super) fn chunk(out: &mut Vec<u8>, field: &Field, column: &Column, all_texts: &Texts) -> Chunk {
    match &column.values {
        Values::Own(own) => {
            let mut texts = Texts::default();
            let places = own.iter().map(|text| texts.add(text)).collect();
            let column = Column { values: Values::Texts(places), present: column.present.clone() };
            listed(out, field, &column, &texts)
        }
        _ => listed(out, field, column, all_texts),
    }
}

/// The same of a column whose texts are in a list.
fn listed(out: &mut Vec<u8>, field: &Field, column: &Column, all_texts: &Texts) -> Chunk {
    let begin = out.len() as u64;
    let mut page = Vec::new();
    let count = column.count();
    let values = if field.is_optional { column.present.len() } else { count };
    if field.is_optional {
        levels(&mut page, &column.present);
    }
    let (mut unpacked, mut dictionary, mut bounds) = (0, None, None);
    let encoding = match &column.values {
        Values::Numbers(all) if field.kind == Kind::Boolean => {
            bits(&mut page, all.iter().map(|value| *value != 0));
            PLAIN
        }
        Values::Numbers(all) => {
            let range = range(all);
            bounds = range.filter(|_| !matches!(field.kind, Kind::Unsigned | Kind::Real));
            if let Some((numbers, places)) = range.and_then(|range| few(all, range)) {
                dictionary = Some(begin);
                let words: Vec<u8> =
                    numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                let count = numbers.len();
                unpacked += with_dictionary(out, &mut page, (&words, count), &places);
                RLE_DICTIONARY
            } else {
                page.reserve(all.len() * 8);
                for value in all {
                    page.extend_from_slice(&value.to_le_bytes());
                }
                PLAIN
            }
        }
        // Without any, there's no dictionary.
        Values::Texts(all) if all.is_empty() => PLAIN,
        Values::Own(_) | Values::Unwanted => PLAIN,
        Values::Texts(all) => {
            let Places { different, places } = match is_same(all) {
                Some(one) => Places::same(*one, all.len()),
                None => Places::of(all.iter().copied()),
            };
            dictionary = Some(begin);
            let (words, count) = (words(all_texts, &different), different.len());
            unpacked += with_dictionary(out, &mut page, (&words, count), &places);
            RLE_DICTIONARY
        }
    };
    let data = out.len() as u64;
    let mut head = Struct::new();
    head.i32(1, count_of(values));
    head.i32(2, encoding);
    head.i32(3, RLE);
    head.i32(4, RLE);
    unpacked += append(out, (DATA_PAGE, 5), head, &page);
    let (values, nulls) = (values as u64, (values - count.min(values)) as u64);
    let packed = out.len() as u64 - begin;
    Chunk { values, nulls, dictionary, data, packed, unpacked, bounds }
}

/// Texts, each after its length.
fn words(all: &Texts, places: &[u32]) -> Vec<u8> {
    let mut words = Vec::new();
    for place in places {
        let word = all.get(*place);
        words.extend_from_slice(&u32::try_from(word.len()).unwrap_or(0).to_le_bytes());
        words.extend_from_slice(word);
    }
    words
}

fn count_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Appends a page with its header, which has `head` as this field; its bytes before they were compressed.
fn append(out: &mut Vec<u8>, (kind, field): (i32, u8), head: Struct, page: &[u8]) -> u64 {
    let packed = lz4_flex::block::compress(page);
    let mut header = Struct::new();
    header.i32(1, kind);
    header.i32(2, count_of(page.len()));
    header.i32(3, count_of(packed.len()));
    header.inner(field, head);
    let header = header.finish();
    out.extend_from_slice(&header);
    out.extend_from_slice(&packed);
    (header.len() + page.len()) as u64
}

/// Appends a dictionary of `count` words, and to `page` the place of each value in it. Returns the size of the dictionary's page before
/// compression.
fn with_dictionary(
    out: &mut Vec<u8>,
    page: &mut Vec<u8>,
    (words, count): (&[u8], usize),
    places: &[u32],
) -> u64 {
    let mut head = Struct::new();
    head.i32(1, count_of(count));
    head.i32(2, PLAIN);
    let unpacked = append(out, (DICTIONARY_PAGE, 7), head, words);
    let width = usize::BITS - count.saturating_sub(1).leading_zeros();
    page.push(u8::try_from(width).unwrap_or(0));
    pack(page, places, width);
    unpacked
}

/// Different numbers, in the order in which they come up, and for each value its place among them.
struct Places {
    different: Vec<u32>,
    places: Vec<u32>,
}

impl Places {
    /// Of `count` times the same number.
    fn same(number: u32, count: usize) -> Self {
        Self { different: vec![number], places: vec![0; count] }
    }

    /// Of numbers that aren't much greater than there are of them.
    fn of(all: impl Iterator<Item = u32> + Clone) -> Self {
        const NEW: u32 = u32::MAX;
        let most = all.clone().max().unwrap_or(0) as usize;
        let mut known = vec![NEW; most + 1];
        let mut different = Vec::new();
        let place = |number: u32| match known.get_mut(number as usize) {
            Some(place) if *place == NEW => {
                *place = u32::try_from(different.len()).unwrap_or(NEW);
                different.push(number);
                *place
            }
            Some(place) => *place,
            None => 0,
        };
        let places = all.map(place).collect();
        Self { different, places }
    }
}

/// The value that all rows have, if they have the same, as in the columns of the trace, the process and the thread.
fn is_same<T: PartialEq>(all: &[T]) -> Option<&T> {
    let first = all.first()?;
    all.iter().all(|one| one == first).then_some(first)
}

/// The least and the greatest number.
fn range(all: &[i64]) -> Option<(i64, i64)> {
    let first = *all.first()?;
    if is_same(all).is_some() {
        return Some((first, first));
    }
    let wider = |(least, most): (i64, i64), one: &i64| (least.min(*one), most.max(*one));
    Some(all.iter().fold((first, first), wider))
}

/// The different numbers, and the place of each value among them, if they're few and near each other, as numbers of processes and functions
/// are. A dictionary is smaller then, and quicker to write.
fn few(all: &[i64], (least, most): (i64, i64)) -> Option<(Vec<i64>, Vec<u32>)> {
    let span = u32::try_from(most.checked_sub(least)?).ok()?;
    if span as usize > all.len() {
        return None;
    }
    if span == 0 {
        return Some((vec![least], vec![0; all.len()]));
    }
    let from_least = |value: &i64| u32::try_from(value - least).unwrap_or(0);
    let Places { different, places } = Places::of(all.iter().map(from_least));
    // Of numbers that are nearly all different, the dictionary is as long as they are.
    if different.len() * 4 > all.len() {
        return None;
    }
    Some((different.into_iter().map(|number| least + i64::from(number)).collect(), places))
}

/// Appends which rows have a value: numbers of one bit, after the number of their bytes.
fn levels(page: &mut Vec<u8>, present: &[bool]) {
    let mut bits = Vec::new();
    if present.iter().all(|is_there| *is_there) {
        repeated(&mut bits, present.len(), 1, 1);
    } else {
        let all: Vec<u32> = present.iter().map(|is_there| u32::from(*is_there)).collect();
        pack(&mut bits, &all, 1);
    }
    page.extend_from_slice(&u32::try_from(bits.len()).unwrap_or(0).to_le_bytes());
    page.extend_from_slice(&bits);
}

/// Appends the same number so many times.
fn repeated(out: &mut Vec<u8>, count: usize, value: u8, width: u32) {
    varint(out, (count as u64) << 1);
    if width > 0 {
        out.push(value);
    }
}

/// Appends numbers of `width` bits, the lowest bit first.
fn pack(out: &mut Vec<u8>, values: &[u32], width: u32) {
    if width == 0 {
        return repeated(out, values.len(), 0, 0);
    }
    varint(out, (values.len().div_ceil(8) as u64) << 1 | 1);
    let (mut bits, mut count) = (0_u64, 0);
    let filler = values.len().next_multiple_of(8) - values.len();
    for value in values.iter().copied().chain(std::iter::repeat_n(0, filler)) {
        bits |= u64::from(value) << count;
        count += width;
        if count >= u32::BITS {
            let [one, two, three, four, ..] = bits.to_le_bytes();
            out.extend([one, two, three, four]);
            bits >>= u32::BITS;
            count -= u32::BITS;
        }
    }
    out.extend_from_slice(bits.to_le_bytes().get(..count as usize / 8).unwrap_or_default());
}

/// Appends bits, the lowest of a byte first.
fn bits(out: &mut Vec<u8>, values: impl Iterator<Item = bool>) {
    for (at, value) in values.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(value) << (at % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that were packed, bit by bit.
    fn unpacked(bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
        let number =
            |one: usize| (0..width).map(|at| bit(one * width as usize + at as usize) << at).sum();
        (0..count).map(number).collect()
    }

    #[test]
    fn numbers_are_packed_without_gaps() {
        for width in 1..=32 {
            for count in [1_usize, 7, 8, 9, 63, 64, 65] {
                let most = u64::from(u32::MAX) >> (32 - width);
                let number = |at: u64| u32::try_from(at * 0x9e37_79b9 % (most + 1)).unwrap();
                let values: Vec<u32> = (1..=count as u64).map(number).collect();
                let mut out = Vec::new();
                pack(&mut out, &values, width);
                // One byte says how many groups of eight there are.
                assert_eq!(out.len(), 1 + count.div_ceil(8) * width as usize);
                assert_eq!(unpacked(&out[1..], width, count), values, "{width} {count}");
            }
        }
    }

    #[test]
    fn few_numbers_have_a_dictionary() {
        let rows: [(Vec<i64>, bool); 7] = [
            (vec![7; 100], true),
            (vec![i64::MIN; 3], true),
            ((0..100).map(|at| i64::MAX - at % 9).collect(), true),
            ((0..100).map(|at| at % 9 - 5).collect(), true),
            ((0..100).collect(), false),
            ((0..100).map(|at| at % 9 * 1000).collect(), false),
            (vec![i64::MIN, i64::MAX], false),
        ];
        for (all, is_few) in rows {
            let found = few(&all, range(&all).unwrap());
            assert_eq!(found.is_some(), is_few, "{all:?}");
            let Some((numbers, places)) = found else { continue };
            let again: Vec<i64> = places.iter().map(|place| numbers[*place as usize]).collect();
            assert_eq!(again, all);
        }
        assert_eq!(range(&[]), None);
        assert_eq!(range(&[3, -1, 2]), Some((-1, 3)));
    }
}
