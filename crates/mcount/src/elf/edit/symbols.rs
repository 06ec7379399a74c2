//! Adding local symbols. They come before the global ones, so the indices of all global symbols change:
//! in relocations, groups and LLVM's tables.
//!
//! Sources: gABI, Symbol Table (`sh_info`) and Section Groups; LLVM Extensions, `SHT_LLVM_ADDRSIG`.

use super::encode::{encode_symbol, new_section};
use super::info::{InfoLayout, relocation_size};
use super::{Edit, FIRST_EXTENDED};
use crate::elf::{Relocations, Section, Symbols, bytes};
use crate::error::{ErrorKind, Result};
use object::elf;

/// How the indices of symbols change.
#[derive(Clone, Copy)]
pub(super) struct Renumbering {
    /// The first symbol that moves.
    first: u32,
    /// How far it moves.
    added: u32,
    /// How many symbols there were before.
    end: u32,
}

impl Renumbering {
    /// What becomes of the index `old`.
    pub(super) fn of(self, old: u32) -> u32 {
        if old >= self.first { old.saturating_add(self.added) } else { old }
    }
}

/// A local symbol to add.
pub(crate) struct NewSymbol {
    /// `STT_*`.
    pub(crate) kind: u8,
    /// Empty for none.
    pub(crate) name: Vec<u8>,
    pub(crate) section: u32,
    pub(crate) value: u64,
}

const SHN_XINDEX: u16 = 0xffff;

/// Section types of LLVM that have symbol indices. The second one can't be renumbered.
const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
const SHT_LLVM_CALL_GRAPH_PROFILE_OLD: u32 = 0x6fff_4c02;

impl<'d> Edit<'_, 'd> {
    /// Adds `new` after the last local symbol of `symbols` and renumbers the symbols after it.
    ///
    /// # Errors
    ///
    /// A section is malformed, or refers to symbols in a way that can't be renumbered.
    pub(crate) fn add_symbols(&mut self, symbols: &Symbols<'d>, new: &[NewSymbol]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let renumbering = Renumbering {
            first: symbols.first_global,
            added: bytes::index(new.len()),
            end: symbols.count(),
        };
        let (first, count) = (renumbering.first, renumbering.added);
        self.renumbering = Some(renumbering);
        self.insert_symbols(symbols, new)?;
        for (index, section) in (0u32..).zip(self.view.sections()) {
            if section.link != symbols.section {
                continue;
            }
            if section.is_relocations() {
                self.renumber_relocations(index, section, renumbering)?;
            } else if section.kind == elf::SHT_GROUP.0 && section.info >= first {
                self.header(index)?.info = section.info.saturating_add(count);
            } else if section.kind == SHT_LLVM_ADDRSIG {
                self.renumber_address_significance(index, first, count)?;
            } else if section.kind == SHT_LLVM_CALL_GRAPH_PROFILE_OLD {
                let kind = ErrorKind::Unsupported("symbol indices in a call graph profile");
                return Err(self.view.section_error(index, kind));
            }
        }
        Ok(())
    }

    fn insert_symbols(&mut self, symbols: &Symbols<'d>, new: &[NewSymbol]) -> Result<()> {
        let mut entries = self.encoder();
        let mut extended = self.encoder();
        let mut needs_extended = symbols.extended_section().is_some();
        for symbol in new {
            let name = match symbol.name.as_slice() {
                [] => 0,
                name => self.add_string(symbols.strings_section, name)?,
            };
            let fits = symbol.section < FIRST_EXTENDED;
            needs_extended |= !fits;
            extended.u32(if fits { 0 } else { symbol.section });
            let section = u16::try_from(symbol.section).ok().filter(|_| fits);
            encode_symbol(&mut entries, name, symbol, section.unwrap_or(SHN_XINDEX));
        }
        let at = symbols.first_global as usize;
        let size = self.view.symbol_size();
        splice(self.body(symbols.section)?, at * size, &entries.out);
        let added = bytes::index(new.len());
        self.header(symbols.section)?.info = symbols.first_global.saturating_add(added);
        if needs_extended {
            let table = self.extended_table(symbols)?;
            splice(self.body(table)?, at * 4, &extended.out);
        }
        Ok(())
    }

    /// The `SHT_SYMTAB_SHNDX` section. Makes it if there is none.
    fn extended_table(&mut self, symbols: &Symbols<'d>) -> Result<u32> {
        if let Some(index) = symbols.extended_section() {
            return Ok(index);
        }
        let name = self.add_string(self.view.section_names_index(), b".symtab_shndx")?;
        let section = Section {
            kind: elf::SHT_SYMTAB_SHNDX.0,
            link: symbols.section,
            alignment: 4,
            entry_size: 4,
            ..new_section(name)
        };
        Ok(self.add_section(section, vec![0; symbols.count() as usize * 4]))
    }

    /// Renumbers the symbols in relocation section `index`.
    fn renumber_relocations(
        &mut self,
        index: u32,
        section: &Section,
        Renumbering { first, added, end }: Renumbering,
    ) -> Result<()> {
        // This checks that the entries have the right size.
        Relocations::read(self.view, index, section)?;
        let layout = InfoLayout::of(self.view);
        let size = relocation_size(self.view, section);
        let overflow = ErrorKind::Unsupported("too many symbols");
        let overflow = self.view.section_error(index, overflow);
        let outside = ErrorKind::Malformed("symbol index out of range");
        let outside = self.view.section_error(index, outside);
        for entry in self.body(index)?.chunks_exact_mut(size) {
            let symbol = layout.symbol(entry);
            if symbol >= end {
                return Err(outside);
            }
            if symbol >= first {
                let moved = symbol.checked_add(added).filter(|moved| *moved <= layout.limit);
                layout.set_symbol(entry, moved.ok_or_else(|| overflow.clone())?);
            }
        }
        Ok(())
    }

    /// Renumbers the symbols in a table of ULEB128 numbers.
    fn renumber_address_significance(&mut self, index: u32, first: u32, count: u32) -> Result<()> {
        let malformed = self.view.section_error(index, ErrorKind::Malformed("a symbol index"));
        let body = self.body(index)?;
        let mut renumbered = Vec::with_capacity(body.len() + 8);
        let mut rest = body.as_slice();
        while let Some((symbol, after)) = read_uleb128(rest) {
            let moved = if symbol >= u64::from(first) {
                symbol.saturating_add(count.into())
            } else {
                symbol
            };
            write_uleb128(&mut renumbered, moved);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(malformed);
        }
        *body = renumbered;
        Ok(())
    }
}

fn splice(body: &mut Vec<u8>, at: usize, new: &[u8]) {
    let at = at.min(body.len());
    body.splice(at..at, new.iter().copied());
}

fn read_uleb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (index * 7);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn write_uleb128(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}
