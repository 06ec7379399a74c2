//! The object that carries the table of a linked image into the next link.

use super::{Anchor, LateTable};
use crate::elf::edit::{encode_relocation, encode_section, new_section};
use crate::elf::{Encoder, Section};
use crate::error::{Error, ErrorKind, Result};
use crate::setters::setters;
use crate::site::TABLE_SECTION;
use ::object::elf;

/// How [`table_object`] makes the object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObjectOptions {
    /// The name of the section that holds the table.
    pub table_section: String,
    /// The symbol to refer to, instead of the image's own anchor.
    pub anchor: Option<Anchor>,
    /// Symbols to define at the start and end of the table.
    pub bounds: Option<(String, String)>,
    /// Whether the table is loaded writable.
    pub writable: bool,
}

setters!(ObjectOptions {
    table_section: String,
    anchor: Option<Anchor>,
    bounds: Option<(String, String)>,
    writable: bool,
});

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            table_section: TABLE_SECTION.to_owned(),
            anchor: None,
            bounds: None,
            writable: false,
        }
    }
}

/// Makes an object that carries `table` into a link. Each entry is an address relative to the anchor, so
/// that the linker makes relative relocations if the image needs them. [`crate::late_table`] has an
/// example.
///
/// # Errors
///
/// The image has no anchor and none is given.
pub fn table_object(table: &LateTable, options: &ObjectOptions) -> Result<Vec<u8>> {
    let anchor = options.anchor.as_ref().or(table.anchor.as_ref());
    let anchor = anchor.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported("no symbol that keeps its place, and no other anchor"))
    })?;
    let entries: Vec<_> = table.addresses().map(|to| to.wrapping_sub(anchor.address)).collect();
    Ok(build(table, options, &anchor.symbol, &entries))
}

/// `ELFOSABI_GNU`.
const OS_ABI_GNU: u8 = 3;

/// The sections of the object: null, table, relocations, symbols, strings, names, stack note.
const SECTIONS: u16 = 7;

fn build(table: &LateTable, options: &ObjectOptions, anchor: &str, entries: &[u64]) -> Vec<u8> {
    let TableBodies { words, relocations } = bodies(table, entries);
    let (symbols, strings) = symbols(table, options, anchor, words.len() as u64);
    let prefix = if is_rel_form(table) { ".rel" } else { ".rela" };
    let name = &options.table_section;
    let names = format!("\0{prefix}{name}\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0");
    let section = |name: &str, kind: elf::SectionType| Section {
        kind: kind.0,
        alignment: 1,
        ..new_section(names.find(name).and_then(|at| u32::try_from(at).ok()).unwrap_or(0))
    };
    let word = u64::from(table.bits / 8);
    let is_64 = table.bits == 64;
    let writable = if options.writable { elf::SHF_WRITE.0 } else { 0 };
    let sections = [
        Section {
            flags: elf::SHF_ALLOC.0 | elf::SHF_GNU_RETAIN.0 | writable,
            alignment: word,
            entry_size: word,
            ..section(name, elf::SHT_PROGBITS)
        },
        Section {
            flags: elf::SHF_INFO_LINK.0,
            link: 3,
            info: 1,
            alignment: word,
            entry_size: word * if is_rel_form(table) { 2 } else { 3 },
            ..section(prefix, if is_rel_form(table) { elf::SHT_REL } else { elf::SHT_RELA })
        },
        Section {
            link: 4,
            info: 2,
            alignment: word,
            entry_size: if is_64 { 24 } else { 16 },
            ..section(".symtab", elf::SHT_SYMTAB)
        },
        section(".strtab", elf::SHT_STRTAB),
        section(".shstrtab", elf::SHT_STRTAB),
        section(".note.GNU-stack", elf::SHT_PROGBITS),
    ];
    let contents = [&words, &relocations, &symbols, &strings, names.as_bytes(), &[]];
    assemble(table, sections.into_iter().zip(contents))
}

