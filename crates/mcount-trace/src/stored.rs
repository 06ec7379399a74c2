//! The index that a finished trace has: what the first pass over its calls would find ([`crate::index`]), so that a
//! reader needs no such pass.
//!
//! An index can lie, as everything in a trace. A reader believes it only as far as it names places inside the
//! file, and none of them twice.

use crate::bytes::Bytes;
use crate::file::File;
use crate::index::{Descriptor, Index, PIECE, Piece, ThreadIndex};
use crate::layout::call;
use crate::record::Raw;

/// Bits of a thread's flags.
const HAS_REFERENCE: u64 = 1;
const IS_DISORDERED: u64 = 2;
const HAS_LATEST: u64 = 4;

/// Bits of a piece's flags.
const HAS_FLOOR: u64 = 1;
const IS_FIRST_MODIFIED: u64 = 2;
const HAS_MODIFIERS: u64 = 4;

/// The words of the index.
pub(crate) fn words(threads: &[ThreadIndex], open_without_start: u64) -> Vec<u64> {
    let mut words = vec![threads.len() as u64, open_without_start];
    for thread in threads {
        let flags = [
            (thread.reference.is_some(), HAS_REFERENCE),
            (thread.is_disordered, IS_DISORDERED),
            (thread.latest.is_some(), HAS_LATEST),
        ];
        words.extend([
            u64::from(thread.number) << 32 | u64::from(thread.reference.unwrap_or(0)),
            u64::from(thread.pid) << 32 | u64::from(thread.tid),
            bits(&flags),
            thread.first,
            thread.latest.unwrap_or(0),
            thread.calls,
            thread.pieces.len() as u64,
            thread.extras.len() as u64,
        ]);
        for piece in &thread.pieces {
            let flags = [
                (piece.floor.is_some(), HAS_FLOOR),
                (piece.is_first_modified, IS_FIRST_MODIFIED),
                (piece.has_modifiers, HAS_MODIFIERS),
            ];
            let size = (piece.size as u64) << 8 | bits(&flags);
            words.extend([piece.offset as u64, size, piece.base, piece.floor.unwrap_or(0)]);
        }
        words.extend(thread.extras.iter().flat_map(Raw::words));
    }
    words
}

fn bits(flags: &[(bool, u64)]) -> u64 {
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit)
}

/// The words of an index, one after the other.
struct Words<'a> {
    /// What isn't read yet, the next piece last.
    rest: Vec<Bytes<'a>>,
    /// How many words there are at most.
    left: u64,
}

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let part = self.rest.last_mut()?;
        let word = part.u64(0)?;
        part.bytes = part.bytes.get(8..)?;
        if part.bytes.len() < 8 {
            self.rest.pop();
        }
        self.left = self.left.checked_sub(1)?;
        Some(word)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u64; COUNT]> {
        let mut words = [0; COUNT];
        for word in &mut words {
            *word = self.next()?;
        }
        Some(words)
    }

    /// How many things of four words there are, if there can be so many.
    fn count(&self, count: u64) -> Option<usize> {
        usize::try_from(count).ok().filter(|_| count <= self.left / 4)
    }
}

/// Reads an index of `size` bytes from the chunks that have it; and how many open calls have no start. `None` if it
/// isn't whole, or can't be right.
pub(crate) fn read(
    file: File<'_>,
    size: u64,
    chunks: impl Iterator<Item = (Descriptor, (usize, usize))>,
) -> Option<(Index, u64)> {
    let parts = chunks.map(|(of, (offset, there))| {
        file.kept(offset, usize::try_from(of.used).unwrap_or(there).min(there))
    });
    let mut rest: Vec<_> = parts.filter(|part| part.bytes.len() >= 8).collect();
    rest.reverse();
    let there: usize = rest.iter().map(|part| part.bytes.len() / 8).sum();
    let left = (there as u64).min(size / 8);
    let mut words = Words { rest, left };
    let [threads, without_start] = words.array()?;
    let mut index = Index::new(u64::MAX);
    // No byte of the file is in two pieces.
    let mut room = file.len();
    for _ in 0..threads {
        index.threads.push(thread(&mut words, file.len(), &mut room)?);
    }
    Some((index, without_start))
}

fn thread(words: &mut Words<'_>, size: usize, room: &mut usize) -> Option<ThreadIndex> {
    let [names, ids, flags, first, latest, calls, pieces, extras] = words.array()?;
    let half = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
    let mut thread = ThreadIndex {
        number: half(names >> 32),
        pid: half(ids >> 32),
        tid: half(ids),
        reference: (flags & HAS_REFERENCE != 0).then(|| half(names)),
        is_disordered: flags & IS_DISORDERED != 0,
        latest: (flags & HAS_LATEST != 0).then_some(latest),
        first,
        calls,
        ..ThreadIndex::default()
    };
    let pieces = words.count(pieces)?;
    thread.pieces.reserve_exact(pieces);
    for _ in 0..pieces {
        let piece = piece(words.array()?, size)?;
        *room = room.checked_sub(piece.size)?;
        if thread.pieces.last().is_some_and(|last: &Piece| last.floor > piece.floor) {
            return None;
        }
        thread.pieces.push(piece);
    }
    let extras = words.count(extras)?;
    thread.extras.reserve_exact(extras);
    for _ in 0..extras {
        thread.extras.push(Raw::from_words(words.array()?));
    }
    thread.extras.is_sorted_by(|a, b| a.order(b).is_le()).then_some(thread)
}

fn piece([offset, size, base, floor]: [u64; 4], file_size: usize) -> Option<Piece> {
    let offset = usize::try_from(offset).ok()?;
    let flags = size & 0xff;
    let size = usize::try_from(size >> 8).ok()?;
    let is_inside = offset.checked_add(size)? <= file_size;
    (is_inside && size <= PIECE * call::SIZE).then_some(Piece {
        offset,
        size,
        base,
        floor: (flags & HAS_FLOOR != 0).then_some(floor),
        is_first_modified: flags & IS_FIRST_MODIFIED != 0,
        has_modifiers: flags & HAS_MODIFIERS != 0,
    })
}
