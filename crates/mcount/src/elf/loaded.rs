//! The words of an image as the loader leaves them, for a load address of 0.
//!
//! The table of a position-independent program has zeros in the file, or something near the truth. The
//! loader's relocations have the rest: some add the load address, some store the address of a symbol.
//! Their addends are in themselves (RELA) or in place (REL). For RELR nothing is to be done,
//! because its addends are in place and the load address is 0.
//!
//! Source: gABI, "Relocation".

use super::{Encoder, Relocation, Relocations, Section, Symbol, Symbols, View};
use crate::error::{ErrorKind, Result};
use foldhash::HashMap;
use object::elf;
use object::read::elf::FileHeader;

/// What is known of the loader's relocations.
pub(crate) struct Loader<'d, Elf: FileHeader> {
    /// The types that add the load address.
    pub(crate) relative: &'static [u32],
    /// The types that store the address of a symbol, or add it to what is in place.
    pub(crate) address: Option<u32>,
    pub(crate) other_addresses: [&'static [u32]; 2],
    /// The symbols that relocations refer to.
    pub(crate) symbols: Option<Symbols<'d, Elf>>,
}

impl<Elf: FileHeader> Loader<'_, Elf> {
    /// What the addend of `relocation` counts from in an image at 0: from the start, or from a symbol
    /// that the image defines. Another file may define a global one too, and come first; which one it
    /// is, is not known before the image is loaded. `None` if the value is not known at all. `link` is
    /// the symbol table of its section.
    pub(crate) fn base(&self, relocation: &Relocation, link: u32) -> Option<u64> {
        if relocation.symbol == 0 {
            return self.relative.contains(&relocation.kind).then_some(0);
        }
        let symbol = self.symbol(relocation, link)?;
        // The address of the one is chosen by the code there, that of the other is each thread's own.
        let is_address = symbol.kind != elf::STT_GNU_IFUNC.0 && symbol.kind != elf::STT_TLS.0;
        let kind = relocation.kind;
        let is_stored = self.address == Some(kind)
            || self.other_addresses.iter().any(|kinds| kinds.contains(&kind));
        (is_address && is_stored && symbol.section.is_some()).then_some(symbol.value)
    }

    /// The same where no other file has a say, and the relocation has its addend itself if it has a
    /// symbol: then another addend makes it any other address.
    pub(crate) fn fixed_base(&self, relocation: &Relocation, link: u32) -> Option<u64> {
        let own = || {
            let symbol = self.symbol(relocation, link)?;
            (symbol.is_local() && relocation.addend.is_some()).then_some(())
        };
        if relocation.symbol != 0 {
            own()?;
        }
        self.base(relocation, link)
    }

    fn symbol(&self, relocation: &Relocation, link: u32) -> Option<Symbol> {
        let symbols = self.symbols.as_ref().filter(|symbols| symbols.section == link)?;
        symbols.get(relocation.symbol)
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
    each(view, loader, |place, stored| {
        if (address..end).contains(&place) {
            let slot = usize::try_from((place - address) / view.word()).ok();
            if let Some(slot) = slot.and_then(|slot| words.get_mut(slot)) {
                *slot = match stored {
                    Stored::Value(value) => value,
                    Stored::Added(base) => truncated(view, base.wrapping_add(*slot)),
                };
            }
        }
    });
    words
}

/// What the loader's relocations make of words, by address.
pub(crate) struct Changes {
    /// The word becomes this.
    values: HashMap<u64, u64>,
    /// This is added to the word; its bits beyond `mask` are lost.
    added: HashMap<u64, u64>,
    mask: u64,
}

impl Changes {
    pub(crate) fn read<Elf: FileHeader>(view: &View<'_, Elf>, loader: &Loader<'_, Elf>) -> Self {
        let (mut values, mut added) = (HashMap::default(), HashMap::default());
        each(view, loader, |place, stored| {
            match stored {
                Stored::Value(value) => values.insert(place, value),
                Stored::Added(base) => added.insert(place, base),
            };
        });
        Self { values, added, mask: truncated(view, u64::MAX) }
    }

    /// The word at `address` as the loader leaves it, if the file has `word` there.
    pub(crate) fn word(&self, address: u64, word: impl FnOnce() -> Option<u64>) -> Option<u64> {
        if let Some(value) = self.values.get(&address) {
            return Some(*value);
        }
        let added = self.added.get(&address);
        word().map(|word| added.map_or(word, |base| base.wrapping_add(word) & self.mask))
    }
}

/// What a relocation does to a word.
enum Stored {
    /// It becomes this.
    Value(u64),
    /// This is added to what it is.
    Added(u64),
}

/// An address of the image's class.
fn truncated<Elf: FileHeader>(view: &View<'_, Elf>, address: u64) -> u64 {
    if view.is_64() { address } else { address & u64::from(u32::MAX) }
}

/// Calls `found` with the place of each relocation of known value that changes a word.
fn each<Elf: FileHeader>(
    view: &View<'_, Elf>,
    loader: &Loader<'_, Elf>,
    mut found: impl FnMut(u64, Stored),
) {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.flags & elf::SHF_ALLOC.0 == 0 || !header.has_relocations() {
            continue;
        }
        let Ok(list) = Relocations::read(view, index, &header) else { continue };
        for relocation in list.iter() {
            let Some(base) = loader.base(&relocation, header.link) else { continue };
            match relocation.addend {
                Some(addend) => {
                    let value = truncated(view, base.wrapping_add_signed(addend));
                    found(relocation.offset, Stored::Value(value));
                }
                // The value is in place.
                None if base == 0 => {}
                None => found(relocation.offset, Stored::Added(base)),
            }
        }
    }
}

/// # Errors
///
/// Android's packed relocations are malformed.
pub(crate) fn check<Elf: FileHeader>(view: &View<'_, Elf>) -> Result<()> {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.is_packed_for_android() {
            Relocations::read(view, index, &header)?;
        }
    }
    Ok(())
}

/// Fails where the image has relocations in a form that we read and don't write.
///
/// # Errors
///
/// The image has Android's packed relocations.
pub(crate) fn check_writable<Elf: FileHeader>(view: &View<'_, Elf>) -> Result<()> {
    let mut sections = (0u32..).zip(view.sections());
    match sections.find(|(_, header)| header.is_packed_for_android()) {
        Some((index, _)) => {
            let kind = ErrorKind::Unsupported("changing Android's packed relocations");
            Err(view.section_error(index, kind))
        }
        None => Ok(()),
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
