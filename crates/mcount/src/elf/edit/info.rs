//! Changing the symbol in an entry of a relocation section.

use crate::elf::{Section, View};
use object::elf;

/// Bytes of an entry of `section`: two words, or three with an addend.
pub(super) fn relocation_size(view: &View<'_>, section: &Section) -> usize {
    let words = if section.kind == elf::SHT_REL.0 { 2 } else { 3 };
    words * view.by_class(4, 8)
}

/// Where the symbol is in an entry of a relocation section.
#[derive(Clone, Copy)]
pub(super) struct InfoLayout {
    is_64: bool,
    big_endian: bool,
    mips64el: bool,
    /// The greatest symbol index that fits.
    pub(super) limit: u32,
}

impl InfoLayout {
    pub(super) fn of(view: &View<'_>) -> Self {
        Self {
            is_64: view.is_64(),
            big_endian: view.is_big_endian(),
            mips64el: view.has_mips64el_info(),
            limit: view.greatest_symbol(),
        }
    }

    /// The bytes of `r_info` that hold the symbol.
    fn range(self) -> std::ops::Range<usize> {
        match (self.is_64, self.big_endian || self.mips64el) {
            (false, _) => 4..8,
            (true, true) => 8..12,
            (true, false) => 12..16,
        }
    }

    /// The word that has the symbol in it.
    fn load(self, entry: &[u8]) -> u32 {
        let bytes = entry.get(self.range()).and_then(|bytes| bytes.try_into().ok());
        let bytes: [u8; 4] = bytes.unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn store(self, entry: &mut [u8], value: u32) {
        if let Some(place) = entry.get_mut(self.range()) {
            let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            place.copy_from_slice(&bytes);
        }
    }

    pub(super) fn symbol(self, entry: &[u8]) -> u32 {
        let word = self.load(entry);
        if self.is_64 { word } else { word >> 8 }
    }

    pub(super) fn set_symbol(self, entry: &mut [u8], symbol: u32) {
        let kind = self.load(entry) & 0xff;
        self.store(entry, if self.is_64 { symbol } else { symbol << 8 | kind });
    }

    /// Makes symbol and type 0, which is `R_*_NONE` on every processor. The offset stays.
    pub(super) fn clear(self, entry: &mut [u8]) {
        let info = if self.is_64 { 8..16 } else { 4..8 };
        if let Some(info) = entry.get_mut(info) {
            info.fill(0);
        }
    }
}
