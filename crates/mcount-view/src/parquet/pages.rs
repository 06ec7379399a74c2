//! The pages of a column in a group of rows: a dictionary for texts, and the values.

use super::thrift::Struct;
use super::{Column, Field, Kind, Texts, Values};
use crate::varint::varint;
use std::collections::HashMap;

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
            page.reserve(all.len() * 8);
            for value in all {
                page.extend_from_slice(&value.to_le_bytes());
            }
            if !matches!(field.kind, Kind::Unsigned | Kind::Real) {
                bounds = all.iter().copied().min().zip(all.iter().copied().max());
            }
            PLAIN
        }
        // Without any, there's no dictionary.
        Values::Texts(all) if all.is_empty() => PLAIN,
        Values::Own(_) | Values::Unwanted => PLAIN,
        Values::Texts(all) => {
            let (texts, places) = numbered(all);
            let mut words = Vec::new();
            for place in &texts {
                let word = all_texts.get(*place);
                words.extend_from_slice(&u32::try_from(word.len()).unwrap_or(0).to_le_bytes());
                words.extend_from_slice(word);
            }
            dictionary = Some(begin);
            let mut head = Struct::new();
            head.i32(1, count_of(texts.len()));
            head.i32(2, PLAIN);
            unpacked += append(out, (DICTIONARY_PAGE, 7), head, &words);
            let width = usize::BITS - texts.len().saturating_sub(1).leading_zeros();
            page.push(u8::try_from(width).unwrap_or(0));
            pack(&mut page, &places, width);
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

/// Which texts there are, in the order in which they come up, and for each value its place among them.
fn numbered(all: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut texts, mut places) = (Vec::new(), Vec::with_capacity(all.len()));
    let mut known: HashMap<u32, u32, foldhash::fast::RandomState> = HashMap::default();
    let mut last = None;
    for text in all {
        let place = match last {
            Some((same, place)) if same == *text => place,
            _ => {
                let next = u32::try_from(texts.len()).unwrap_or(u32::MAX);
                *known.entry(*text).or_insert_with(|| {
                    texts.push(*text);
                    next
                })
            }
        };
        last = Some((*text, place));
        places.push(place);
    }
    (texts, places)
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
        while count >= 8 {
            out.push((bits & 0xff) as u8);
            bits >>= 8;
            count -= 8;
        }
    }
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
