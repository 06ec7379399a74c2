//! Relocation sections. Of most relocations of an object we only need the symbol, so that is read first.

use super::{Section, View, android, bytes};
use crate::error::{ErrorKind, Result};
use object::elf;
use object::read::elf::{FileHeader, Rel, Rela};

/// A relocation, decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relocation {
    /// Its position in the section.
    pub(crate) index: u32,
    /// `r_offset`: in an object, bytes from the start of the section that it applies to.
    pub(crate) offset: u64,
    /// The index of its symbol; 0 for none.
    pub(crate) symbol: u32,
    /// Its type as in the file. Some processors have data in the upper bits.
    pub(crate) kind: u32,
    /// `None` if the addend is in the section (REL).
    pub(crate) addend: Option<i64>,
}

/// The entries of one relocation section.
pub(crate) struct Relocations<'d, Elf: FileHeader> {
    endian: Elf::Endian,
    mips64el: bool,
    entries: RelocationEntries<'d, Elf>,
}

enum RelocationEntries<'d, Elf: FileHeader> {
    Rel(&'d [Elf::Rel]),
    Rela(&'d [Elf::Rela]),
    Packed(Vec<Relocation>),
}

impl<'d, Elf: FileHeader> Relocations<'d, Elf> {
    /// The relocations in `section`, which has index `index` and [has some](Section::has_relocations).
    ///
    /// # Errors
    ///
    /// `sh_entsize` or `sh_size` is wrong, or packed relocations are malformed.
    pub(crate) fn read(view: &View<'d, Elf>, index: u32, section: &Section) -> Result<Self> {
        let entries = if section.kind == elf::SHT_REL.0 {
            RelocationEntries::Rel(view.entries(index, section)?)
        } else if section.is_packed_for_android() {
            RelocationEntries::Packed(android::read(view, index, section)?)
        } else {
            RelocationEntries::Rela(view.entries(index, section)?)
        };
        if u32::try_from(entries.len()).is_err() {
            let kind = ErrorKind::Unsupported("more than 4 billion relocations");
            return Err(view.section_error(index, kind));
        }
        Ok(Self { endian: view.endian, mips64el: view.has_mips64el_info(), entries })
    }

    /// Relocation `index`, or `None` if there is no such relocation.
    pub(crate) fn get(&self, index: u32) -> Option<Relocation> {
        match &self.entries {
            RelocationEntries::Rel(list) => {
                list.get(index as usize).map(|entry| self.rel(index, entry))
            }
            RelocationEntries::Rela(list) => {
                list.get(index as usize).map(|entry| self.rela(index, entry))
            }
            RelocationEntries::Packed(list) => list.get(index as usize).copied(),
        }
    }

    /// All relocations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Relocation> + use<'_, 'd, Elf> {
        (0..bytes::index(self.entries.len())).filter_map(|index| self.get(index))
    }

    /// Calls `found` for each relocation whose symbol is in `wanted`, which is in ascending order.
    /// Returns the greatest symbol index of all relocations.
    pub(crate) fn of_symbols(&self, wanted: &[u32], found: &mut dyn FnMut(Relocation)) -> u32 {
        // There usually is one symbol, and a search in the loop takes twice as long.
        match wanted {
            [] => 0,
            [symbol] => self.matching(|candidate| candidate == *symbol, found),
            _ => self.matching(|candidate| wanted.binary_search(&candidate).is_ok(), found),
        }
    }

    fn matching(&self, wanted: impl Fn(u32) -> bool, found: &mut dyn FnMut(Relocation)) -> u32 {
        let e = self.endian;
        match &self.entries {
            // Each arm has its own loop, so that no loop asks which kind it is.
            RelocationEntries::Rel(list) if self.mips64el => each(
                list,
                |entry| mips64el_info::<Elf>(entry, e).0,
                wanted,
                |i, entry| found(self.rel(i, entry)),
            ),
            RelocationEntries::Rel(list) => {
                each(list, |entry| entry.r_sym(e), wanted, |i, entry| found(self.rel(i, entry)))
            }
            RelocationEntries::Rela(list) if self.mips64el => each(
                list,
                |entry| entry.r_sym(e, true),
                wanted,
                |i, entry| found(self.rela(i, entry)),
            ),
            RelocationEntries::Rela(list) => each(
                list,
                |entry| entry.r_sym(e, false),
                wanted,
                |i, entry| found(self.rela(i, entry)),
            ),
            RelocationEntries::Packed(list) => {
                each(list, |entry| entry.symbol, wanted, |_, entry| found(*entry))
            }
        }
    }

    fn rel(&self, index: u32, entry: &Elf::Rel) -> Relocation {
        let e = self.endian;
        let (symbol, kind) = if self.mips64el {
            mips64el_info::<Elf>(entry, e)
        } else {
            (entry.r_sym(e), entry.r_type(e).0)
        };
        Relocation { index, offset: entry.r_offset(e).into(), symbol, kind, addend: None }
    }

    fn rela(&self, index: u32, entry: &Elf::Rela) -> Relocation {
        Relocation {
            index,
            offset: entry.r_offset(self.endian).into(),
            symbol: entry.r_sym(self.endian, self.mips64el),
            kind: entry.r_type(self.endian, self.mips64el).0,
            addend: Some(entry.r_addend(self.endian).into()),
        }
    }
}

/// The symbol and type of an entry whose `r_info` is `r_sym, r_ssym, r_type3, r_type2, r_type`: the
/// symbol as a word, then four bytes, the last of which is the type.
fn mips64el_info<Elf: FileHeader>(entry: &Elf::Rel, endian: Elf::Endian) -> (u32, u32) {
    (entry.r_type(endian).0, entry.r_sym(endian).swap_bytes())
}

/// How many relocations to look at before decoding one.
const BLOCK: usize = 8;

/// Calls `found` for each entry whose symbol is `wanted`. Returns the greatest symbol of all.
fn each<T>(
    list: &[T],
    symbol: impl Fn(&T) -> u32,
    wanted: impl Fn(u32) -> bool,
    mut found: impl FnMut(u32, &T),
) -> u32 {
    let mut greatest = 0;
    // Few relocations are wanted, so the loop over a block has no branch for each entry.
    for (start, block) in (0u32..).step_by(BLOCK).zip(list.chunks(BLOCK)) {
        let mut is_any = false;
        for entry in block {
            let symbol = symbol(entry);
            greatest = greatest.max(symbol);
            is_any |= wanted(symbol);
        }
        if is_any {
            let entries = (start..).zip(block).filter(|(_, entry)| wanted(symbol(entry)));
            entries.for_each(|(index, entry)| found(index, entry));
        }
    }
    greatest
}

impl<Elf: FileHeader> RelocationEntries<'_, Elf> {
    fn len(&self) -> usize {
        match self {
            Self::Rel(list) => list.len(),
            Self::Rela(list) => list.len(),
            Self::Packed(list) => list.len(),
        }
    }
}
