//! A builder of small ELF objects from data: any machine, class and byte order, REL or RELA. It
//! is in for processors that no compiler here targets, and for files that no compiler makes.
//!
//! It shares no code with the library under test. Specification: System V gABI, chapter 4; the
//! order of `r_info` in little-endian MIPS n64: MIPS 64-bit ELF Object File Specification, 2.9.

/// `e_machine` whose little-endian ELFCLASS64 objects keep `r_info` in an order of its own.
const EM_MIPS: u16 = 8;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_RELA: u32 = 4;
const SHT_REL: u32 = 9;
const SHT_SYMTAB_SHNDX: u32 = 18;
const SHF_INFO_LINK: u64 = 0x40;
/// The first section index that does not fit into 16-bit fields.
const FIRST_EXTENDED: u32 = 0xff00;
const SHN_XINDEX: u16 = 0xffff;

/// An object to build. Section 0 and symbol 0 are implied; the first of `sections` has index 1, and
/// so has the first of `symbols`.
#[derive(Debug, Clone)]
pub struct Object {
    /// `e_machine`.
    pub machine: u16,
    /// `e_type`; an object is 1.
    pub kind: u16,
    /// `e_flags`.
    pub flags: u32,
    /// ELFCLASS64.
    pub is_64: bool,
    /// Big-endian data.
    pub big_endian: bool,
    /// Relocations carry addends; else the sections hold them.
    pub rela: bool,
    /// Sections besides those that the builder makes of the rest.
    pub sections: Vec<Section>,
    /// Symbols, the local ones first.
    pub symbols: Vec<Symbol>,
}

/// A section.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`: where it is loaded, in an image.
    pub address: u64,
    /// Its bytes.
    pub data: Vec<u8>,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub alignment: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
    /// What applies to it; the builder makes a section of them, if there are any.
    pub relocations: Vec<Relocation>,
}

/// A symbol.
#[derive(Debug, Clone, Default)]
pub struct Symbol {
    /// Its name; empty for none.
    pub name: String,
    /// `STT_*`.
    pub kind: u8,
    /// `STB_*`.
    pub binding: u8,
    /// The section that defines it; 0 if none does.
    pub section: u32,
    /// Bytes from the start of that section.
    pub value: u64,
    /// Bytes.
    pub size: u64,
}

/// A relocation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Relocation {
    /// Bytes from the start of the section it applies to.
    pub offset: u64,
    /// Index of a symbol.
    pub symbol: u32,
    /// `R_*`.
    pub kind: u32,
    /// Left out of a REL section.
    pub addend: i64,
}

impl Section {
    /// A section of code with instructions `data`.
    #[must_use]
    pub fn code(name: &str, data: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            kind: 1,
            flags: 6,
            data: data.to_vec(),
            alignment: 4,
            ..Self::default()
        }
    }
}

impl Symbol {
    /// A local symbol for section `section` itself.
    #[must_use]
    pub fn of_section(section: u32) -> Self {
        Self { kind: 3, section, ..Self::default() }
    }

    /// A global symbol that is not defined.
    #[must_use]
    pub fn undefined(name: &str) -> Self {
        Self { name: name.to_owned(), binding: 1, ..Self::default() }
    }

    /// A function at `value` of `section`, with binding `STB_*`.
    #[must_use]
    pub fn function(name: &str, binding: u8, section: u32, value: u64, size: u64) -> Self {
        Self { name: name.to_owned(), kind: 2, binding, section, value, size }
    }
}

impl Object {
    /// An x86-64 image: the hook at 0x1000; `run` at 0x1010 and `_start` at 0x1020, which call it; and a
    /// table that leads to `_start`, to `run`, and to 0x1040, where no function is.
    #[must_use]
    pub fn of_program() -> Self {
        const EM_X86_64: u16 = 62;
        const ET_EXEC: u16 = 2;
        const BASE: u64 = 0x1000;
        let mut code = vec![0xc3];
        for at in [0x10, 0x20] {
            code.resize(usize::from(at), 0xcc);
            // `call` of BASE, relative to the end of the call, and `ret`.
            code.extend([0xe8, 0xfb_u8 - at, 0xff, 0xff, 0xff, 0xc3]);
        }
        code.resize(0x50, 0xcc);
        let words = [BASE + 0x20, BASE + 0x10, BASE + 0x40];
        let mut image = Self { kind: ET_EXEC, ..Self::new(EM_X86_64, true, false, true) };
        image.sections = vec![
            Section { address: BASE, ..Section::code(".text", &code) },
            Section {
                name: "__mcount_loc".to_owned(),
                kind: 1,
                flags: 3,
                address: 0x2000,
                data: words.into_iter().flat_map(u64::to_le_bytes).collect(),
                alignment: 8,
                ..Section::default()
            },
        ];
        image.symbols = vec![
            Symbol::function("run", 0, 1, BASE + 0x10, 6),
            Symbol::function("__fentry__", 1, 1, BASE, 1),
            Symbol::function("_start", 1, 1, BASE + 0x20, 6),
        ];
        image
    }

