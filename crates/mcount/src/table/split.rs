//! Splits the compiler's list of patchable entries, so that each section of code has a list of its own.
//!
//! gcc up to version 12 writes one list for a whole file, in a section that is linked to the first section
//! of code and is in no group (GCC PR 110729):
//!
//! ```text
//! .text.main      __patchable_function_entries (linked to .text.main): .text.main, .text.f<int>
//! .text.f<int>    in a COMDAT group
//! ```
//!
//! If another file has the same group, the linker discards this `f<int>`, but keeps the entry. GNU ld then
//! ends with "defined in discarded section". And if no code calls `main`, `--gc-sections` drops the whole
//! list. Newer compilers write what this file makes: a list for each section of code, linked to it and in
//! its group.
//!
//! Unlike the entries of a new table, these keep the symbols and addends that the compiler gave them.
//!
//! Sources: gABI, Section Groups and `SHF_LINK_ORDER`; GCC bugs 93195 and 110729.

use super::encode::{Anchors, Entries, Reference, References};
use super::right::{EntryFlaw, Linker, carries_addends};
use super::write::{Home, Shape, Tables, Writer};
use super::{Entry, Part};
use crate::elf::edit::Edit;
use crate::error::Result;
use crate::scan::Target;
use crate::site::PATCHABLE_SECTION;
use std::collections::HashMap;
use std::rc::Rc;

/// A list to split.
pub(crate) struct Split {
    parts: Vec<Part>,
    /// All entries, by the section of code that they lead to: where each leads, and its symbol.
    entries: Vec<((u32, u64), Reference)>,
}

impl Split {
    /// The list of `target`, if a linker would spoil it and splitting helps. Returns `None` if an entry
    /// isn't just the address of a place in this file: splitting would lose what else it says.
    ///
    /// # Errors
    ///
    /// The list, its relocations or a group are malformed.
    pub(crate) fn needed(target: &Target<'_, '_>) -> Result<Option<Self>> {
        let mut parts = super::parts(target, PATCHABLE_SECTION.as_bytes());
        parts.retain(|part| target.view.is_called(part.index, PATCHABLE_SECTION.as_bytes()));
        let existing = super::entries(target, &parts)?;
        if existing.is_empty() || !is_spoiled(target, &parts, &existing)? {
            return Ok(None);
        }
        let mut relocations = 0;
        for (index, list) in parts.iter().flat_map(|part| &part.lists) {
            relocations += target.relocations(*index, list)?.iter().count();
        }
        let entries: Option<Vec<_>> = existing.iter().map(of_entry).collect();
        let Some(mut entries) = entries.filter(|all| all.len() == relocations) else {
            return Ok(None);
        };
        entries.sort_by_key(|((section, _), _)| *section);
        Ok(Some(Self { parts, entries }))
    }

    /// The number of entries.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Splits the list. No symbols may be added to `edit` after that.
    ///
    /// # Errors
    ///
    /// A group, or the table of names, is malformed.
    pub(crate) fn write<'v, 'd>(
        self,
        target: &Target<'v, 'd>,
        edit: &mut Edit<'v, 'd>,
    ) -> Result<()> {
        let groups = target.groups()?;
        let shape = Shape {
            name: PATCHABLE_SECTION,
            rela: carries_addends(target),
            writable: self.parts.iter().any(Part::is_writable),
            link_order: self.parts.iter().any(|part| part.link().is_some()),
        };
        let (places, references): (Vec<_>, Vec<Reference>) = self.entries.into_iter().unzip();
        let renumbered = references
            .into_iter()
            .map(|reference| Reference { symbol: edit.symbol(reference.symbol), ..reference });
        let symbols = Anchors::Each(renumbered.collect());
        let all = Rc::new(References { places, symbols });
        let tables = tables(&all, &groups, shape.link_order);
        Writer { target, edit, shape, groups: &groups }.write(self.parts, tables)
    }
}

/// Where an entry leads, and the symbol that it refers to.
fn of_entry(entry: &Entry) -> Option<((u32, u64), Reference)> {
    let (symbol, addend) = entry.base?;
    Some((entry.place?, Reference { symbol, addend: addend.cast_unsigned() }))
}

/// Whether a linker may keep an entry and discard the code that it leads to, or the reverse.
fn is_spoiled(target: &Target<'_, '_>, parts: &[Part], entries: &[Entry]) -> Result<bool> {
    let linker = Linker::new(target)?;
    let mut entries = entries.iter().peekable();
    for part in parts {
        while let Some(entry) = entries.next_if(|entry| entry.slot.0 == part.index) {
            let is_spoiled = linker.entry_flaws(part, entry)?.iter().any(|flaw| {
                matches!(flaw, EntryFlaw::OutsideGroup(_) | EntryFlaw::OrderedByOther(_))
            });
            if is_spoiled {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The entries of each table section. There is one for each group and, with `link_order`, for each
/// section of code.
pub(crate) fn tables(all: &Rc<References>, groups: &HashMap<u32, u32>, link_order: bool) -> Tables {
    let mut tables = Tables::new();
    let mut start = 0;
    for places in all.places.chunk_by(|a, b| a.0 == b.0) {
        let Some((section, _)) = places.first() else { continue };
        let home =
            Home { group: groups.get(section).copied(), link: link_order.then_some(*section) };
        let end = start + places.len();
        let entries = tables.entry(home).or_insert_with(|| Entries::of(all, 0..0));
        entries.add(start..end);
        start = end;
    }
    tables
}
