//! Writing a table: its bytes, its relocations, and the sections that hold them.

use crate::elf::edit::{Edit, Encoded, encode_relocation, new_section};
use crate::elf::{Encoder, Section};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use object::read::elf::FileHeader;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// What an entry is relocated against, and the distance from there in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) symbol: u32,
    pub(crate) addend: u64,
}

/// What the entries of all tables of an object refer to.
pub(crate) struct References {
    /// Where the entries lead: a section, and bytes from its start.
    pub(crate) places: Vec<(u32, u64)>,
    pub(crate) symbols: Anchors,
}

/// The symbols that entries are relocated against.
pub(crate) enum Anchors {
    /// One for each section, by its index.
    Sections(BTreeMap<u32, u32>),
    /// One for each place; the first of them.
    Own(u32),
}

/// The entries of one table.
#[derive(Clone)]
pub(crate) struct Entries {
    all: Rc<References>,
    /// Which of the places.
    ranges: Vec<Range<usize>>,
}

impl Entries {
    /// Entries for `range` of the places of `all`.
    pub(crate) fn of(all: &Rc<References>, range: Range<usize>) -> Self {
        Self { all: Rc::clone(all), ranges: vec![range] }
    }

    /// Adds those for `range`.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.ranges.push(range);
    }

    fn count(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Calls `found` with each, in order.
    fn each(&self, mut found: impl FnMut(Reference)) {
        let mut last = None;
        for range in &self.ranges {
            let places = self.all.places.get(range.clone()).unwrap_or_default();
            for (index, (section, offset)) in range.clone().zip(places) {
                found(match &self.all.symbols {
                    Anchors::Own(first) => {
                        let index = u32::try_from(index).unwrap_or(u32::MAX);
                        Reference { symbol: first.saturating_add(index), addend: 0 }
                    }
                    Anchors::Sections(symbols) => {
                        let known = last.filter(|(of, _)| of == section);
                        let find = || symbols.get(section).copied().unwrap_or_default();
                        let (_, symbol) = known.unwrap_or_else(|| (*section, find()));
                        last = Some((*section, symbol));
                        Reference { symbol, addend: *offset }
                    }
                });
            }
        }
    }
}

/// How the sections of a table look.
#[derive(Debug, Clone)]
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a str,
    /// Relocations carry their addends (RELA), as the object's own do.
    pub(crate) rela: bool,
    pub(crate) writable: bool,
    /// The COMDAT group that the table is a member of.
    pub(crate) group: Option<u32>,
    /// The section of code that the table is ordered by, and lives with.
    pub(crate) link: Option<u32>,
}

/// The bytes of a table and of its relocations.
pub(crate) struct Bodies {
    pub(crate) table: Encoded,
    pub(crate) relocations: Encoded,
}

/// How `entries` are encoded for `target`.
pub(crate) fn bodies<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    rela: bool,
    entries: &Entries,
) -> Bodies {
    let view = target.view;
    let (count, word) = (entries.count(), view.word());
    let kind = target.arch.address(word).unwrap_or_default();
    let mips64el = view.has_mips64el_info();
    let in_section = !rela || target.arch.addend_in_section;
    let (of_table, of_relocations) = (entries.clone(), entries.clone());
    let size = |words: usize| count * words * if view.is_64() { 8 } else { 4 };
    let table = move |out: &mut Encoder| {
        of_table.each(|entry| out.word(if in_section { entry.addend } else { 0 }));
    };
    let relocations = move |out: &mut Encoder| {
        let mut offset = 0;
        of_relocations.each(|entry| {
            let fields = (offset, entry.symbol, kind, if in_section { 0 } else { entry.addend });
            encode_relocation(out, mips64el, rela, fields);
            offset += word;
        });
    };
    Bodies {
        table: Encoded { size: size(1), encode: Box::new(table) },
        relocations: Encoded {
            size: size(if rela { 3 } else { 2 }),
            encode: Box::new(relocations),
        },
    }
}

/// Adds a table with `entries`, and its relocation section, to `edit`.
///
/// # Errors
///
/// The group is malformed.
pub(crate) fn add<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    edit: &mut Edit<'_, '_, Elf>,
    shape: &Shape<'_>,
    entries: &Entries,
) -> Result<()> {
    let word = target.view.word();
    let bodies = bodies(target, shape.rela, entries);
    let prefix = if shape.rela { ".rela" } else { ".rel" };
    let names = target.view.section_names_index();
    // The table's name is the tail of its relocation section's.
    let name = edit.add_string(names, format!("{prefix}{}", shape.name).as_bytes())?;
    let tail = name + if shape.rela { 5 } else { 4 };
    let group = if shape.group.is_some() { elf::SHF_GROUP.0 } else { 0 };
    let table = Section {
        kind: elf::SHT_PROGBITS.0,
        flags: flags(shape) | group,
        link: shape.link.unwrap_or(0),
        alignment: word,
        entry_size: word,
        ..new_section(tail)
    };
    let table = edit.add_encoded(table, bodies.table);
    let count = entries.count().max(1) as u64;
    let relocations = Section {
        kind: if shape.rela { elf::SHT_RELA.0 } else { elf::SHT_REL.0 },
        flags: elf::SHF_INFO_LINK.0 | group,
        link: target.symbols.as_ref().map_or(0, |symbols| symbols.section),
        info: table,
        alignment: word,
        entry_size: bodies.relocations.size as u64 / count,
        ..new_section(name)
    };
    let relocations = edit.add_encoded(relocations, bodies.relocations);
    if let Some(group) = shape.group {
        let mut members = Encoder {
            big_endian: target.view.is_big_endian(),
            is_64: target.view.is_64(),
            out: Vec::new(),
        };
        members.u32(table);
        members.u32(relocations);
        edit.body(group)?.extend(members.out);
    }
    Ok(())
}

/// The flags of a table of `shape`, but for its group's.
fn flags(shape: &Shape<'_>) -> u64 {
    let mut flags = elf::SHF_ALLOC.0;
    if shape.writable {
        flags |= elf::SHF_WRITE.0;
    }
    if shape.link.is_some() {
        flags |= elf::SHF_LINK_ORDER.0;
    }
    flags
}
