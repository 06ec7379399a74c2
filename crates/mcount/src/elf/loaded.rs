//! The words of an image as the loader leaves them, for a load address of 0: what the file has, and
//! over it the relative relocations, which hold the value themselves (RELA) or find it in place.
//!
//! Source: gABI, "Relocation"; for RELR nothing is to be done, because its addends are in place.

use super::{Relocations, View};
use object::elf;
use object::read::elf::FileHeader;
use std::collections::HashMap;

/// `count` words from `address` on; `relative` is the processor's `R_*_RELATIVE`.
///
/// Words that the file does not have are missing. A malformed relocation section is passed over.
pub(crate) fn words<Elf: FileHeader>(
    view: &View<'_, Elf>,
    address: u64,
    count: u64,
    relative: Option<u32>,
) -> Vec<u64> {
    let mut words = in_file(view, address, count);
    let end = address.saturating_add(count.saturating_mul(view.word()));
    each_relative(view, relative, |place, addend| {
        if (address..end).contains(&place) {
            let slot = usize::try_from((place - address) / view.word()).ok();
            if let Some(slot) = slot.and_then(|slot| words.get_mut(slot)) {
                *slot = addend;
            }
        }
    });
    words
}

/// The values that relative relocations put at addresses.
pub(crate) fn relative_addends<Elf: FileHeader>(
    view: &View<'_, Elf>,
    relative: Option<u32>,
) -> HashMap<u64, u64> {
    let mut addends = HashMap::new();
    each_relative(view, relative, |place, addend| {
        addends.insert(place, addend);
    });
    addends
}

/// Calls `found` with the place and the value of each relative relocation that holds its value.
fn each_relative<Elf: FileHeader>(
    view: &View<'_, Elf>,
    relative: Option<u32>,
    mut found: impl FnMut(u64, u64),
) {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.flags & elf::SHF_ALLOC.0 == 0 || header.kind != elf::SHT_RELA.0 {
            continue;
        }
        let Ok(list) = Relocations::read(view, index, &header) else { continue };
        for relocation in list.iter() {
            let is_relative = relative == Some(relocation.kind) && relocation.symbol == 0;
            if let (true, Some(addend)) = (is_relative, relocation.addend) {
                found(relocation.offset, addend.cast_unsigned());
            }
        }
    }
}

/// The same without relocations.
pub(crate) fn in_file<Elf: FileHeader>(view: &View<'_, Elf>, address: u64, count: u64) -> Vec<u64> {
    let section = view.section_at(address);
    let bytes = section.map(|(_, section)| {
        let start = usize::try_from(address - section.address).unwrap_or(usize::MAX);
        view.bytes_of(&section).get(start..).unwrap_or_default()
    });
    let bytes = bytes.unwrap_or_default();
    let word = if view.is_64() { 8 } else { 4 };
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let words = bytes.chunks_exact(word).take(count).map(|chunk| {
        if view.is_big_endian() {
            chunk.iter().fold(0, join)
        } else {
            chunk.iter().rev().fold(0, join)
        }
    });
    words.collect()
}