/// The file: the ELF header, the bytes of the sections, and the section header table.
fn assemble<'b>(table: &LateTable, sections: impl Iterator<Item = (Section, &'b [u8])>) -> Vec<u8> {
    let header_size: u64 = if table.bits == 64 { 64 } else { 52 };
    let (mut contents, mut headers) = (table.encoder(), table.encoder());
    encode_section(&mut headers, &new_section(0));
    // Room for the header, which is made last.
    contents.out.resize(if table.bits == 64 { 64 } else { 56 }, 0);
    for (section, bytes) in sections {
        contents.out.resize(contents.out.len().next_multiple_of(8), 0);
        let offset = contents.out.len() as u64;
        encode_section(&mut headers, &Section { offset, size: bytes.len() as u64, ..section });
        contents.out.extend(bytes);
    }
    contents.out.resize(contents.out.len().next_multiple_of(8), 0);
    let header = elf_header(table, contents.out.len() as u64, header_size).out;
    let rest = contents.out.get(header.len()..).unwrap_or_default();
    [&header, rest, &headers.out].concat()
}

/// The words of the table and their relocations.
struct TableBodies {
    words: Vec<u8>,
    relocations: Vec<u8>,
}

fn bodies(table: &LateTable, entries: &[u64]) -> TableBodies {
    let header = &table.header;
    let (mut words, mut relocations) = (table.encoder(), table.encoder());
    for (offset, entry) in (0..).step_by(usize::from(table.bits / 8)).zip(entries) {
        words.word(if header.rel { *entry } else { 0 });
        // The anchor is symbol 2.
        let fields = (offset, 2, header.address, if header.rel { 0 } else { *entry });
        encode_relocation(&mut relocations, header.mips64el, !is_rel_form(table), fields);
    }
    TableBodies { words: words.out, relocations: relocations.out }
}

/// Whether the object has REL sections. SH has RELA sections, although the addends are in the table.
fn is_rel_form(table: &LateTable) -> bool {
    table.header.rel && table.machine != "sh"
}

/// The symbols of the object, and their strings: the section, the anchor, and the bounds.
fn symbols(
    table: &LateTable,
    options: &ObjectOptions,
    anchor: &str,
    size: u64,
) -> (Vec<u8>, Vec<u8>) {
    const GLOBAL: u8 = elf::STB_GLOBAL.0 << 4;
    let mut all = vec![("", 0, 0, 0), ("", elf::STT_SECTION.0, 1, 0), (anchor, GLOBAL, 0, 0)];
    if let Some((start, stop)) = &options.bounds {
        all.extend([(start.as_str(), GLOBAL, 1, 0), (stop.as_str(), GLOBAL, 1, size)]);
    }
    let mut strings = vec![0];
    let mut out = table.encoder();
    for (name, info, section, value) in all {
        let at = if name.is_empty() { 0 } else { u32::try_from(strings.len()).unwrap_or(0) };
        if !name.is_empty() {
            strings.extend(name.as_bytes());
            strings.push(0);
        }
        out.u32(at);
        if out.is_64 {
            out.u8(info);
            out.u8(0);
            out.u16(section);
            out.word(value);
            out.word(0);
        } else {
            out.word(value);
            out.word(0);
            out.u8(info);
            out.u8(0);
            out.u16(section);
        }
    }
    (out.out, strings)
}

fn elf_header(table: &LateTable, sections_at: u64, size: u64) -> Encoder {
    let mut out = table.encoder();
    let class = if out.is_64 { 2 } else { 1 };
    let order = if out.big_endian { 2 } else { 1 };
    // GNU linkers recognize SHF_GNU_RETAIN only in objects of the GNU ABI, which is that of Linux.
    let os_abi = if table.header.os_abi == 0 { OS_ABI_GNU } else { table.header.os_abi };
    out.out.extend([0x7f, b'E', b'L', b'F', class, order, 1, os_abi]);
    out.out.extend([0; 8]);
    out.u16(1);
    out.u16(table.header.machine);
    out.u32(1);
    out.word(0);
    out.word(0);
    out.word(sections_at);
    out.u32(table.header.flags);
    out.u16(u16::try_from(size).unwrap_or(0));
    out.u16(0);
    out.u16(0);
    out.u16(if out.is_64 { 64 } else { 40 });
    out.u16(SECTIONS);
    out.u16(5);
    out
}
