//! The tables of an object, and the flaws that show before we look at where the entries lead: those in
//! what a linker will do with their relocations.

use super::{Flaw, JudgedEntry, JudgedTable, Rule, reversed};
use crate::elf::Symbol;
use crate::error::Result;
use crate::options::Options;
use crate::scan::{Target, patchable};
use crate::table::right::{EntryFlaw, Linker, PartFlaw};
use crate::table::{self, Part};

/// The tables of `target`. All sections of one name are one table.
///
/// # Errors
///
/// A table, or its relocations, are malformed.
pub(super) fn tables(target: &Target<'_, '_>, options: &Options) -> Result<Vec<JudgedTable>> {
    let linker = Linker::new(target)?;
    let mut names = vec![options.table_section.as_str(), patchable::SECTION];
    names.dedup();
    let mut tables = Vec::new();
    for name in names {
        let parts = table::parts(target, name.as_bytes());
        if parts.is_empty() {
            continue;
        }
        let entries = table::entries(target, &parts)?;
        let mut entries = entries.iter().peekable();
        let is_list = name == patchable::SECTION;
        let mut found = JudgedTable { is_list, ..JudgedTable::default() };
        for part in &parts {
            let flaws = linker.part_flaws(part);
            found.flaws.extend(flaws.iter().map(|flaw| of_part(target, part, flaw)));
            while let Some(entry) = entries.next_if(|entry| entry.slot.0 == part.index) {
                let flaws = linker.entry_flaws(part, entry)?;
                let flaws = flaws.iter().map(|flaw| of_entry(target, flaw)).collect();
                let reversed = turned(target, entry);
                found.entries.push(JudgedEntry {
                    slot: entry.slot,
                    place: entry.place,
                    reversed,
                    flaws,
                });
            }
        }
        tables.push(found);
    }
    Ok(tables)
}

/// Where `entry` would lead with the bytes of its distance reversed.
fn turned(target: &Target<'_, '_>, entry: &table::Entry) -> Option<(u32, u64)> {
    let (symbol, addend) = entry.base?;
    let symbol = target.symbols.as_ref()?.get(symbol)?;
    let addend = reversed(addend.cast_unsigned(), target.view.word()).cast_signed();
    table::place(target, &symbol, addend)
}

/// The text of a finding about a flaw of a section of a table.
fn of_part(target: &Target<'_, '_>, part: &Part, flaw: &PartFlaw) -> Flaw {
    let (rule, detail) = match flaw {
        PartFlaw::Misaligned(align) => {
            let word = target.view.word();
            let detail = format!("the table is aligned to {align}, its addresses need {word}");
            (Rule::Misaligned, detail)
        }
        PartFlaw::Unordered => {
            let detail = "one table for all sections: ld --gc-sections keeps or drops all of it";
            (Rule::GcUnsafe, detail.to_owned())
        }
        PartFlaw::OtherForm => {
            let detail = "linkers look for the addends of this object elsewhere: \
                          REL and RELA are mixed up";
            (Rule::WrongOffset, detail.to_owned())
        }
    };
    (rule, (part.index, 0), detail)
}

/// The text of a finding about a flaw of an entry.
fn of_entry(target: &Target<'_, '_>, flaw: &EntryFlaw) -> (Rule, String) {
    match flaw {
        EntryFlaw::Undefined(symbol) => {
            let name = name(target, symbol);
            let detail = format!("relocated against {name}, which is defined elsewhere");
            (Rule::NoBaseSymbol, detail)
        }
        EntryFlaw::Weak(symbol) => {
            let name = name(target, symbol);
            let detail = format!("relocated against the weak {name}, which may be overridden");
            (Rule::NoBaseSymbol, detail)
        }
        EntryFlaw::Shrinks(symbol, addend) => {
            let name = name(target, symbol);
            let detail = format!("relocated against {name}{addend:+#x}, over code that may shrink");
            (Rule::RelaxationUnsafe, detail)
        }
        EntryFlaw::IsaBit => {
            let detail = "relocated against a function with the instruction-set bit in its value: \
                          the linker adds 1";
            (Rule::WrongOffset, detail.to_owned())
        }
        EntryFlaw::OutsideGroup(group) => {
            let header = target.view.section(*group).ok();
            let symbols = target.symbols.as_ref();
            let signature = header.and_then(|header| symbols?.get(header.info));
            let name = signature.map(|symbol| name(target, &symbol)).unwrap_or_default();
            (Rule::ComdatUnsafe, format!("in the COMDAT group {name}, and the table is not"))
        }
        EntryFlaw::OrderedByOther(section) => {
            let other = crate::names::lossy(target.view.section_name(*section));
            let detail =
                format!("ld --gc-sections drops this entry with {other}, not its own code");
            (Rule::GcUnsafe, detail)
        }
    }
}

/// The name of `symbol`, or of its section if it is a section symbol.
fn name(target: &Target<'_, '_>, symbol: &Symbol) -> String {
    let section = symbol.section.filter(|_| symbol.is_section());
    let name = match (section, &target.symbols) {
        (Some(section), _) => target.view.section_name(section),
        (None, Some(symbols)) => symbols.name(symbol),
        (None, None) => &[],
    };
    crate::names::lossy(name).into_owned()
}
