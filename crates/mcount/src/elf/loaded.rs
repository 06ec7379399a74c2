//! The words of an image after loading, for a load address of 0.
//!
//! In the file, the table of a position-independent program may be all zeros. The loader fills it in:
//! some relocations add the load address, others store the address of a symbol. The addend is in the
//! relocation (RELA) or in place (REL). RELR changes nothing here, because its addends are in place and
//! the load address is 0.
//!
//! Source: gABI, "Relocation".

use super::{Encoder, Relocation, Relocations, Section, Symbol, Symbols, View};
use crate::error::{ErrorKind, Result};
use foldhash::HashMap;
use object::elf;

/// The loader's relocations and their effect.
pub(crate) struct Loader<'d> {
    /// The types that add the load address.
    pub(crate) relative: &'static [u32],
    /// The types that store the address of a symbol, or add it to the word in place.
    pub(crate) address: Option<u32>,
    pub(crate) other_addresses: [&'static [u32]; 2],
    /// The symbols that relocations refer to.
    pub(crate) symbols: Option<Symbols<'d>>,
}

impl Loader<'_> {
    /// The address that the addend of `relocation` is added to, in an image at 0: that of the image, or
    /// of a symbol that the image defines. (If the symbol is global, the loader may choose another file's
    /// definition.) `None` if we don't know it. `link` is the `sh_link` of the relocation's section.
    pub(crate) fn base(&self, relocation: &Relocation, link: u32) -> Option<u64> {
        if relocation.symbol == 0 {
            return self.relative.contains(&relocation.kind).then_some(0);
        }
        let symbol = self.symbol(relocation, link)?;
        // The address of an IFUNC comes from its resolver. TLS addresses are per thread.
        let is_address = symbol.kind != elf::STT_GNU_IFUNC.0 && symbol.kind != elf::STT_TLS.0;
        let kind = relocation.kind;
        let is_stored = self.address == Some(kind)
            || self.other_addresses.iter().any(|kinds| kinds.contains(&kind));
        (is_address && is_stored && symbol.section.is_some()).then_some(symbol.value)
    }

    /// The same, if another addend can make `relocation` store any other address. So if it has a symbol,
    /// that must be local, and the addend must be in the relocation.
    pub(crate) fn fixed_base(&self, relocation: &Relocation, link: u32) -> Option<u64> {
        if relocation.symbol != 0 {
            let symbol = self.symbol(relocation, link)?;
            if !symbol.is_local() || relocation.addend.is_none() {
                return None;
            }
        }
        self.base(relocation, link)
    }

    fn symbol(&self, relocation: &Relocation, link: u32) -> Option<Symbol> {
        let symbols = self.symbols.as_ref().filter(|symbols| symbols.section == link)?;
        symbols.get(relocation.symbol)
    }
}

/// `count` words from `address` on, after loading. If the file has fewer, there are fewer. Malformed
/// relocation sections are ignored.
pub(crate) fn words(view: &View<'_>, address: u64, count: u64, loader: &Loader<'_>) -> Vec<u64> {
    let mut words = in_file(view, address, count);
    let end = address.saturating_add(count.saturating_mul(view.word()));
    each(view, loader, &mut |place, stored| {
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

/// The effect of the loader's relocations on words, by address.
pub(crate) struct Changes {
    /// The words that get a value.
    values: HashMap<u64, u64>,
    /// The words to which a value is added. Only the bits in `mask` stay.
    added: HashMap<u64, u64>,
    mask: u64,
}

impl Changes {
    pub(crate) fn read(view: &View<'_>, loader: &Loader<'_>) -> Self {
        let (mut values, mut added) = (HashMap::default(), HashMap::default());
        each(view, loader, &mut |place, stored| {
            match stored {
                Stored::Value(value) => values.insert(place, value),
                Stored::Added(base) => added.insert(place, base),
            };
        });
        Self { values, added, mask: truncated(view, u64::MAX) }
    }

    /// The word at `address` after loading, if the file has `word` there.
    pub(crate) fn word(&self, address: u64, word: impl FnOnce() -> Option<u64>) -> Option<u64> {
        if let Some(value) = self.values.get(&address) {
            return Some(*value);
        }
        let added = self.added.get(&address);
        word().map(|word| added.map_or(word, |base| base.wrapping_add(word) & self.mask))
    }
}

/// The effect of a relocation on a word.
enum Stored {
    /// It gets this value.
    Value(u64),
    /// This is added to it.
    Added(u64),
}

/// `address`, of which a 32-bit image uses 32 bits.
fn truncated(view: &View<'_>, address: u64) -> u64 {
    if view.is_64() { address } else { address & u64::from(u32::MAX) }
}

/// Calls `found` for each relocation that changes a word in a way that we know.
fn each(view: &View<'_>, loader: &Loader<'_>, found: &mut dyn FnMut(u64, Stored)) {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.flags & elf::SHF_ALLOC.0 == 0 || !header.has_relocations() {
            continue;
        }
        let Ok(list) = Relocations::read(view, index, header) else { continue };
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

/// Checks what [`words`] would ignore.
///
/// # Errors
///
/// Android's packed relocations are malformed.
pub(crate) fn check(view: &View<'_>) -> Result<()> {
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.is_packed_for_android() {
            Relocations::read(view, index, header)?;
        }
    }
    Ok(())
}

/// Checks that we can change the relocations of the image.
///
/// # Errors
///
/// It has Android's packed relocations, which we can only read.
pub(crate) fn check_writable(view: &View<'_>) -> Result<()> {
    let mut sections = (0u32..).zip(view.sections());
    match sections.find(|(_, header)| header.is_packed_for_android()) {
        Some((index, _)) => {
            let kind = ErrorKind::Unsupported("changing Android's packed relocations");
            Err(view.section_error(index, kind))
        }
        None => Ok(()),
    }
}

/// `count` words from `address` on, as they are in the file.
pub(crate) fn in_file(view: &View<'_>, address: u64, count: u64) -> Vec<u64> {
    let section = view.section_at(address);
    let bytes = section.map(|(_, section)| {
        let start = usize::try_from(address - section.address).unwrap_or(usize::MAX);
        view.bytes_of(&section).get(start..).unwrap_or_default()
    });
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    in_bytes(view, bytes.unwrap_or_default()).take(count).collect()
}

/// The words of `bytes`, in the image's width and byte order.
pub(crate) fn in_bytes<'b>(
    view: &View<'_>,
    bytes: &'b [u8],
) -> impl Iterator<Item = u64> + use<'b> {
    let (word, is_big) = (view.by_class(4, 8), view.is_big_endian());
    bytes.chunks_exact(word).map(move |chunk| {
        if let Ok(word) = chunk.try_into() {
            if is_big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) }
        } else {
            let word = chunk.try_into().unwrap_or_default();
            u64::from(if is_big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
        }
    })
}

/// The addresses that the packed relative relocations in `section` (RELR) apply to.
///
/// An even word is an address. An odd word is a bitmap of the words after the last one.
pub(crate) fn packed(view: &View<'_>, section: &Section) -> Vec<u64> {
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

/// Packs ascending `addresses` as [`packed`] reads them.
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
