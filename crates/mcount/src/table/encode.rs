//! Writing a table: its bytes, its relocations, and the sections that hold them.

use crate::elf::edit::{Edit, encode_relocation, new_section};
use crate::elf::{Encoder, Section};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use object::read::elf::FileHeader;

/// What an entry is relocated against, and the distance from there in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) symbol: u32,
    pub(crate) addend: u64,
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
    pub(crate) table: Vec<u8>,
    pub(crate) relocations: Vec<u8>,
}

/// Encodes `entries` for `target`.
pub(crate) fn bodies<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    rela: bool,
    entries: &[Reference],
) -> Bodies {
    let view = target.view;
    let encoder = |words: usize| Encoder {
        big_endian: view.is_big_endian(),
        is_64: view.is_64(),
        out: Vec::with_capacity(entries.len() * words * if view.is_64() { 8 } else { 4 }),
    };
    let (mut table, mut relocations) = (encoder(1), encoder(if rela { 3 } else { 2 }));
    let kind = target.arch.address(view.word()).unwrap_or_default();
    for (offset, entry) in (0..).step_by(if view.is_64() { 8 } else { 4 }).zip(entries) {
        let in_section = !rela || target.arch.addend_in_section;
        table.word(if in_section { entry.addend } else { 0 });
        let fields = (offset, entry.symbol, kind, if in_section { 0 } else { entry.addend });
        encode_relocation(&mut relocations, view.has_mips64el_info(), rela, fields);
    }
    Bodies { table: table.out, relocations: relocations.out }
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
    entries: &[Reference],
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
    let table = edit.add_section(table, bodies.table);
    let count = entries.len().max(1) as u64;
    let relocations = Section {
        kind: if shape.rela { elf::SHT_RELA.0 } else { elf::SHT_REL.0 },
        flags: elf::SHF_INFO_LINK.0 | group,
        link: target.symbols.as_ref().map_or(0, |symbols| symbols.section),
        info: table,
        alignment: word,
        entry_size: bodies.relocations.len() as u64 / count,
        ..new_section(name)
    };
    let relocations = edit.add_section(relocations, bodies.relocations);
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
