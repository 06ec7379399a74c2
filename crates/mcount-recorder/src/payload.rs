//! The recorded arguments or result of one call: bytes, and the records that they become.

use crate::block::put;
use crate::layout as trace;

pub use crate::abi::recipe::{MOST, TEXT_MOST as TEXT};

/// The record of one call.
pub struct Values {
    bytes: [u8; MOST],
    used: usize,
    /// Something had no room. What follows would be taken for that, so there's none for it, either.
    is_full: bool,
}

impl Values {
    /// Nothing yet.
    pub const NONE: Self = Self { bytes: [0; MOST], used: 0, is_full: false };

    /// Adds these bytes, if there's room for them.
    pub fn add(&mut self, bytes: &[u8]) {
        if let Some(room) = self.free(bytes.len()) {
            room.copy_from_slice(bytes);
            self.keep(bytes.len());
        } else {
            self.is_full = true;
        }
    }

    /// Was there no room for something?
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many bytes there's room for.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_full { 0 } else { MOST - self.used }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The room for the next `size` bytes, which count when they're kept.
    pub fn free(&mut self, size: usize) -> Option<&mut [u8]> {
        if size > self.room() {
            return None;
        }
        self.bytes.get_mut(self.used..self.used + size)
    }

    /// The next `size` bytes are right.
    pub fn keep(&mut self, size: usize) {
        self.used = MOST.min(self.used + size);
    }

    /// Those that were added from `at` on.
    #[must_use]
    pub fn added(&self, at: usize) -> &[u8] {
        self.bytes.get(at..self.used).unwrap_or_default()
    }

    /// Writes over two bytes that were added.
    pub fn set_head(&mut self, at: usize, head: u16) {
        if let Some(room) = self.bytes.get_mut(at..at + 2) {
            room.copy_from_slice(&head.to_le_bytes());
        }
    }

    /// Adds the text at `pointer`, of which these bytes were read; `flags` are those of a text (docs/trace-format.md).
    pub fn read_text(&mut self, pointer: u64, bytes: &[u8], flags: u16) {
        self.add(&pointer.to_le_bytes());
        self.add(&(bytes.len() as u16 | flags).to_le_bytes());
        self.add(bytes);
    }

    /// How many records they take.
    pub fn count(&self) -> u64 {
        (1 + self.used.div_ceil(trace::value::IN_RECORD)) as u64
    }

    /// Writes them as records, from `at` on: `head` comes last, so that no reader finds a part of them.
    ///
    /// # Safety
    ///
    /// There's room for [`Self::count`] records at `at`, which is this thread's.
    pub unsafe fn write(&self, at: u64, kind: u64, function: u64, start: u64) {
        let count = self.count();
        for number in 1..count {
            let from = (number as usize - 1) * trace::value::IN_RECORD;
            let mut piece = [0_u8; 16];
            // Four bytes in the first word, above the kind, and eight in the second.
            for (room, byte) in
                piece.iter_mut().skip(4).zip(self.bytes.iter().take(self.used).skip(from))
            {
                *room = *byte;
            }
            let word = u128::from_le_bytes(piece);
            let low =
                (word as u64 & !0xffff_ffff) | trace::special::BYTES << trace::special::KIND_SHIFT;
            // SAFETY: the caller promises that there's room for these records at `at`.
            unsafe { put(at + 16 * number, low, (word >> 64) as u64) };
        }
        let value = function & 0xff_ffff | (count - 1) << 24;
        // SAFETY: the caller promises that there's room for these records at `at`.
        unsafe { put(at, value << 32 | kind << trace::special::KIND_SHIFT, start) };
    }
}
