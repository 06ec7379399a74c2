//! Compresses traces, a block at a time, so that several processors can.
//!
//! The encoder is ruzstd's, with a search for repetitions of our own: each column is a block of its own in the frame,
//! so that it gets a code of its own, and repeats only itself.

use crate::columns::split;
use crate::error::Error;
use crate::layout::call;
use crate::layout::packed::{
    self, BLOCK, COLUMNS, COLUMNS_BIG_ENDIAN, HEAD_SIZE, MAGIC, PLAIN, TABLE_MAGIC, VERSION,
};
use crate::trace::call_chunks;
use crate::unpack::{contents, is_packed};
use ruzstd::encoding::{CompressionLevel, FrameCompressor, Matcher, Sequence};

/// A trace on its way into a compressed one: the head, the frame of each block, and the table, one after the other.
#[derive(Debug)]
pub struct Packer<'b> {
    bytes: &'b [u8],
    big_endian: bool,
    /// Of each block, whether it has calls.
    has_calls: Vec<bool>,
}

impl<'b> Packer<'b> {
    /// Finds out what is to be compressed how.
    ///
    /// # Errors
    ///
    /// The bytes are no trace.
    pub fn new(bytes: &'b [u8]) -> Result<Self, Error> {
        if is_packed(bytes) {
            return Err(Error::Packed);
        }
        let (big_endian, chunks) = call_chunks(bytes)?;
        let mut has_calls = vec![false; bytes.len().div_ceil(BLOCK)];
        for (offset, size) in chunks {
            let blocks = offset / BLOCK..offset.saturating_add(size).div_ceil(BLOCK);
            has_calls.get_mut(blocks).unwrap_or_default().fill(true);
        }
        Ok(Self { bytes, big_endian, has_calls })
    }

    /// The first bytes of the file.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = skippable(packed::HEAD, HEAD_SIZE);
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend([0; 4]);
        head.extend((self.bytes.len() as u64).to_le_bytes());
        head
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.has_calls.len()
    }

    /// The frame of a block, and how many bytes are in it.
    #[must_use]
    pub fn frame(&self, number: usize) -> (Vec<u8>, usize) {
        let block = self.bytes.chunks(BLOCK).nth(number).unwrap_or_default();
        let mut parts = Vec::new();
        if self.has_calls.get(number) == Some(&true) {
            parts = columns(block, self.big_endian);
        }
        if parts.is_empty() || parts.iter().map(Vec::len).sum::<usize>() > block.len() {
            parts = vec![vec![PLAIN], block.to_vec()];
        }
        let whole = parts.concat();
        let mut frame = compressed(&parts, &whole);
        if contents(&frame).as_ref() != Some(&whole) {
            // An encoder that errs costs room, not calls.
            frame.clear();
            ruzstd::encoding::compress(
                whole.as_slice(),
                &mut frame,
                CompressionLevel::Uncompressed,
            );
        }
        (frame, whole.len())
    }

    /// What the file ends with: the table of its frames, of which `frames` has both sizes, the head not among them.
    #[must_use]
    pub fn table(&self, frames: &[(u32, u32)]) -> Vec<u8> {
        let size = (frames.len() + 1) * packed::ENTRY + packed::FOOTER;
        let mut table = skippable(packed::TABLE, size);
        let head = u32::try_from(packed::SKIPPABLE + HEAD_SIZE).unwrap_or(0);
        for (compressed, whole) in [(head, 0)].iter().chain(frames) {
            table.extend(compressed.to_le_bytes());
            table.extend(whole.to_le_bytes());
        }
        table.extend(u32::try_from(frames.len() + 1).unwrap_or(u32::MAX).to_le_bytes());
        table.push(0);
        table.extend(TABLE_MAGIC.to_le_bytes());
        table
    }
}

/// The beginning of a frame that zstd skips.
fn skippable(magic: u32, size: usize) -> Vec<u8> {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    [magic.to_le_bytes(), size.to_le_bytes()].concat()
}

