//! Writes an ELF file with sections and symbols: gABI, 4.

use super::Name;
use super::words::Order;
use object::elf as constants;
use std::collections::HashSet;

/// The kind of file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) machine: u16,
    pub(super) is_64: bool,
    pub(super) big_endian: bool,
    pub(super) flags: u32,
}

impl Header {
    /// The size of a word in bytes.
    pub(super) fn word(self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }

    pub(super) fn order(self) -> Order {
        if self.big_endian { Order::Big } else { Order::Little }
    }
}

/// A section.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    /// `SHF_*`.
    pub(super) flags: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    /// Where it begins in the body. `None` if it has no bytes there.
    pub(super) offset: Option<u64>,
}

impl Section {
    fn has(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|at| at < self.size)
    }

    fn is_code(&self) -> bool {
        self.flags & constants::SHF_EXECINSTR.0 != 0
    }
}

/// A linked file.
pub(super) struct Image {
    pub(super) header: Header,
    /// The bytes of the sections.
    pub(super) body: Vec<u8>,
    pub(super) sections: Vec<Section>,
    pub(super) names: Vec<Name>,
}

/// Bytes of one byte order and class.
struct Out {
    bytes: Vec<u8>,
    header: Header,
}

impl Out {
    fn number(&mut self, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let bytes = little.iter().take(size);
        if self.header.big_endian {
            self.bytes.extend(bytes.rev());
        } else {
            self.bytes.extend(bytes);
        }
    }

    fn half(&mut self, value: u16) {
        self.number(value.into(), 2);
    }

    fn small(&mut self, value: u64) {
        self.number(value, 4);
    }

    /// A number that is as large as the class.
    fn word(&mut self, value: u64) {
        self.number(value, if self.header.is_64 { 8 } else { 4 });
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// Strings with a zero after each; the first is empty.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        let at = self.0.len() as u64;
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.0.push(0);
        at
    }
}

/// The header of a section: `sh_name` to `sh_entsize`.
#[derive(Default)]
struct SectionHeader {
    name: u64,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u64,
    info: u64,
    alignment: u64,
    entry_size: u64,
}

impl Image {
    /// The file. `None` if it has too many sections.
    pub(super) fn build(&self) -> Option<Vec<u8>> {
        let header = self.header;
        let (header_size, entry) = if header.is_64 { (64, 64) } else { (52, 40) };
        // What has no name, sections, symbols, their names, and names of sections.
        let count = u16::try_from(self.sections.len() + 4).ok().filter(|count| *count < 0xff00)?;
        let mut out = Out { bytes: vec![0; header_size], header };
        out.align();
        let body_at = out.bytes.len() as u64;
        out.bytes.extend_from_slice(&self.body);
        out.align();
        let mut section_names = Strings(vec![0]);
        let mut headers = vec![SectionHeader::default()];
        for section in &self.sections {
            headers.push(of_section(section, section_names.add(&section.name), body_at));
        }
        let symbols_at = out.bytes.len() as u64;
        let (strings, locals) = self.symbols(&mut out);
        let size = out.bytes.len() as u64 - symbols_at;
        headers.push(SectionHeader {
            name: section_names.add(".symtab"),
            kind: constants::SHT_SYMTAB.0,
            offset: symbols_at,
            size,
            link: u64::from(count - 2),
            info: locals,
            alignment: 8,
            entry_size: if header.is_64 { 24 } else { 16 },
            ..SectionHeader::default()
        });
        for (name, last) in [(".strtab", false), (".shstrtab", true)] {
            let name = section_names.add(name);
            let bytes = if last { &section_names.0 } else { &strings.0 };
            let (offset, size) = (out.bytes.len() as u64, bytes.len() as u64);
            let kind = constants::SHT_STRTAB.0;
            headers.push(SectionHeader {
                name,
                kind,
                offset,
                size,
                alignment: 1,
                ..SectionHeader::default()
            });
            out.bytes.extend_from_slice(bytes);
        }
        out.align();
        let table = out.bytes.len() as u64;
        for section in &headers {
            section.write(&mut out);
        }
        let start = file_header(header, table, (header_size, entry), count);
        out.bytes.get_mut(..start.len())?.copy_from_slice(&start);
        Some(out.bytes)
    }

