//! Compressed traces: what is in which frame, and reading one.
//!
//! The file is a row of zstd frames, with a table of them at its end, as zstd's seekable format has it. So each block
//! of the trace is found without the others. Nothing is believed: frames decode to no more than a block, a few
//! blocks are held at a time, and what is kept of them is in proportion to the file.

use crate::bytes::Bytes;
use crate::columns::{COLUMNS, join};
use crate::error::Error;
use crate::layout::packed::{
    self, BLOCK, ENTRY, FOOTER, HEAD_SIZE, MAGIC, SKIPPABLE, TABLE_MAGIC, VERSION,
};
use ruzstd::decoding::FrameDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many blocks are held, at most.
const HELD: usize = 128;

/// The most bytes that a frame's contents can have: the columns of a block are never larger than it.
const CONTENTS: usize = BLOCK + 64;

/// A block and its number.
type Held = (usize, Arc<Vec<u8>>);

/// A compressed trace. [`crate::Trace::unpack`] reads it.
#[derive(Debug)]
pub struct Packed<'b> {
    bytes: &'b [u8],
    /// Bytes of the trace.
    size: usize,
    is_cut_off: bool,
    /// Where the frame of each block begins, and where the last one ends.
    frames: Vec<u64>,
    /// What readers need again and again, by offset.
    kept: OnceLock<BTreeMap<usize, Vec<u8>>>,
    held: Vec<Mutex<Option<Held>>>,
    bad: Mutex<BTreeSet<usize>>,
}

/// Some bytes of a trace.
pub(crate) enum Part<'a> {
    Plain(&'a [u8]),
    Block(Arc<Vec<u8>>, Range<usize>),
}

impl Deref for Part<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Block(block, range) => block.get(range.clone()).unwrap_or_default(),
        }
    }
}

/// Whether these bytes are a compressed trace.
#[must_use]
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.get(SKIPPABLE..).is_some_and(|rest| rest.starts_with(&MAGIC))
}

impl<'b> Packed<'b> {
    /// Finds the frames of a compressed trace.
    ///
    /// # Errors
    ///
    /// The bytes are none, or of a version that isn't known.
    pub fn open(bytes: &'b [u8]) -> Result<Self, Error> {
        let file = Bytes { bytes, big_endian: false };
        if !is_packed(bytes) {
            return Err(Error::NotATrace);
        }
        let version = file.u32(SKIPPABLE + 8).ok_or(Error::TooShort)?;
        if version != VERSION {
            return Err(Error::PackedVersion(version));
        }
        let size = file.u64(SKIPPABLE + 16).ok_or(Error::TooShort)?;
        let mut frames = table(file).unwrap_or_else(|| scan(file));
        let blocks = usize::try_from(size).unwrap_or(usize::MAX).div_ceil(BLOCK);
        frames.truncate(blocks.saturating_add(1));
        // What a file that was cut off doesn't have can't be found out from its size, which may lie.
        let there = frames.len().saturating_sub(1).saturating_mul(BLOCK);
        let said = usize::try_from(size).unwrap_or(usize::MAX);
        let (size, is_cut_off) = (said.min(there), said > there);
        let held = (0..HELD).map(|_| Mutex::new(None)).collect();
        let (kept, bad) = (OnceLock::new(), Mutex::new(BTreeSet::new()));
        Ok(Self { bytes, size, is_cut_off, frames, kept, held, bad })
    }

    /// How many blocks the trace has.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// The bytes of a block of the trace, as they were before it was compressed; `None` if its frame is damaged.
    #[must_use]
    pub fn block(&self, number: usize) -> Option<Vec<u8>> {
        let [begin, end] = *self.frames.get(number..)?.first_chunk()?;
        let (begin, end) = (usize::try_from(begin).ok()?, usize::try_from(end).ok()?);
        let wanted = self.size.checked_sub(number.checked_mul(BLOCK)?)?.min(BLOCK);
        let block = contents(self.bytes.get(begin..end)?).and_then(|contents| unfold(&contents));
        block.filter(|block| block.len() == wanted)
    }

    /// Whether frames are missing.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Bytes of the trace.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> usize {
        self.size
    }

    /// How many frames couldn't be read so far.
    pub(crate) fn bad_frames(&self) -> u64 {
        lock(&self.bad).len() as u64
    }

    pub(crate) fn room(&self) -> u64 {
        (1 << 20) + 8 * self.bytes.len() as u64
    }

    /// Keeps these pieces in memory, given by offset and size, as far as that's in proportion to the file.
    pub(crate) fn keep(&self, pieces: impl Iterator<Item = (usize, usize)>) {
        self.kept.get_or_init(|| {
            let mut room = (1 << 26) + 64 * self.bytes.len();
            let mut kept = BTreeMap::new();
            for (offset, size) in pieces {
                let size = size.min(self.size.saturating_sub(offset)).min(room);
                let mut bytes = Vec::new();
                while bytes.len() < size {
                    let part = self.load(offset + bytes.len(), size - bytes.len());
                    if part.is_empty() {
                        break;
                    }
                    bytes.extend_from_slice(&part);
                }
                room -= bytes.len();
                kept.insert(offset, bytes);
            }
            kept
        });
    }

    /// Up to `size` bytes from `offset` on of what is kept.
    pub(crate) fn kept(&self, offset: usize, size: usize) -> &[u8] {
        let kept = self.kept.get().and_then(|kept| kept.range(..=offset).next_back());
        let Some((begin, bytes)) = kept else { return &[] };
        let rest = bytes.get(offset - begin..).unwrap_or_default();
        rest.get(..size).unwrap_or(rest)
    }

    /// Up to `size` bytes from `offset` on, as many as there are in one block.
    pub(crate) fn load(&self, offset: usize, size: usize) -> Part<'b> {
        let number = offset / BLOCK;
        let Some(place) = self.held.get(number % HELD) else { return Part::Plain(&[]) };
        let mut held = lock(place);
        let block = match &*held {
            Some((found, block)) if *found == number => Arc::clone(block),
            _ => {
                let Some(block) = self.block(number) else {
                    if number < self.blocks() {
                        lock(&self.bad).insert(number);
                    }
                    return Part::Plain(&[]);
                };
                let block = Arc::new(block);
                *held = Some((number, Arc::clone(&block)));
                block
            }
        };
        drop(held);
        let begin = offset % BLOCK;
        let end = begin.saturating_add(size).min(block.len());
        Part::Block(block, begin.min(end)..end)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the frames of blocks are, by the table at the end; `None` if there's none that can be right.
