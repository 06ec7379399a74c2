//! What a right table of an object is: the one definition that recording and checking share.
//!
//! A table is right if its entries lead to the sites that should be recorded, each of them once, and
//! if the linker cannot spoil them. The verbs compare entries and sites themselves. This file knows
//! what linkers do: `check` reports each [`EntryFlaw`] and [`PartFlaw`], and `record` writes a new
//! table as soon as there is one.
//!
//! Sources: gABI, Section Groups, `SHF_LINK_ORDER` and Relocation; the psABI of each processor that
//! relaxes.

use super::{Entry, Part};
use crate::elf::{Section, Symbol};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use object::read::elf::FileHeader;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

/// `GRP_COMDAT`, in the first word of a group.
const GRP_COMDAT: u32 = 1;

/// What a linker may do to an entry.
pub(crate) enum EntryFlaw {
    /// The symbol is defined in another file.
    Undefined(Symbol),
    /// Another file may override the symbol.
    Weak(Symbol),
    /// It may delete code between the symbol and the place, this many bytes.
    Shrinks(Symbol, i64),
    /// It adds the instruction-set bit of the function, which the tracer does not clear.
    IsaBit,
    /// It may discard the place with this COMDAT group, and keep the entry.
    OutsideGroup(u32),
    /// It keeps or discards the entry with this section, which is not the one it leads to.
    OrderedByOther(u32),
}

/// What a linker may do to a section of a table.
pub(crate) enum PartFlaw {
    /// Its words would not be aligned; `sh_addralign` is this.
    Misaligned(u64),
    /// Garbage collection keeps or takes it as a whole: no section of code orders it.
    Unordered,
    /// Its relocations have addends and those of the processor's objects do not, or the reverse.
    OtherForm,
}

/// What a linker knows of one object.
pub(crate) struct Linker<'t, 'v, 'd, Elf: FileHeader> {
    target: &'t Target<'v, 'd, Elf>,
    /// The COMDAT group of each section that is in one.
    groups: HashMap<u32, u32>,
    /// Its relocations carry addends.
    rela: bool,
    /// Sections from which it may delete bytes, `None` for all; found out when first asked for.
    shrinking: OnceCell<Option<BTreeSet<u32>>>,
}

impl<'t, 'v, 'd, Elf: FileHeader> Linker<'t, 'v, 'd, Elf> {
    /// # Errors
    ///
    /// A group, or a relocation section of code, is malformed.
    pub(crate) fn new(target: &'t Target<'v, 'd, Elf>) -> Result<Self> {
        let mut groups = target.groups()?;
        groups.retain(|_, group| is_comdat(target, *group));
        Ok(Self { target, groups, rela: carries_addends(target), shrinking: OnceCell::new() })
    }

    /// What is wrong with a section of a table.
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
        let is_other = |kind: u32| {
            kind == elf::SHT_RELA.0 && !self.rela || kind == elf::SHT_REL.0 && self.rela
        };
        if part.lists.iter().any(|(_, list)| list.size != 0 && is_other(list.kind)) {
            flaws.push(PartFlaw::OtherForm);
        }
        flaws
    }

    /// What is wrong with `entry`, which is in `part`.
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

    /// What comes of the symbol that `entry` is relocated against, and of the distance from it.
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

/// Whether entries of `target` are relocated with addends (RELA): as its code is, or as the processor
/// has it in an object whose code has no relocation.
pub(crate) fn carries_addends<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> bool {
    let is_of_code = |list: &Section| {
        let applies_to = || target.view.section(list.info);
        list.is_relocations() && list.size != 0 && applies_to().is_ok_and(|s| s.is_code())
    };
    match target.view.sections().find(is_of_code) {
        Some(list) => list.kind == elf::SHT_RELA.0,
        None => !target.arch.is_rel(target.view.word()),
    }
}

/// Whether of several groups like section `group` the linker keeps one.
fn is_comdat<Elf: FileHeader>(target: &Target<'_, '_, Elf>, group: u32) -> bool {
    let bytes = target.view.section_data(group).unwrap_or_default();
    let Some(first) = bytes.first_chunk::<4>() else { return false };
    let big = target.view.is_big_endian();
    let flags = if big { u32::from_be_bytes(*first) } else { u32::from_le_bytes(*first) };
    flags & GRP_COMDAT != 0
}

/// The sections whose relocations allow the linker to delete bytes; `None` where none say so.
fn shrinking<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> Result<Option<BTreeSet<u32>>> {
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
