//! Relocation sections. Of most relocations of an object we only need the symbol, so that is read first.

use super::by_class::{ByClass, by_class};
use super::{Section, View, android, bytes};
use crate::error::{ErrorKind, Result};
use object::elf::{self, Rel32, Rel64, Rela32, Rela64};
use object::read::elf::{Rel, Rela};
use object::{BigEndian, LittleEndian};

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
pub(crate) struct Relocations<'d> {
    mips64el: bool,
    entries: RelocationEntries<'d>,
}

enum RelocationEntries<'d> {
    Rel(ByClass<'d, Rel32<LittleEndian>, Rel32<BigEndian>, Rel64<LittleEndian>, Rel64<BigEndian>>),
    Rela(
        ByClass<
            'd,
            Rela32<LittleEndian>,
            Rela32<BigEndian>,
            Rela64<LittleEndian>,
            Rela64<BigEndian>,
        >,
    ),
    Packed(Vec<Relocation>),
}

impl<'d> Relocations<'d> {
    /// The relocations in `section`, which has index `index` and [has some](Section::has_relocations).
    ///
    /// # Errors
    ///
    /// `sh_entsize` or `sh_size` is wrong, or packed relocations are malformed.
    pub(crate) fn read(view: &View<'d>, index: u32, section: &Section) -> Result<Self> {
        let entries = if section.kind == elf::SHT_REL.0 {
            RelocationEntries::Rel(view.table(index, section)?)
        } else if section.is_packed_for_android() {
            RelocationEntries::Packed(android::read(view, index, section)?)
        } else {
            RelocationEntries::Rela(view.table(index, section)?)
        };
        if u32::try_from(entries.len()).is_err() {
            let kind = ErrorKind::Unsupported("more than 4 billion relocations");
            return Err(view.section_error(index, kind));
        }
        Ok(Self { mips64el: view.has_mips64el_info(), entries })
    }

    /// Relocation `index`, or `None` if there is no such relocation.
    pub(crate) fn get(&self, index: u32) -> Option<Relocation> {
        let at = index as usize;
        match &self.entries {
            RelocationEntries::Rel(table) => {
                by_class!(table, list => Some(self.rel(index, list.get(at)?)))
            }
            RelocationEntries::Rela(table) => {
                by_class!(table, list => Some(self.rela(index, list.get(at)?)))
            }
            RelocationEntries::Packed(list) => list.get(at).copied(),
        }
    }

    /// All relocations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Relocation> + use<'_, 'd> {
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
        // Each arm has its own loop, so that no loop asks which kind it is.
        match &self.entries {
            RelocationEntries::Rel(table) => {
                by_class!(table, list => self.matching_rel(list, wanted, found))
            }
            RelocationEntries::Rela(table) => {
                by_class!(table, list => self.matching_rela(list, wanted, found))
            }
            RelocationEntries::Packed(list) => {
                each(list, |entry| entry.symbol, wanted, |_, entry| found(*entry))
            }
        }
    }

    fn matching_rel<R: Rel>(
        &self,
        list: &[R],
        wanted: impl Fn(u32) -> bool,
        found: &mut dyn FnMut(Relocation),
    ) -> u32 {
        let (e, found) = (R::Endian::default(), |index, entry: &_| found(self.rel(index, entry)));
        if self.mips64el {
            each(list, |entry| mips64el_info(entry).0, wanted, found)
        } else {
            each(list, |entry| entry.r_sym(e), wanted, found)
        }
    }

    fn matching_rela<R: Rela>(
        &self,
        list: &[R],
        wanted: impl Fn(u32) -> bool,
        found: &mut dyn FnMut(Relocation),
    ) -> u32 {
        let (e, found) = (R::Endian::default(), |index, entry: &_| found(self.rela(index, entry)));
        if self.mips64el {
            each(list, |entry| entry.r_sym(e, true), wanted, found)
        } else {
            each(list, |entry| entry.r_sym(e, false), wanted, found)
        }
    }

    fn rel<R: Rel>(&self, index: u32, entry: &R) -> Relocation {
        let e = R::Endian::default();
        let (symbol, kind) =
            if self.mips64el { mips64el_info(entry) } else { (entry.r_sym(e), entry.r_type(e).0) };
        Relocation { index, offset: entry.r_offset(e).into(), symbol, kind, addend: None }
    }

    fn rela<R: Rela>(&self, index: u32, entry: &R) -> Relocation {
        let e = R::Endian::default();
        Relocation {
            index,
            offset: entry.r_offset(e).into(),
            symbol: entry.r_sym(e, self.mips64el),
            kind: entry.r_type(e, self.mips64el).0,
            addend: Some(entry.r_addend(e).into()),
        }
    }
}

/// The symbol and type of an entry whose `r_info` is `r_sym, r_ssym, r_type3, r_type2, r_type`: the
/// symbol as a word, then four bytes, the last of which is the type.
fn mips64el_info<R: Rel>(entry: &R) -> (u32, u32) {
    let e = R::Endian::default();
    (entry.r_type(e).0, entry.r_sym(e).swap_bytes())
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

impl RelocationEntries<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Rel(table) => by_class!(table, list => list.len()),
            Self::Rela(table) => by_class!(table, list => list.len()),
            Self::Packed(list) => list.len(),
        }
    }
}
