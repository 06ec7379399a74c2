//! The relocations of Android's linker, packed (`ld.lld --pack-dyn-relocs=android`).
//!
//! The section has the four bytes `APS2`, and then signed LEB128 numbers: the number of relocations, and
//! the address from which the first distance counts. Groups of relocations follow. A group says how many
//! relocations it has and what they have in common: the distance from one to the next, `r_info`, or the
//! addend. Whatever isn't common to the group comes with each relocation. Addends are distances too, from
//! the addend before.
//!
//! There is no document. We followed the sources of LLVM, which writes it
//! (`AndroidPackedRelocationSection`), and of bionic, which reads it (`packed_reloc_iterator`).

use super::{Relocation, Section, View, bytes};
use crate::error::{ErrorKind, Result};

pub(super) const SHT_ANDROID_REL: u32 = 0x6000_0001;
pub(super) const SHT_ANDROID_RELA: u32 = 0x6000_0002;

const MAGIC: &[u8] = b"APS2";

/// Whether the relocations of a group have `r_info` in common.
const BY_INFO: i64 = 1;
/// Whether they have the distance from one to the next in common.
const BY_DISTANCE: i64 = 2;
/// Whether they have the addend in common.
const BY_ADDEND: i64 = 4;
/// Whether they have addends.
const HAS_ADDEND: i64 = 8;

/// The relocations in `section`, which has index `index` and one of the types above.
///
/// # Errors
///
/// It ends too early, or claims to have more relocations than the file has words.
pub(super) fn read(view: &View<'_>, index: u32, section: &Section) -> Result<Vec<Relocation>> {
    let Some(bytes) = view.section_data(index)?.strip_prefix(MAGIC) else {
        return Err(view.section_error(index, ErrorKind::Malformed("no packed relocations")));
    };
    let mut unpacker = Unpacker { bytes, is_64: view.is_64(), address: 0, info: 0, addend: 0 };
    // Each relocation changes a word of the file, so there can't be more than it has words.
    let most = view.data.len() as u64 / view.word();
    let has_addends = section.kind == SHT_ANDROID_RELA;
    let found = unpacker.all(most, has_addends);
    found.ok_or_else(|| {
        let why = "the packed relocations end too early, or are too many";
        view.section_error(index, ErrorKind::Malformed(why))
    })
}

/// The bytes that are left, and the relocation that was read last.
struct Unpacker<'d> {
    bytes: &'d [u8],
    is_64: bool,
    address: u64,
    info: u64,
    addend: i64,
}

impl Unpacker<'_> {
    fn all(&mut self, most: u64, has_addends: bool) -> Option<Vec<Relocation>> {
        let count = u64::try_from(self.number()?).ok().filter(|count| *count <= most)?;
        self.address = self.number()?.cast_unsigned();
        let mut found = Vec::new();
        while (found.len() as u64) < count {
            self.group(count, has_addends, &mut found)?;
        }
        Some(found)
    }

    /// Appends the relocations of the next group. There may be `count` of them in all.
    fn group(&mut self, count: u64, has_addends: bool, found: &mut Vec<Relocation>) -> Option<()> {
        let size = u64::try_from(self.number()?).ok()?;
        let end = size.checked_add(found.len() as u64).filter(|end| *end <= count && size != 0)?;
        let flags = self.number()?;
        let [by_info, by_distance, by_addend, has_addend] =
            [BY_INFO, BY_DISTANCE, BY_ADDEND, HAS_ADDEND].map(|flag| flags & flag != 0);
        let distance = if by_distance { Some(self.number()?) } else { None };
        if by_info {
            self.info = self.number()?.cast_unsigned();
        }
        if !has_addend {
            self.addend = 0;
        } else if by_addend {
            self.addend = self.addend.wrapping_add(self.number()?);
        }
        while (found.len() as u64) < end {
            let distance = if let Some(distance) = distance { distance } else { self.number()? };
            self.address = self.address.wrapping_add_signed(distance);
            if !by_info {
                self.info = self.number()?.cast_unsigned();
            }
            if has_addend && !by_addend {
                self.addend = self.addend.wrapping_add(self.number()?);
            }
            found.push(self.relocation(bytes::index(found.len()), has_addends));
        }
        Some(())
    }

    /// The relocation that was read last.
    #[expect(clippy::cast_possible_truncation, reason = "parts of r_info, and 32-bit files")]
    fn relocation(&self, index: u32, has_addends: bool) -> Relocation {
        let (symbol, kind) = if self.is_64 {
            ((self.info >> 32) as u32, self.info as u32)
        } else {
            (self.info as u32 >> 8, self.info as u32 & 0xff)
        };
        let offset = if self.is_64 { self.address } else { self.address & 0xffff_ffff };
        Relocation { index, offset, symbol, kind, addend: has_addends.then_some(self.addend) }
    }

    /// A signed LEB128 number. Bits beyond the 64th are lost.
    fn number(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0 && shift < 64;
                return Some(
                    if is_negative { value | u64::MAX << shift } else { value }.cast_signed(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset, symbol, type and addend.
    type Fields = (u64, u32, u32, Option<i64>);

    fn unpack(bytes: &[u8], has_addends: bool) -> Option<Vec<Fields>> {
        let mut unpacker = Unpacker { bytes, is_64: true, address: 0, info: 0, addend: 0 };
        let found = unpacker.all(100, has_addends)?;
        Some(found.iter().map(|r| (r.offset, r.symbol, r.kind, r.addend)).collect())
    }

    /// Packed by hand: two of type 8 with one distance, then one of type 6 against symbol 1.
    #[test]
    fn groups_are_unpacked() {
        let bytes = [
            3,
            0x80,
            0x20, // count, 0x1000
            2,
            1 | 2 | 8,
            8,
            8,
            0x10,
            0x70, // at 0x1008 and 0x1010, addends 16 and 0
            1,
            0,
            0x80,
            1,
            0x86,
            0x80,
            0x80,
            0x80,
            0x10, // 128 bytes on, info 1 << 32 | 6
        ];
        let expected = [(0x1008, 0, 8, Some(16)), (0x1010, 0, 8, Some(0)), (0x1090, 1, 6, Some(0))];
        assert_eq!(unpack(&bytes, true).unwrap(), expected);
        let bare: Vec<_> =
            expected.iter().map(|(at, sym, kind, _)| (*at, *sym, *kind, None)).collect();
        assert_eq!(unpack(&bytes, false).unwrap(), bare);
    }

    #[test]
    fn what_is_cut_off_or_endless_is_refused() {
        let whole = [1, 0, 1, 1, 8, 4];
        assert!(unpack(&whole, true).is_some());
        for end in 0..whole.len() {
            assert_eq!(unpack(whole.get(..end).unwrap(), true), None);
        }
        // More relocations than the file has words; a group of none, which would never end.
        assert_eq!(unpack(&[0xff, 0xff, 3, 0, 1, 7, 0, 0], true), None);
        assert_eq!(unpack(&[1, 0, 0, 7, 0, 0], true), None);
    }
}
