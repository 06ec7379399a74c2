//! The words of an image as the loader leaves them, for a load address of 0: what the file has, and
//! over it the relative relocations, which hold the value themselves (RELA) or find it in place.
//!
//! Source: gABI, "Relocation"; for RELR nothing is to be done, because its addends are in place.

use super::{Encoder, Relocations, Section, View};
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

/// The addresses that the packed relative relocations in `section` apply to.
///
/// An even word is an address; an odd one a bitmap of the words that follow the last one.
pub(crate) fn packed<Elf: FileHeader>(view: &View<'_, Elf>, section: &Section) -> Vec<u64> {
    let word = view.word();
    let mut addresses = Vec::new();
    let mut next: u64 = 0;
    for entry in in_file(view, section.address, section.size / word) {
        if entry & 1 == 0 {
            addresses.push(entry);
            next = entry.wrapping_add(word);
            continue;
        }
        for bit in 1..word * 8 {
            if entry >> bit & 1 != 0 {
                addresses.push(next.wrapping_add((bit - 1) * word));
            }
        }
        next = next.wrapping_add((word * 8 - 1) * word);
    }
    addresses
}

/// Packs `addresses`, which ascend, as [`packed`] reads them.
pub(crate) fn pack(out: &mut Encoder, addresses: impl Iterator<Item = u64>, word: u64) {
    let mut addresses = addresses.peekable();
    let bits = word * 8 - 1;
    while let Some(first) = addresses.next() {
        out.word(first);
        let mut next = first.wrapping_add(word);
        loop {
            let mut bitmap = 0u64;
            while let Some(address) = addresses.peek() {
                let distance = address.wrapping_sub(next);
                if distance % word != 0 || distance / word >= bits {
                    break;
                }
                bitmap |= 1 << (distance / word);
                addresses.next();
            }
            if bitmap == 0 {
                break;
            }
            out.word(bitmap << 1 | 1);
            next = next.wrapping_add(bits * word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source of the words: the packing of addresses 0x1000, 0x1008, 0x1010 and 0x2000 by hand.
    #[test]
    fn packing() {
        let mut out = Encoder { big_endian: false, is_64: true, out: Vec::new() };
        pack(&mut out, [0x1000, 0x1008, 0x1010, 0x2000].into_iter(), 8);
        let words: Vec<_> = out
            .out
            .chunks_exact(8)
            .map(|w| w.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b)))
            .collect();
        assert_eq!(words, [0x1000, 0b111, 0x2000]);
    }
}