/// The columns of a block of calls, behind what says how long they are; nothing if they aren't whole records.
fn columns(block: &[u8], big_endian: bool) -> Vec<Vec<u8>> {
    let (records, []) = block.as_chunks::<{ call::SIZE }>() else { return Vec::new() };
    let columns = split(records, big_endian);
    let form = if big_endian { COLUMNS_BIG_ENDIAN } else { COLUMNS };
    let mut head = vec![form, 0, 0, 0];
    for column in columns.all() {
        head.extend(u32::try_from(column.len()).unwrap_or(0).to_le_bytes());
    }
    let mut parts = vec![head];
    parts.extend(columns.all().into_iter().filter(|column| !column.is_empty()).cloned());
    parts
}

/// `whole` as a frame, each of its parts a block.
fn compressed(parts: &[Vec<u8>], whole: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(whole.len() / 2);
    let sizes = parts.iter().map(Vec::len).rev().collect();
    let search = Search { sizes, part: Vec::new(), table: vec![0; 1 << TABLE_BITS] };
    let mut encoder = FrameCompressor::new_with_matcher(search, CompressionLevel::Fastest);
    encoder.set_source(whole);
    encoder.set_drain(&mut frame);
    encoder.compress();
    drop(encoder);
    frame
}

const TABLE_BITS: u32 = 12;

/// The shortest repetition that is worth a word.
const SHORTEST: usize = 6;

/// Finds repetitions within a part.
struct Search {
    /// How long the parts are that are still to come, the next one last.
    sizes: Vec<usize>,
    part: Vec<u8>,
    /// Where bytes like these were seen last, plus one.
    table: Vec<u32>,
}

impl Search {
    /// The bytes at `at`, mixed.
    fn place(&self, at: usize) -> Option<usize> {
        let bytes: [u8; 4] = *self.part.get(at..)?.first_chunk()?;
        let mixed = u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1);
        usize::try_from(mixed >> (32 - TABLE_BITS)).ok()
    }

    /// A repetition of earlier bytes at `at`: from where, and how long.
    fn find(&mut self, at: usize) -> Option<(usize, usize)> {
        let place = self.place(at)?;
        let place = self.table.get_mut(place)?;
        let next = u32::try_from(at + 1).ok()?;
        let from = usize::try_from(std::mem::replace(place, next)).ok()?.checked_sub(1)?;
        let (earlier, here) = (self.part.get(from..)?, self.part.get(at..)?);
        let length = earlier.iter().zip(here).take_while(|(one, other)| one == other).count();
        (length >= SHORTEST).then_some((from, length))
    }

    /// Where repetitions are: offset, from where, how long.
    fn all(&mut self) -> Vec<(usize, usize, usize)> {
        self.table.fill(0);
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.part.len() {
            match self.find(at) {
                Some((from, length)) => {
                    found.push((at, from, length));
                    at += length;
                }
                None => at += 1,
            }
        }
        found
    }
}

impl Matcher for Search {
    fn get_next_space(&mut self) -> Vec<u8> {
        vec![0; self.sizes.pop().unwrap_or(1)]
    }

    fn get_last_space(&mut self) -> &[u8] {
        &self.part
    }

    fn commit_space(&mut self, space: Vec<u8>) {
        self.part = space;
    }

    fn skip_matching(&mut self) {}

    fn start_matching(&mut self, mut tell: impl for<'d> FnMut(Sequence<'d>)) {
        let mut found = self.all();
        let mut done = 0;
        let mut literals = Vec::new();
        for (at, _, length) in &found {
            literals.extend_from_slice(self.part.get(done..*at).unwrap_or_default());
            done = at + length;
        }
        literals.extend_from_slice(self.part.get(done..).unwrap_or_default());
        if literals.windows(2).all(|pair| pair.first() == pair.last()) {
            // The encoder has no code for one symbol.
            found.clear();
        }
        done = 0;
        for (at, from, match_len) in found {
            let literals = self.part.get(done..at).unwrap_or_default();
            tell(Sequence::Triple { literals, offset: at - from, match_len });
            done = at + match_len;
        }
        tell(Sequence::Literals { literals: self.part.get(done..).unwrap_or_default() });
    }

    fn reset(&mut self, _level: CompressionLevel) {}

    fn window_size(&self) -> u64 {
        2 * BLOCK as u64
    }
}