    /// Writes the symbols, the local ones first. Returns their names, and how many are local.
    fn symbols(&self, out: &mut Out) -> (Strings, u64) {
        let mut strings = Strings(vec![0]);
        let mut locals = 1;
        write_symbol(out, 0, 0, 0, (0, 0));
        let mut names: Vec<&Name> = self.names.iter().collect();
        names.sort_by_key(|name| (!name.letter.is_ascii_lowercase(), name.address));
        let functions: HashSet<u64> = names
            .iter()
            .filter(|name| name.is_code() && !is_edge(&name.text))
            .map(|name| name.address)
            .collect();
        for name in names {
            let at = self.sections.iter().position(|section| section.has(name.address));
            let section = at.and_then(|at| self.sections.get(at));
            let is_code = name.is_code() && section.is_some_and(Section::is_code);
            let is_function = !is_bound(&name.text)
                && (!is_edge(&name.text) || !functions.contains(&name.address));
            let kind = match (is_code && is_function, section) {
                (true, _) => constants::STT_FUNC.0,
                (false, Some(section)) if !section.is_code() => constants::STT_OBJECT.0,
                (false, _) => constants::STT_NOTYPE.0,
            };
            let binding = match name.letter {
                b'w' | b'W' | b'v' | b'V' => constants::STB_WEAK.0,
                letter if letter.is_ascii_lowercase() => constants::STB_LOCAL.0,
                _ => constants::STB_GLOBAL.0,
            };
            // A weak symbol has a small letter if it isn't defined, which is never printed of a kernel.
            let binding = if name.letter.is_ascii_lowercase() { 0 } else { binding };
            locals += u64::from(binding == 0);
            let index = at.and_then(|at| u16::try_from(at + 1).ok());
            let index = index.unwrap_or(constants::SHN_ABS.0);
            let text = strings.add(&name.text);
            write_symbol(out, text, binding << 4 | kind, index, (name.address, name.size));
        }
        (strings, locals)
    }
}

/// Whether `name` is where something begins or ends, and no function.
fn is_bound(name: &str) -> bool {
    const BOUNDS: [&str; 6] = ["_text", "_stext", "_etext", "_sinittext", "_einittext", "_end"];
    const SUFFIXES: [&str; 5] =
        ["text_start", "text_end", "text_begin", "_section_start", "_section_end"];
    BOUNDS.contains(&name) || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether `name` may be where something begins or ends, as of a linker script or of code that is copied. It's no
/// function if a function has the same address.
fn is_edge(name: &str) -> bool {
    name == "_edata" || ["_begin", "_start", "_end"].iter().any(|suffix| name.ends_with(suffix))
}

fn write_symbol(out: &mut Out, name: u64, info: u8, section: u16, (value, size): (u64, u64)) {
    out.small(name);
    if out.header.is_64 {
        out.bytes.extend([info, 0]);
        out.half(section);
        out.word(value);
        out.word(size);
    } else {
        out.word(value);
        out.word(size);
        out.bytes.extend([info, 0]);
        out.half(section);
    }
}

fn of_section(section: &Section, name: u64, body_at: u64) -> SectionHeader {
    let kind = match section.offset {
        Some(_) => constants::SHT_PROGBITS.0,
        None => constants::SHT_NOBITS.0,
    };
    SectionHeader {
        name,
        kind,
        flags: section.flags,
        address: section.address,
        offset: body_at + section.offset.unwrap_or(0),
        size: section.size,
        alignment: 1,
        ..SectionHeader::default()
    }
}

impl SectionHeader {
    fn write(&self, out: &mut Out) {
        out.small(self.name);
        out.small(self.kind.into());
        for field in [self.flags, self.address, self.offset, self.size] {
            out.word(field);
        }
        out.small(self.link);
        out.small(self.info);
        out.word(self.alignment);
        out.word(self.entry_size);
    }
}

/// The file header, with the section header table at `table`. `sizes` are those of this header and of a
/// section's.
fn file_header(header: Header, table: u64, sizes: (usize, u16), sections: u16) -> Vec<u8> {
    let class = if header.is_64 { 2 } else { 1 };
    let order = if header.big_endian { 2 } else { 1 };
    let mut out = Out { bytes: vec![0x7f, b'E', b'L', b'F', class, order, 1], header };
    out.bytes.resize(16, 0);
    out.half(constants::ET_EXEC.0);
    out.half(header.machine);
    out.small(1);
    for field in [0, 0, table] {
        out.word(field);
    }
    out.small(header.flags.into());
    out.half(u16::try_from(sizes.0).unwrap_or(0));
    // There are no program headers.
    for field in [0, 0, sizes.1, sections, sections - 1] {
        out.half(field);
    }
    out.bytes
}