fn table(file: Bytes<'_>) -> Option<Vec<u64>> {
    let footer = file.bytes.len().checked_sub(FOOTER)?;
    if file.u32(footer + 5)? != TABLE_MAGIC || file.bytes.get(footer + 4) != Some(&0) {
        return None;
    }
    let count = usize::try_from(file.u32(footer)?).ok()?;
    let first = footer.checked_sub(count.checked_mul(ENTRY)?)?;
    let frame = first.checked_sub(SKIPPABLE)?;
    if file.u32(frame)? != packed::TABLE {
        return None;
    }
    let mut at = 0;
    let mut frames = Vec::with_capacity(count);
    for entry in 0..count {
        at += u64::from(file.u32(first + entry * ENTRY)?);
        frames.push(at);
    }
    let is_right = frames.first() == Some(&((SKIPPABLE + HEAD_SIZE) as u64)) && at == frame as u64;
    is_right.then_some(frames)
}

/// Where the frames of blocks are, by going over all of them, as far as they are whole.
fn scan(file: Bytes<'_>) -> Vec<u64> {
    let mut at = SKIPPABLE + HEAD_SIZE;
    let mut frames = vec![at as u64];
    while let Some(end) = frame_end(file, at) {
        frames.push(end as u64);
        at = end;
    }
    frames
}

/// Where the frame at `at` ends, if it is one of those that are written here (RFC 8878, section 3.1.1).
fn frame_end(file: Bytes<'_>, at: usize) -> Option<usize> {
    const MAGIC: u32 = 0xfd2f_b528;
    const RLE: u32 = 1;
    let descriptor = *file.bytes.get(at.checked_add(4)?)?;
    if file.u32(at)? != MAGIC || descriptor & 0b1111_1011 != 0 {
        return None;
    }
    let mut at = at + 6;
    loop {
        let [a, b, c] = *file.bytes.get(at..)?.first_chunk()?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = if (header >> 1) & 3 == RLE { 1 } else { header >> 3 };
        at = at.checked_add(3)?.checked_add(usize::try_from(size).ok()?)?;
        if header & 1 != 0 {
            break;
        }
    }
    let end = if descriptor & 4 == 0 { at } else { at.checked_add(4)? };
    (end <= file.bytes.len()).then_some(end)
}

/// The contents of a frame, if it is whole and no larger than it may be.
pub(crate) fn contents(frame: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(4 * BLOCK as u64);
    let mut source = frame;
    decoder.init(&mut source).ok()?;
    let mut contents = Vec::with_capacity(CONTENTS);
    while !decoder.is_finished() {
        decoder
            .decode_blocks(&mut source, ruzstd::decoding::BlockDecodingStrategy::UptoBlocks(1))
            .ok()?;
        decoder.collect_to_writer(&mut contents).ok()?;
        if contents.len() > CONTENTS {
            return None;
        }
    }
    decoder.collect_to_writer(&mut contents).ok()?;
    let is_right = decoder.get_checksum_from_data() == decoder.get_calculated_checksum();
    (is_right && contents.len() <= CONTENTS).then_some(contents)
}

/// The block that these contents of a frame were made of.
fn unfold(contents: &[u8]) -> Option<Vec<u8>> {
    let (form, rest) = contents.split_first()?;
    let big_endian = match *form {
        packed::PLAIN => return Some(rest.to_vec()),
        packed::COLUMNS => false,
        packed::COLUMNS_BIG_ENDIAN => true,
        _ => return None,
    };
    let sizes = Bytes { bytes: rest.get(3..)?, big_endian: false };
    let mut rest = sizes.bytes.get(COLUMNS * 4..)?;
    let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    for (at, column) in columns.iter_mut().enumerate() {
        let size = usize::try_from(sizes.u32(at * 4)?).ok()?;
        (*column, rest) = rest.split_at_checked(size)?;
    }
    join(columns, big_endian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_nothing_are_nothing() {
        let mut contents = vec![0; 4 + COLUMNS * 4];
        contents[0] = packed::COLUMNS;
        assert_eq!(unfold(&contents), Some(Vec::new()));
    }
}
