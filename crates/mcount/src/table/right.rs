//! The rules for the right table of an object. `record` and `check` share this definition.
//!
//! A table is right if each site that should be recorded has exactly one entry, and if no linker can
//! spoil it. The verbs compare entries and sites themselves. This file knows what linkers do. `check`
//! reports each [`EntryFlaw`] and [`PartFlaw`], and `record` writes a new table if there is one.
//!
//! Sources: gABI, Section Groups, `SHF_LINK_ORDER` and Relocation; the psABI of each processor that
//! relaxes.

use super::{Entry, Part};
use crate::elf::{Section, Symbol};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

/// `GRP_COMDAT`, in the first word of a group.
const GRP_COMDAT: u32 = 1;

/// The changes that a linker may make to an entry.
pub(crate) enum EntryFlaw {
    /// The symbol is defined in another file.
    Undefined(Symbol),
    /// Another file may override the symbol.
    Weak(Symbol),
    /// The linker may delete code between the symbol and the place, which are this many bytes apart.
    Shrinks(Symbol, i64),
    /// The linker adds the instruction-set bit of the function, and the tracer doesn't clear it.
    IsaBit,
    /// The linker may discard the place with this COMDAT group, but keep the entry.
    OutsideGroup(u32),
    /// The linker keeps or discards the entry with this section, but it leads to another.
    OrderedByOther(u32),
}

/// The changes that a linker may make to a section of a table.
pub(crate) enum PartFlaw {
    /// It may put it at an unaligned address, because `sh_addralign` is this.
    Misaligned(u64),
    /// Garbage collection keeps or drops all of it, because it isn't linked to a section of code.
    Unordered,
    /// Its relocations have addends and those of the processor's objects don't, or the reverse.
    OtherForm,
}

/// A linker's knowledge of an object.
pub(crate) struct Linker<'t, 'v, 'd> {
    target: &'t Target<'v, 'd>,
    /// The COMDAT group of each section that is in one.
    groups: HashMap<u32, u32>,
    /// Whether its relocations carry addends.
    rela: bool,
    /// The sections from which the linker may delete bytes; `None` for all. Found when it is first
    /// needed.
    shrinking: OnceCell<Option<BTreeSet<u32>>>,
}

impl<'t, 'v, 'd> Linker<'t, 'v, 'd> {
    /// # Errors
    ///
    /// A group, or a relocation section of code, is malformed.
    pub(crate) fn new(target: &'t Target<'v, 'd>) -> Result<Self> {
        let mut groups = target.groups()?;
        groups.retain(|_, group| is_comdat(target, *group));
        Ok(Self { target, groups, rela: carries_addends(target), shrinking: OnceCell::new() })
    }

    /// The flaws of a section of a table.
    pub(crate) fn part_flaws(&self, part: &Part) -> Vec<PartFlaw> {
        let mut flaws = Vec::new();
        let header = &part.header;
        if header.size == 0 {
            return flaws;
        }
        if header.alignment < self.target.view.word() && !self.target.arch.reads_unaligned {
            flaws.push(PartFlaw::Misaligned(header.alignment.max(1)));
        }
        if part.link().is_none() {
            flaws.push(PartFlaw::Unordered);
        }
        let other = if self.rela { elf::SHT_REL } else { elf::SHT_RELA };
        if part.lists.iter().any(|(_, list)| list.size != 0 && list.kind == other.0) {
            flaws.push(PartFlaw::OtherForm);
        }
        flaws
    }

    /// The flaws of `entry`, which is in `part`.
    ///
    /// # Errors
    ///
    /// Relocations of code are malformed.
    pub(crate) fn entry_flaws(&self, part: &Part, entry: &Entry) -> Result<Vec<EntryFlaw>> {
        let mut flaws = Vec::new();
        let arch = self.target.arch;
        if !entry.is_firm || arch.relaxes && !entry.relaxation_proof {
            self.base_flaws(entry, &mut flaws)?;
        }
        if !entry.is_plain && !arch.entries_have_isa_bit {
            flaws.push(EntryFlaw::IsaBit);
        }
        let Some((section, _)) = entry.place else { return Ok(flaws) };
        if let Some(group) = self.groups.get(&section)
            && self.groups.get(&part.index) != Some(group)
        {
            flaws.push(EntryFlaw::OutsideGroup(*group));
        }
        if let Some(other) = part.link().filter(|link| *link != section) {
            flaws.push(EntryFlaw::OrderedByOther(other));
        }
        Ok(flaws)
    }

    /// Adds what is wrong with the symbol that `entry` refers to, and with the distance from there.
    fn base_flaws(&self, entry: &Entry, flaws: &mut Vec<EntryFlaw>) -> Result<()> {
        let symbols = self.target.symbols.as_ref();
        let base = entry.base.and_then(|(symbol, addend)| Some((symbols?.get(symbol)?, addend)));
        let Some((symbol, addend)) = base else { return Ok(()) };
        if symbol.is_undefined {
            flaws.push(EntryFlaw::Undefined(symbol));
        } else if symbol.is_weak() && !symbol.is_section() {
            flaws.push(EntryFlaw::Weak(symbol));
        }
        let is_far = self.target.arch.relaxes && addend != 0;
        if let Some((section, _)) = entry.place.filter(|_| is_far)
            && self.may_shrink(section)?
        {
            flaws.push(EntryFlaw::Shrinks(symbol, addend));
        }
        Ok(())
    }

    /// Whether the linker may delete bytes from `section`.
    fn may_shrink(&self, section: u32) -> Result<bool> {
        if self.shrinking.get().is_none() {
            // Nobody else can have set it.
            let _ = self.shrinking.set(shrinking(self.target)?);
        }
        Ok(match self.shrinking.get() {
            Some(Some(sections)) => sections.contains(&section),
            _ => true,
        })
    }
}

/// Whether the relocations of `target` carry addends (RELA). Those of its code tell. If it has none, the
/// processor tells.
pub(crate) fn carries_addends(target: &Target<'_, '_>) -> bool {
    match target.view.sections().find(|list| is_of_code(target, list)) {
        Some(list) => list.kind == elf::SHT_RELA.0,
        None => !target.arch.is_rel(target.view.word()),
    }
}

/// Whether `list` has relocations of code.
fn is_of_code(target: &Target<'_, '_>, list: &Section) -> bool {
    list.is_relocations()
        && list.size != 0
        && target.view.section(list.info).is_ok_and(|section| section.is_code())
}

/// Whether the linker keeps only one of several groups like section `group`.
fn is_comdat(target: &Target<'_, '_>, group: u32) -> bool {
    let bytes = target.view.section_data(group).unwrap_or_default();
    let Some(first) = bytes.first_chunk::<4>() else { return false };
    let big = target.view.is_big_endian();
    let flags = if big { u32::from_be_bytes(*first) } else { u32::from_le_bytes(*first) };
    flags & GRP_COMDAT != 0
}

/// The sections from which the linker may delete bytes, by their relocations. `None` if relocations don't
/// tell.
fn shrinking(target: &Target<'_, '_>) -> Result<Option<BTreeSet<u32>>> {
    let marks = target.arch.relax_marks;
    if marks.is_empty() {
        return Ok(None);
    }
    let mut found = BTreeSet::new();
    for (index, header, section) in target.code_relocations()? {
        let list = target.relocations(index, &header)?;
        if list.iter().any(|relocation| marks.contains(&relocation.kind)) {
            found.insert(section);
        }
    }
    Ok(Some(found))
}
