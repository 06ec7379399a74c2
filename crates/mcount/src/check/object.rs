//! The tables of an object, and what can be said of them before asking where their entries lead: what
//! the linker will make of their relocations.

use super::{Entry, Place, Rule, Table, reversed};
use crate::Options;
use crate::elf::{Section, Symbol};
use crate::error::Result;
use crate::scan::{Target, patchable};
use crate::table;
use object::elf;
use object::read::elf::FileHeader;
use std::collections::{BTreeSet, HashMap};

/// `GRP_COMDAT`, in the first word of a group.
const GRP_COMDAT: u32 = 1;

/// The tables of `target`: each name is one, in any number of sections.
///
/// # Errors
///
/// A table, or its relocations, are malformed.
pub(super) fn tables<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    options: &Options,
) -> Result<Vec<Table>> {
    let linker = Linker::new(target)?;
    let mut names = vec![options.table_section.as_str(), patchable::SECTION];
    names.dedup();
    let mut tables = Vec::new();
    for name in names {
        let sections: Vec<_> = table::sections(target, name.as_bytes()).collect();
        if sections.is_empty() {
            continue;
        }
        let entries = table::read(target, name.as_bytes())?;
        let mut found = Table::default();
        for (index, header) in sections {
            // Reading found its size to be that of entries.
            if header.size != 0 {
                linker.section(index, &header, &mut found);
            }
        }
        found.entries = entries.iter().map(|entry| linker.entry(entry)).collect();
        tables.push(found);
    }
    Ok(tables)
}

/// What a linker may do to the sections of an object.
struct Linker<'t, 'v, 'd, Elf: FileHeader> {
    target: &'t Target<'v, 'd, Elf>,
    /// The COMDAT group of each section that is in one.
    groups: HashMap<u32, u32>,
    /// Sections from which bytes may be deleted; `None` if that may be all.
    shrinking: Option<BTreeSet<u32>>,
}

impl<'t, 'v, 'd, Elf: FileHeader> Linker<'t, 'v, 'd, Elf> {
    fn new(target: &'t Target<'v, 'd, Elf>) -> Result<Self> {
        let mut groups = target.groups()?;
        groups.retain(|_, group| is_comdat(target, *group));
        Ok(Self { target, groups, shrinking: shrinking(target)? })
    }

    /// What is wrong with section `index` of a table.
    fn section(&self, index: u32, header: &Section, found: &mut Table) {
        let word = self.target.view.word();
        if header.alignment < word && !self.target.arch.reads_unaligned {
            let align = header.alignment.max(1);
            let detail = format!("the table is aligned to {align}, its addresses need {word}");
            found.flaws.push((Rule::Misaligned, (index, 0), detail));
        }
        if header.flags & elf::SHF_LINK_ORDER.0 == 0 {
            let detail = "one table for all sections: ld --gc-sections takes it as a whole";
            found.flaws.push((Rule::GcUnsafe, (index, 0), detail.to_owned()));
        }
    }

    fn entry(&self, entry: &table::Entry) -> Entry {
        let word = self.target.view.word();
        let symbols = self.target.symbols.as_ref();
        let base = entry.base.and_then(|(symbol, addend)| Some((symbols?.get(symbol)?, addend)));
        let turned = base.and_then(|(symbol, addend)| {
            let addend = reversed(addend.cast_unsigned(), word).cast_signed();
            table::place(self.target, &symbol, addend)
        });
        let mut flaws = Vec::new();
        if let Some((symbol, addend)) = base {
            self.base(&symbol, &mut flaws);
            self.distance(&symbol, addend, entry.place, &mut flaws);
        }
        if !entry.is_plain && !self.target.arch.entries_have_isa_bit {
            let detail = "relocated against a function with the instruction-set bit in its value: \
                          the linker adds 1";
            flaws.push((Rule::WrongOffset, detail.to_owned()));
        }
        self.group(entry, &mut flaws);
        Entry { slot: entry.slot, place: entry.place, reversed: turned, flaws }
    }

    /// A symbol that may be another one after the link.
    fn base(&self, symbol: &Symbol, flaws: &mut Vec<(Rule, String)>) {
        let name = self.name(symbol);
        if symbol.is_undefined {
            let detail = format!("relocated against {name}, which is defined elsewhere");
            flaws.push((Rule::NoBaseSymbol, detail));
        } else if symbol.is_weak() && !symbol.is_section() {
            let detail = format!("relocated against the weak {name}, which may be overridden");
            flaws.push((Rule::NoBaseSymbol, detail));
        }
    }

    /// A distance over code that may shrink.
    fn distance(
        &self,
        symbol: &Symbol,
        addend: i64,
        place: Option<Place>,
        flaws: &mut Vec<(Rule, String)>,
    ) {
        let Some((section, _)) = place else { return };
        let may_shrink = match &self.shrinking {
            None => true,
            Some(sections) => sections.contains(&section),
        };
        if self.target.arch.relaxes && addend != 0 && may_shrink {
            let name = self.name(symbol);
            let detail = format!("relocated against {name}{addend:+#x}, over code that may shrink");
            flaws.push((Rule::RelaxationUnsafe, detail));
        }
    }

    /// An entry for a function of a group, from outside of the group.
    fn group(&self, entry: &table::Entry, flaws: &mut Vec<(Rule, String)>) {
        let group = entry.place.and_then(|(section, _)| self.groups.get(&section));
        if let Some(group) = group.filter(|group| self.groups.get(&entry.slot.0) != Some(group)) {
            let header = self.target.view.section(*group).ok();
            let symbols = self.target.symbols.as_ref();
            let signature = header.and_then(|header| symbols?.get(header.info));
            let name = signature.map(|symbol| self.name(&symbol)).unwrap_or_default();
            let detail = format!("in the COMDAT group {name}, and the table is not");
            flaws.push((Rule::ComdatUnsafe, detail));
        }
    }

    /// The name of `symbol`, or of the section that it is.
    fn name(&self, symbol: &Symbol) -> String {
        let section = symbol.section.filter(|_| symbol.is_section());
        let name = match (section, &self.target.symbols) {
            (Some(section), _) => self.target.view.section_name(section),
            (None, Some(symbols)) => symbols.name(symbol),
            (None, None) => &[],
        };
        String::from_utf8_lossy(name).into_owned()
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