    /// An x86-64 object with `count` calls of `mcount` in one section; symbol 1 is the section's,
    /// 2 the hook.
    #[must_use]
    pub fn of_calls(count: u64) -> Self {
        const EM_X86_64: u16 = 62;
        const R_X86_64_PLT32: u32 = 4;
        let mut object = Self::new(EM_X86_64, true, false, true);
        let code: Vec<u8> = (0..count).flat_map(|_| [0xe8, 0, 0, 0, 0]).collect();
        let mut text = Section::code(".text", &code);
        let call =
            |at| Relocation { offset: 5 * at + 1, symbol: 2, kind: R_X86_64_PLT32, addend: -4 };
        text.relocations = (0..count).map(call).collect();
        object.sections.push(text);
        object.symbols = vec![Symbol::of_section(1), Symbol::undefined("mcount")];
        object
    }

    /// An empty object.
    #[must_use]
    pub fn new(machine: u16, is_64: bool, big_endian: bool, rela: bool) -> Self {
        Self {
            machine,
            kind: 1,
            flags: 0,
            is_64,
            big_endian,
            rela,
            sections: Vec::new(),
            symbols: Vec::new(),
        }
    }

    /// The index that the symbol table will have.
    #[must_use]
    pub fn symbol_table(&self) -> u32 {
        let with_relocations = self.sections.iter().filter(|s| !s.relocations.is_empty()).count();
        narrow(1 + self.sections.len() + with_relocations)
    }

