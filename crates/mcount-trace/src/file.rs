//! The bytes of a trace, whether they are as they were recorded or compressed.

use crate::bytes::Bytes;
use crate::unpack::{Packed, Part};

/// A file with a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File<'a> {
    /// Nothing if it is compressed.
    plain: Bytes<'a>,
    packed: Option<&'a Packed<'a>>,
}

impl<'a> File<'a> {
    pub(crate) fn plain(bytes: &'a [u8]) -> Self {
        Self { plain: Bytes { bytes, big_endian: false }, packed: None }
    }

    pub(crate) fn packed(packed: &'a Packed<'a>) -> Self {
        Self { plain: Bytes { bytes: &[], big_endian: false }, packed: Some(packed) }
    }

    /// With the byte order of its numbers.
    pub(crate) fn with_order(self, big_endian: bool) -> Self {
        Self { plain: Bytes { big_endian, ..self.plain }, ..self }
    }

    pub(crate) fn is_big_endian(self) -> bool {
        self.plain.big_endian
    }

    /// How many bytes the trace has.
    pub(crate) fn len(self) -> usize {
        self.packed.map_or(self.plain.bytes.len(), Packed::len)
    }

    /// How many things may be kept for calls that aren't found where they were recorded: a small file can hold very
    /// many if it is compressed.
    pub(crate) fn room(self) -> u64 {
        self.packed.map_or(u64::MAX, Packed::room)
    }

    /// Frames that couldn't be read so far.
    pub(crate) fn bad_frames(self) -> u64 {
        self.packed.map_or(0, Packed::bad_frames)
    }

    /// Of a compressed trace, keeps these pieces in memory: offsets and sizes.
    pub(crate) fn keep(self, pieces: impl Iterator<Item = (usize, usize)>) {
        if let Some(packed) = self.packed {
            packed.keep(pieces);
        }
    }

    /// Up to `size` bytes of what is kept: those that are there.
    pub(crate) fn kept(self, offset: usize, size: usize) -> Bytes<'a> {
        match self.packed {
            None => self.plain.up_to(offset, size),
            Some(packed) => Bytes { bytes: packed.kept(offset, size), ..self.plain },
        }
    }

    /// Up to `size` bytes of anything: those that are there, and in one block.
    #[inline]
    pub(crate) fn load(self, offset: usize, size: usize) -> Part<'a> {
        match self.packed {
            None => Part::Plain(self.plain.up_to(offset, size).bytes),
            Some(packed) => packed.load(offset, size),
        }
    }
}
