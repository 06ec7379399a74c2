//! Puts the symbols of a separate debug file into its stripped image, so that everything else needs to
//! read only one file.
//!
//! Both files come from the same link, so sections and addresses are the same. The debug file has no
//! code. The one that some distributions leave in the image (`.gnu_debugdata`) also lacks the symbols
//! that the dynamic linker has anyway.
//!
//! Sources: gABI, 4 ("Symbol Table"); GNU's convention for debug files (gdb manual, "Separate Debug
//! Files").

use crate::elf::edit::{Edit, new_section};
use crate::elf::{Section, Symbols, Verb, View, open};
use crate::error::{Error, ErrorKind, Result};
use ::object::elf;
use std::collections::HashSet;

/// [`crate::with_symbols`], for each class and byte order.
pub(crate) struct WithSymbols<'b>(pub(crate) &'b [u8]);

impl<'d> Verb<'d> for WithSymbols<'_> {
    type Output = Option<Vec<u8>>;

    fn run(self, view: &View<'d>) -> Result<Self::Output> {
        if Symbols::read(view)?.is_some() {
            return Ok(None);
        }
        let dynamic = Symbols::read_dynamic(view).ok().flatten();
        let (class, big_endian) = (view.is_64(), view.is_big_endian());
        let names = open(self.0, ReadSymbols { class, big_endian, is_merged: dynamic.is_some() })?;
        let Some(mut names) = names.filter(|names| names.machine == view.machine()) else {
            return Ok(None);
        };
        let sections: Vec<Option<u32>> =
            names.sections.iter().map(|section| counterpart(view, section)).collect();
        let place = if view.is_64() { 6..8 } else { 14..16 };
        for entry in names.entries.chunks_exact_mut(view.symbol_size()) {
            if let Some(field) = entry.get_mut(place.clone()) {
                renumber(field, view.is_big_endian(), &sections);
            }
        }
        if let Some(dynamic) = dynamic {
            names.complete(view, &dynamic)?;
        }
        add(view, names).map(Some)
    }
}

/// A section of the debug file.
struct DebugSection {
    name: Vec<u8>,
    header: Section,
}

/// The symbol table of the debug file.
struct DebugSymbols {
    machine: u16,
    sections: Vec<DebugSection>,
    header: Section,
    entries: Vec<u8>,
    strings: Vec<u8>,
    /// The addresses and names of all, if that's asked for.
    known: HashSet<(u64, Vec<u8>)>,
}

impl DebugSymbols {
    /// Adds the symbols of the dynamic symbol table of `view` that aren't there.
    fn complete(&mut self, view: &View<'_>, dynamic: &Symbols<'_>) -> Result<()> {
        let entries = view.section_data(dynamic.section)?.chunks_exact(view.symbol_size());
        let Ok(start) = u32::try_from(self.strings.len()) else { return Ok(()) };
        self.strings.extend(dynamic.strings());
        for ((_, symbol), entry) in dynamic.iter().zip(entries) {
            let key = (symbol.value, dynamic.name(&symbol).to_vec());
            let Some(name) = start.checked_add(symbol.name) else { return Ok(()) };
            if symbol.is_undefined || self.known.contains(&key) {
                continue;
            }
            let name = if view.is_big_endian() { name.to_be_bytes() } else { name.to_le_bytes() };
            self.entries.extend(name);
            self.entries.extend(entry.iter().skip(name.len()));
        }
        Ok(())
    }
}

/// `name` without the version that linkers append.
fn without_version(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'@').next().unwrap_or(name)
}

/// Reads the symbol table of a file of this class and byte order.
struct ReadSymbols {
    class: bool,
    big_endian: bool,
    /// Other symbols are added, so it matters which are there.
    is_merged: bool,
}

impl<'d> Verb<'d> for ReadSymbols {
    type Output = Option<DebugSymbols>;

    fn run(self, view: &View<'d>) -> Result<Option<DebugSymbols>> {
        let Some(symbols) = Symbols::read(view)? else { return Ok(None) };
        if (view.is_64(), view.is_big_endian()) != (self.class, self.big_endian) {
            return Ok(None);
        }
        let sections = (0u32..).zip(view.sections());
        let sections = sections.map(|(index, header)| DebugSection {
            name: view.section_name(index).to_vec(),
            header: *header,
        });
        let all = symbols.iter().filter(|_| self.is_merged);
        let known =
            all.map(|(_, symbol)| (symbol.value, without_version(symbols.name(&symbol)).to_vec()));
        Ok(Some(DebugSymbols {
            known: known.collect(),
            machine: view.machine(),
            sections: sections.collect(),
            header: view.section(symbols.section)?,
            entries: view.section_data(symbols.section)?.to_vec(),
            strings: symbols.strings().to_vec(),
        }))
    }
}

/// The section of `view` that has the name and address of `section` of the debug file.
fn counterpart(view: &View<'_>, section: &DebugSection) -> Option<u32> {
    let is_loaded = section.header.flags & elf::SHF_ALLOC.0 != 0;
    let mut all = (0u32..).zip(view.sections()).filter(|_| is_loaded);
    let found = all.find(|(index, own)| {
        own.address == section.header.address && view.section_name(*index) == section.name
    });
    found.map(|(index, _)| index)
}

/// `view` with the symbols of `table`.
fn add(view: &View<'_>, table: DebugSymbols) -> Result<Vec<u8>> {
    let mut edit = Edit::new(view);
    let names = view.section_names_index();
    let name = edit.add_string(names, b".strtab")?;
    let strings = Section { kind: elf::SHT_STRTAB.0, alignment: 1, ..new_section(name) };
    let strings = edit.add_section(strings, table.strings);
    let name = edit.add_string(names, b".symtab")?;
    edit.add_section(Section { name, link: strings, ..table.header }, table.entries);
    if names == 0 {
        return Err(Error::new(ErrorKind::Unsupported("an image without section names")));
    }
    Ok(edit.finish()?.apply(view.data))
}

/// Changes the section index `field` of a symbol from that of the debug file to that of the image. If the
/// image doesn't have the section, the symbol becomes absolute.
fn renumber(field: &mut [u8], big_endian: bool, sections: &[Option<u32>]) {
    let [first, second] = *field else { return };
    let read = if big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
    let old = read([first, second]);
    if old == elf::SHN_UNDEF.0 || old >= elf::SHN_LORESERVE {
        return;
    }
    let new = sections.get(usize::from(old)).copied().flatten();
    let new = new.and_then(|new| u16::try_from(new).ok()).unwrap_or(elf::SHN_ABS.0);
    let bytes = if big_endian { new.to_be_bytes() } else { new.to_le_bytes() };
    field.copy_from_slice(&bytes);
}