    /// The bytes of the file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut sections = self.sections.clone();
        let symbol_table = self.symbol_table();
        for (index, section) in (1..).zip(&self.sections) {
            if !section.relocations.is_empty() {
                sections.push(self.relocation_section(index, section, symbol_table));
            }
        }
        sections.extend(self.symbol_sections(symbol_table));
        self.assemble(sections)
    }

    fn writer(&self) -> Writer {
        Writer { is_64: self.is_64, big_endian: self.big_endian, out: Vec::new() }
    }

    fn relocation_section(&self, index: u32, section: &Section, symbol_table: u32) -> Section {
        let mut out = self.writer();
        for relocation in &section.relocations {
            out.word(relocation.offset);
            self.info(&mut out, relocation);
            if self.rela {
                out.word(relocation.addend.cast_unsigned());
            }
        }
        let word = if self.is_64 { 8 } else { 4 };
        Section {
            name: format!("{}{}", if self.rela { ".rela" } else { ".rel" }, section.name),
            kind: if self.rela { SHT_RELA } else { SHT_REL },
            flags: SHF_INFO_LINK,
            address: 0,
            data: out.out,
            link: symbol_table,
            info: index,
            alignment: word,
            entry_size: if self.rela { 3 * word } else { 2 * word },
            relocations: Vec::new(),
        }
    }

    /// `r_info`.
    fn info(&self, out: &mut Writer, relocation: &Relocation) {
        let (symbol, kind) = (relocation.symbol, relocation.kind);
        if self.is_64 && self.machine == EM_MIPS && !self.big_endian {
            out.u32(symbol);
            let [low, second, third, special] = kind.to_le_bytes();
            out.out.extend([special, third, second, low]);
        } else if self.is_64 {
            out.u64(u64::from(symbol) << 32 | u64::from(kind));
        } else {
            out.u32(symbol << 8 | kind);
        }
    }

    /// `.symtab`, `.strtab`, and where an index needs it `.symtab_shndx`.
    fn symbol_sections(&self, symbol_table: u32) -> Vec<Section> {
        let mut strings = vec![0];
        let (mut table, mut extended) = (self.writer(), self.writer());
        let null = Symbol::default();
        for symbol in [&null].into_iter().chain(&self.symbols) {
            let name = if symbol.name.is_empty() { 0 } else { narrow(strings.len()) };
            if name != 0 {
                strings.extend(symbol.name.as_bytes());
                strings.push(0);
            }
            extended.u32(if symbol.section < FIRST_EXTENDED { 0 } else { symbol.section });
            symbol.write(&mut table, name);
        }
        let locals = self.symbols.iter().take_while(|symbol| symbol.binding == 0).count();
        let word = if self.is_64 { 8 } else { 4 };
        let mut sections = vec![
            Section {
                name: ".symtab".to_owned(),
                kind: SHT_SYMTAB,
                data: table.out,
                link: symbol_table + 1,
                info: narrow(1 + locals),
                alignment: word,
                entry_size: if self.is_64 { 24 } else { 16 },
                ..Section::default()
            },
            string_table(".strtab", strings),
        ];
        if self.symbols.iter().any(|symbol| symbol.section >= FIRST_EXTENDED) {
            sections.push(Section {
                name: ".symtab_shndx".to_owned(),
                kind: SHT_SYMTAB_SHNDX,
                data: extended.out,
                link: symbol_table,
                alignment: 4,
                entry_size: 4,
                ..Section::default()
            });
        }
        sections
    }

    /// The file: header, bodies, section header table.
    fn assemble(&self, mut sections: Vec<Section>) -> Vec<u8> {
        let mut names = vec![0];
        let mut name_offsets = Vec::new();
        for name in sections.iter().map(|section| section.name.as_str()).chain([".shstrtab"]) {
            name_offsets.push(narrow(names.len()));
            names.extend(name.as_bytes());
            names.push(0);
        }
        sections.push(string_table(".shstrtab", names));
        let mut body = self.writer();
        body.out.resize(header_size(self.is_64), 0);
        let mut headers = self.writer();
        let count = narrow(sections.len() + 1);
        let extended = count >= FIRST_EXTENDED;
        let null = if extended { (u64::from(count), count - 1) } else { (0, 0) };
        headers.section(0, &Section { link: null.1, ..Section::default() }, 0, null.0);
        for (section, name) in sections.iter().zip(name_offsets) {
            body.align(section.alignment.clamp(1, 16));
            headers.section(name, section, body.out.len() as u64, section.data.len() as u64);
            body.out.extend(&section.data);
        }
        body.align(8);
        let table = body.out.len() as u64;
        body.out.extend(headers.out);
        let header = self.header(table, if extended { (0, 0xffff) } else { (count, count - 1) });
        let size = header.len();
        body.out.splice(..size, header);
        body.out
    }

    fn header(&self, table: u64, (count, names): (u32, u32)) -> Vec<u8> {
        let mut out = self.writer();
        let class = if self.is_64 { 2 } else { 1 };
        let order = if self.big_endian { 2 } else { 1 };
        out.out.extend([0x7f, b'E', b'L', b'F', class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.u16(self.kind.into());
        out.u16(self.machine.into());
        out.u32(1);
        out.word(0);
        out.word(0);
        out.word(table);
        out.u32(self.flags);
        let section_size = if self.is_64 { 64 } else { 40 };
        for field in [narrow(header_size(self.is_64)), 0, 0, section_size, count, names] {
            out.u16(field);
        }
        out.out
    }
}

impl Symbol {
    fn write(&self, out: &mut Writer, name: u32) {
        let info = self.binding << 4 | self.kind;
        let section = u16::try_from(self.section).ok().filter(|_| self.section < FIRST_EXTENDED);
        let section = section.unwrap_or(SHN_XINDEX).into();
        out.u32(name);
        if !out.is_64 {
            out.word(self.value);
            out.word(self.size);
        }
        out.out.extend([info, 0]);
        out.u16(section);
        if out.is_64 {
            out.word(self.value);
            out.word(self.size);
        }
    }
}

fn string_table(name: &str, data: Vec<u8>) -> Section {
    Section { name: name.to_owned(), kind: SHT_STRTAB, data, alignment: 1, ..Section::default() }
}

fn header_size(is_64: bool) -> usize {
    if is_64 { 64 } else { 52 }
}

/// Tests build nothing near 4 GiB.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

struct Writer {
    is_64: bool,
    big_endian: bool,
    out: Vec<u8>,
}

impl Writer {
    /// The low 16 bits.
    fn u16(&mut self, value: u32) {
        self.low(value.into(), 2);
    }

    fn u32(&mut self, value: u32) {
        self.low(value.into(), 4);
    }

    fn u64(&mut self, value: u64) {
        self.low(value, 8);
    }

    fn word(&mut self, value: u64) {
        self.low(value, if self.is_64 { 8 } else { 4 });
    }

    /// The low `size` bytes of `value`.
    fn low(&mut self, value: u64, size: usize) {
        let bytes = value.to_le_bytes();
        let low = bytes.iter().take(size).copied();
        if self.big_endian { self.out.extend(low.rev()) } else { self.out.extend(low) }
    }

    fn align(&mut self, alignment: u64) {
        while !(self.out.len() as u64).is_multiple_of(alignment) {
            self.out.push(0);
        }
    }

    fn section(&mut self, name: u32, section: &Section, offset: u64, size: u64) {
        self.u32(name);
        self.u32(section.kind);
        self.word(section.flags);
        self.word(section.address);
        self.word(offset);
        self.word(size);
        self.u32(section.link);
        self.u32(section.info);
        self.word(section.alignment);
        self.word(section.entry_size);
    }
}

/// A field of the ELF header or of a section header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// As the gABI calls it.
    pub name: &'static str,
    /// Bytes from the start of the header.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A field's name, and its bytes in ELFCLASS32 and in ELFCLASS64.
type Widths = (&'static str, usize, usize);

const HEADER: &[Widths] = &[
    ("ei_class", 1, 1),
    ("ei_data", 1, 1),
    ("ei_version", 1, 1),
    ("ei_osabi", 1, 1),
    ("ei_pad", 8, 8),
    ("e_type", 2, 2),
    ("e_machine", 2, 2),
    ("e_version", 4, 4),
    ("e_entry", 4, 8),
    ("e_phoff", 4, 8),
    ("e_shoff", 4, 8),
    ("e_flags", 4, 4),
    ("e_ehsize", 2, 2),
    ("e_phentsize", 2, 2),
    ("e_phnum", 2, 2),
    ("e_shentsize", 2, 2),
    ("e_shnum", 2, 2),
    ("e_shstrndx", 2, 2),
];

const SECTION: &[Widths] = &[
    ("sh_name", 4, 4),
    ("sh_type", 4, 4),
    ("sh_flags", 4, 8),
    ("sh_addr", 4, 8),
    ("sh_offset", 4, 8),
    ("sh_size", 4, 8),
    ("sh_link", 4, 4),
    ("sh_info", 4, 4),
    ("sh_addralign", 4, 8),
    ("sh_entsize", 4, 8),
];

fn fields(first: usize, widths: &'static [Widths], is_64: bool) -> Vec<Field> {
    let mut offset = first;
    let mut found = Vec::new();
    for (name, narrow, wide) in widths.iter().copied() {
        let size = if is_64 { wide } else { narrow };
        found.push(Field { name, offset, size });
        offset += size;
    }
    found
}

/// The fields of the ELF header after the magic number.
#[must_use]
pub fn header_fields(is_64: bool) -> Vec<Field> {
    fields(4, HEADER, is_64)
}

/// The fields of a section header.
#[must_use]
pub fn section_fields(is_64: bool) -> Vec<Field> {
    fields(0, SECTION, is_64)
}

/// The number in `size` bytes (8 at most) at `offset`; 0 where the file ends before.
#[must_use]
pub fn get(file: &[u8], offset: usize, size: usize, big_endian: bool) -> u64 {
    let bytes = file.get(offset..offset.saturating_add(size)).unwrap_or_default();
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

/// Writes the low `size` bytes of `value` at `offset`, as far as the file reaches.
pub fn put(file: &mut [u8], offset: usize, size: usize, big_endian: bool, value: u64) {
    let mut bytes: Vec<u8> = value.to_le_bytes().into_iter().take(size).collect();
    if big_endian {
        bytes.reverse();
    }
    for (place, byte) in file.iter_mut().skip(offset).zip(bytes) {
        *place = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_headers_end() {
        for (is_64, header, section) in [(false, 52, 40), (true, 64, 64)] {
            let end = |fields: Vec<Field>| fields.last().map(|field| field.offset + field.size);
            assert_eq!(end(header_fields(is_64)), Some(header));
            assert_eq!(end(section_fields(is_64)), Some(section));
        }
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for big_endian in [false, true] {
            let mut file = [0; 12];
            put(&mut file, 3, 4, big_endian, 0x0102_0304);
            assert_eq!(get(&file, 3, 4, big_endian), 0x0102_0304);
            assert_eq!(file[3], if big_endian { 1 } else { 4 });
        }
    }
}
