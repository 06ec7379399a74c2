//! The words of an image as the loader leaves them, for a load address of 0: what the file has, and
//! over it the relative relocations, which hold the value themselves (RELA) or find it in place.
//!
//! Source: gABI, "Relocation"; for RELR nothing is to be done, because its addends are in place.

use super::{Encoder, Relocation, Relocations, Section, Symbols, View};
use crate::error::{ErrorKind, Result};
use foldhash::HashMap;
use object::elf;
use object::read::elf::FileHeader;

/// Relative relocations as Android's linker reads them, and no other.
const SHT_ANDROID_REL: u32 = 0x6000_0001;
const SHT_ANDROID_RELA: u32 = 0x6000_0002;

/// What is known of the loader's relocations.
pub(crate) struct Loader<'d, Elf: FileHeader> {
    /// The types that add the load address.
    pub(crate) relative: &'static [u32],
    /// The type that stores the address of a symbol.
    pub(crate) address: Option<u32>,
    /// The symbols that relocations refer to.
    pub(crate) symbols: Option<Symbols<'d, Elf>>,
}

impl<Elf: FileHeader> Loader<'_, Elf> {
    /// What the addend of `relocation` counts from in an image at 0: from the start, or from a local
    /// symbol. `None` if the value is not known before the image is loaded. `link` is the symbol table
    /// of its section.
    pub(crate) fn base(&self, relocation: &Relocation, link: u32) -> Option<u64> {
        if relocation.symbol == 0 {
            return self.relative.contains(&relocation.kind).then_some(0);
        }
        let symbols = self.symbols.as_ref().filter(|symbols| symbols.section == link)?;
        let symbol = symbols.get(relocation.symbol).filter(|_| relocation.addend.is_some())?;
        let is_known = symbol.is_local() && symbol.section.is_some();
        (is_known && self.address == Some(relocation.kind)).then_some(symbol.value)
    }
}

/// `count` words from `address` on.
///
/// Words that the file does not have are missing. A malformed relocation section is passed over.
pub(crate) fn words<Elf: FileHeader>(
    view: &View<'_, Elf>,
    address: u64,
    count: u64,
    loader: &Loader<'_, Elf>,
) -> Vec<u64> {
    let mut words = in_file(view, address, count);
    let end = address.saturating_add(count.saturating_mul(view.word()));
    each_relative(view, loader, |place, addend| {
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
    loader: &Loader<'_, Elf>,
) -> HashMap<u64, u64> {
    let mut addends = HashMap::default();
    each_relative(view, loader, |place, addend| {
        addends.insert(place, addend);
    });
    addends
}

/// Calls `found` with the place and the value of each relative relocation that holds its value.
fn each_relative<Elf: FileHeader>(
    view: &View<'_, Elf>,
    loader: &Loader<'_, Elf>,
    mut found: impl FnMut(u64, u64),
) {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.flags & elf::SHF_ALLOC.0 == 0 || header.kind != elf::SHT_RELA.0 {
            continue;
        }
        let Ok(list) = Relocations::read(view, index, &header) else { continue };
        for relocation in list.iter() {
            let base = loader.base(&relocation, header.link);
            if let (Some(base), Some(addend)) = (base, relocation.addend) {
                found(relocation.offset, base.wrapping_add_signed(addend));
            }
        }
    }
}

/// Fails where the image has relocations in a form that is not read here.
pub(crate) fn check<Elf: FileHeader>(view: &View<'_, Elf>) -> Result<()> {
    for (index, header) in (0u32..).zip(view.sections()) {
        if [SHT_ANDROID_REL, SHT_ANDROID_RELA].contains(&header.kind) {
            let kind = ErrorKind::Unsupported("Android's packed relocations");
            return Err(view.section_error(index, kind));
        }
    }
    Ok(())
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
