//! ELF files. A [`View`] of a file checks every range that it returns. This module knows sections, symbols
//! and relocations. It doesn't know what a call is; `arch` does.
//!
//! Class and byte order are values, not types: what is above this module would be compiled four times
//! otherwise. Only tables know their class ([`ByClass`]), and decode what is asked for.
//!
//! The specification is the System V gABI, chapters 4 ("Object Files") and 5.

mod android;
mod budget;
mod by_class;
mod bytes;
pub(crate) mod dynamic;
pub(crate) mod edit;
pub(crate) mod loaded;
mod relocation;
mod symbol;

pub(crate) use budget::Budget;
pub(crate) use bytes::{Encoder, addresses, find_all, string};
pub(crate) use relocation::{Relocation, Relocations};
pub(crate) use symbol::{Symbol, Symbols};

use crate::error::{Error, ErrorKind, Result};
use by_class::ByClass;
use object::elf::{self, FileHeader32, FileHeader64, SectionHeader32, SectionHeader64};
use object::pod::{self, Pod};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{BigEndian, Endianness, LittleEndian};
use std::cell::OnceCell;

/// A question about a file.
pub(crate) trait Verb<'d> {
    type Output;
    fn run(self, view: &View<'d>) -> Result<Self::Output>;
}

/// Opens the file `data` and runs `verb` on it.
///
/// # Errors
///
/// The file is not ELF, is truncated, or its header or section header table is malformed.
pub(crate) fn open<'d, V: Verb<'d>>(data: &'d [u8], verb: V) -> Result<V::Output> {
    View::new(data)?.ask(verb)
}

/// `EI_CLASS` and `EI_DATA` of `data`, both 1 or 2.
fn identify(data: &[u8]) -> Result<(u8, u8)> {
    match data {
        [0x7f, b'E', b'L', b'F', class, order, ..] => {
            if !(1..=2).contains(class) {
                return Err(Error::at(ErrorKind::UnknownClass(*class), 4));
            }
            if !(1..=2).contains(order) {
                return Err(Error::at(ErrorKind::UnknownByteOrder(*order), 5));
            }
            Ok((*class, *order))
        }
        [0x7f, b'E', b'L', b'F', ..] => Err(Error::new(ErrorKind::Truncated("ELF header"))),
        // Raw bitcode, and the wrapper that Darwin's tools put around it.
        [b'B', b'C', 0xc0, 0xde, ..] | [0xde, 0xc0, 0x17, 0x0b, ..] => {
            Err(Error::new(ErrorKind::Bitcode))
        }
        _ if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") => {
            Err(Error::new(ErrorKind::Archive))
        }
        _ => Err(Error::new(ErrorKind::NotElf)),
    }
}

/// A section header, decoded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Section {
    pub(crate) name: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) alignment: u64,
    pub(crate) entry_size: u64,
}

impl Section {
    /// Whether it has machine code in the file.
    pub(crate) fn is_code(&self) -> bool {
        self.flags & elf::SHF_EXECINSTR.0 != 0 && self.has_bytes()
    }

    /// Whether it is REL or RELA.
    pub(crate) fn is_relocations(&self) -> bool {
        self.kind == elf::SHT_REL.0 || self.kind == elf::SHT_RELA.0
    }

    /// Whether it has relocations that are packed for Android's linker.
    pub(crate) fn is_packed_for_android(&self) -> bool {
        [android::SHT_ANDROID_REL, android::SHT_ANDROID_RELA].contains(&self.kind)
    }

    /// Whether it has relocations that [`Relocations`] can read.
    pub(crate) fn has_relocations(&self) -> bool {
        self.is_relocations() || self.is_packed_for_android()
    }

    /// Whether it is in the memory of a running program.
    pub(crate) fn is_loaded(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Whether it occupies bytes of the file.
    pub(crate) fn has_bytes(&self) -> bool {
        self.kind != elf::SHT_NOBITS.0 && self.kind != elf::SHT_NULL.0
    }
}

/// A file whose sections were checked to be inside it.
pub(crate) struct View<'d> {
    pub(crate) data: &'d [u8],
    endian: Endianness,
    is_64: bool,
    header: FirstHeader,
    /// The section headers, and how they are in the file.
    headers: Vec<Section>,
    raw_headers: &'d [u8],
    names: &'d [u8],
    names_index: u32,
    /// The limit on reading names.
    pub(crate) budget: Budget,
    /// The start and index of each loaded section, in order of address. Made when it is first needed.
    starts: OnceCell<Vec<(u64, u32)>>,
}

/// What the ELF header says.
#[derive(Debug, Clone, Copy)]
struct FirstHeader {
    machine: u16,
    file_type: u16,
    flags: u32,
    /// `e_shoff`
    section_headers: u64,
    /// `e_shstrndx`, or what the first section has instead. `None` if it's malformed.
    names: Option<u32>,
    has_mips64el_info: bool,
    /// Where the ELF header is loaded, if it is; an error if the program headers can't be read.
    address: std::result::Result<Option<u64>, ()>,
}

impl FirstHeader {
    fn decode<Elf: FileHeader>(header: &Elf, endian: Elf::Endian, data: &[u8]) -> Self {
        let address = header.program_headers(endian, data).map(|segments| {
            let first = segments.iter().find(|segment| {
                segment.p_type(endian) == elf::PT_LOAD && segment.p_offset(endian).into() == 0
            });
            first.map(|segment| segment.p_vaddr(endian).into())
        });
        Self {
            machine: header.e_machine(endian).0,
            file_type: header.e_type(endian).0,
            flags: header.e_flags(endian).0,
            section_headers: header.e_shoff(endian).into(),
            names: header.shstrndx(endian, data).ok(),
            has_mips64el_info: header.is_mips64el(endian),
            address: address.map_err(|_| ()),
        }
    }
}

/// What is read first.
struct Headers<'d> {
    header: FirstHeader,
    sections: Vec<Section>,
    raw_sections: &'d [u8],
}

impl<'d> Headers<'d> {
    fn read<Elf: FileHeader>(data: &'d [u8], e: Elf::Endian) -> Result<Self> {
        let (header, _) = pod::from_bytes::<Elf>(data)
            .map_err(|()| Error::new(ErrorKind::Truncated("ELF header")))?;
        let has_sections: u64 = header.e_shoff(e).into();
        let entry = usize::from(header.e_shentsize(e));
        if has_sections != 0 && entry != size_of::<Elf::SectionHeader>() {
            return Err(Error::new(ErrorKind::Malformed("e_shentsize is not that of the class")));
        }
        let sections = header.section_headers(e, data).map_err(|_| {
            let at = header.e_shoff(e).into();
            Error::at(ErrorKind::Truncated("section header table"), at)
        })?;
        Ok(Self {
            header: FirstHeader::decode(header, e, data),
            sections: sections.iter().map(|header| decode(header, e)).collect(),
            raw_sections: pod::bytes_of_slice(sections),
        })
    }
}

/// How many sections to look at for an address, if some overlap others.
const NESTED: usize = 16;

/// How many times the size of the file its sections may have together. Real sections share no bytes. If
/// they did, going through all of them could take time in proportion to the square of the size.
const MAX_OVERLAP: u64 = 4;

impl<'d> View<'d> {
    /// # Errors
    ///
    /// As [`open`].
    pub(crate) fn new(data: &'d [u8]) -> Result<Self> {
        let (class, order) = identify(data)?;
        let endian = if order == 1 { Endianness::Little } else { Endianness::Big };
        let Headers { header, sections, raw_sections } = match (class, endian) {
            (1, Endianness::Little) => Headers::read::<FileHeader32<_>>(data, LittleEndian),
            (1, Endianness::Big) => Headers::read::<FileHeader32<_>>(data, BigEndian),
            (_, Endianness::Little) => Headers::read::<FileHeader64<_>>(data, LittleEndian),
            (_, Endianness::Big) => Headers::read::<FileHeader64<_>>(data, BigEndian),
        }?;
        let mut view = Self {
            data,
            endian,
            is_64: class != 1,
            header,
            headers: sections,
            raw_headers: raw_sections,
            names: &[],
            names_index: 0,
            budget: Budget::of(data.len()),
            starts: OnceCell::new(),
        };
        view.check_sections()?;
        if view.section_count() != 0 {
            view.names_index = header.names.ok_or_else(|| {
                Error::new(ErrorKind::Malformed("e_shstrndx names no string table"))
            })?;
            if view.names_index >= view.section_count() {
                return Err(Error::new(ErrorKind::Malformed("e_shstrndx names no section")));
            }
            view.names = view.string_table(view.names_index)?;
        }
        Ok(view)
    }

    /// Runs `verb` on the file.
    pub(crate) fn ask<V: Verb<'d>>(&self, verb: V) -> Result<V::Output> {
        self.budget.renew(self.data.len());
        let output = verb.run(self)?;
        if self.budget.is_spent() {
            let kind = "names that share their bytes are together far larger than the file";
            return Err(Error::new(ErrorKind::Malformed(kind)));
        }
        Ok(output)
    }

    /// Checks that every section with bytes is inside the file, and that few of them overlap.
    fn check_sections(&self) -> Result<()> {
        let size = self.data.len() as u64;
        let mut left = size.saturating_mul(MAX_OVERLAP);
        for (index, section) in self.sections().enumerate() {
            if !section.has_bytes() {
                continue;
            }
            let end = section.offset.checked_add(section.size);
            let kind = match left.checked_sub(section.size) {
                _ if end.is_none_or(|end| end > size) => {
                    ErrorKind::Truncated("the section ends after the end of the file")
                }
                None => ErrorKind::Malformed("sections overlap, over and over"),
                Some(rest) => {
                    left = rest;
                    continue;
                }
            };
            return Err(Error::new(kind).in_section(bytes::index(index), b""));
        }
        Ok(())
    }

    /// `e_machine`.
    pub(crate) fn machine(&self) -> u16 {
        self.header.machine
    }

    /// `e_type`.
    pub(crate) fn file_type(&self) -> u16 {
        self.header.file_type
    }

    /// `e_flags`.
    pub(crate) fn flags(&self) -> u32 {
        self.header.flags
    }

    /// Whether it is ELFCLASS64.
    pub(crate) fn is_64(&self) -> bool {
        self.is_64
    }

    /// Whether data is big endian.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.endian == Endianness::Big
    }

    /// An empty output in the class and byte order of the file.
    pub(crate) fn encoder(&self) -> Encoder {
        Encoder { big_endian: self.is_big_endian(), is_64: self.is_64(), out: Vec::new() }
    }

    /// The number of bytes in an address: 4 or 8.
    pub(crate) fn word(&self) -> u64 {
        if self.is_64() { 8 } else { 4 }
    }

    /// The greatest symbol index that fits into a relocation.
    pub(crate) fn greatest_symbol(&self) -> u32 {
        if self.is_64() { u32::MAX } else { u32::MAX >> 8 }
    }

    /// Whether it is little-endian MIPS n64, where the fields of `r_info` are in another order.
    pub(crate) fn has_mips64el_info(&self) -> bool {
        self.header.has_mips64el_info
    }

    /// The number of sections, including the null section.
    pub(crate) fn section_count(&self) -> u32 {
        bytes::index(self.headers.len())
    }

    /// All section headers, in order.
    pub(crate) fn sections(&self) -> std::slice::Iter<'_, Section> {
        self.headers.iter()
    }

    /// Section `index`.
    ///
    /// # Errors
    ///
    /// There is no such section.
    pub(crate) fn section(&self, index: u32) -> Result<Section> {
        let kind = ErrorKind::Malformed("section index out of range");
        self.headers.get(index as usize).copied().ok_or_else(|| Error::new(kind))
    }

    /// The bytes of section `index`; empty if it has none in the file.
    pub(crate) fn section_data(&self, index: u32) -> Result<&'d [u8]> {
        Ok(self.bytes_of(&self.section(index)?))
    }

    /// The bytes of `section`. `check_sections` found them to be inside the file.
    pub(crate) fn bytes_of(&self, section: &Section) -> &'d [u8] {
        if !section.has_bytes() {
            return &[];
        }
        bytes::range(self.data, section.offset, section.size).unwrap_or_default()
    }

    /// The name of section `index`; empty if it has none, or if the name can't be read.
    pub(crate) fn section_name(&self, index: u32) -> &'d [u8] {
        let name = self.headers.get(index as usize).map(|header| header.name);
        let name = name.map(|name| self.budget.name(|| bytes::string(self.names, name)));
        name.unwrap_or_default()
    }

    /// Whether section `index` is called `name`. Faster than reading its name.
    pub(crate) fn is_called(&self, index: u32, name: &[u8]) -> bool {
        let header = self.headers.get(index as usize);
        header.is_some_and(|header| bytes::is_string(self.names, header.name, name))
    }

    /// The index of the section header string table.
    pub(crate) fn section_names_index(&self) -> u32 {
        self.names_index
    }

    /// The section header table as it is in the file.
    pub(crate) fn raw_section_headers(&self) -> &'d [u8] {
        self.raw_headers
    }

    /// The bytes of string table `index`.
    fn string_table(&self, index: u32) -> Result<&'d [u8]> {
        let section = self.section(index).map_err(|error| error.in_section(index, b""))?;
        if section.kind != elf::SHT_STRTAB.0 {
            let error = Error::new(ErrorKind::Malformed("not a string table"));
            return Err(error.in_section(index, self.section_name(index)));
        }
        Ok(self.bytes_of(&section))
    }

    /// An error of `kind` about section `index`.
    pub(crate) fn section_error(&self, index: u32, kind: ErrorKind) -> Error {
        Error::new(kind).in_section(index, self.section_name(index))
    }

    /// An error of `kind` at `offset` in section `index`.
    pub(crate) fn offset_error(&self, index: u32, offset: u64, kind: ErrorKind) -> Error {
        Error::at(kind, offset).in_section(index, self.section_name(index))
    }

    /// The bytes of section `index` as a table. `sh_entsize` must be the size of an entry.
    fn table<Little32: Pod, Big32: Pod, Little64: Pod, Big64: Pod>(
        &self,
        index: u32,
        section: &Section,
    ) -> Result<ByClass<'d, Little32, Big32, Little64, Big64>> {
        Ok(match (self.is_64, self.endian) {
            (false, Endianness::Little) => ByClass::Little32(self.entries(index, section)?),
            (false, Endianness::Big) => ByClass::Big32(self.entries(index, section)?),
            (true, Endianness::Little) => ByClass::Little64(self.entries(index, section)?),
            (true, Endianness::Big) => ByClass::Big64(self.entries(index, section)?),
        })
    }

    fn entries<T: Pod>(&self, index: u32, section: &Section) -> Result<&'d [T]> {
        if section.entry_size != size_of::<T>() as u64 {
            let kind = ErrorKind::Malformed("sh_entsize is not the size of an entry");
            return Err(self.section_error(index, kind));
        }
        pod::slice_from_all_bytes(self.bytes_of(section)).map_err(|()| {
            let kind = ErrorKind::Malformed("sh_size is not a multiple of sh_entsize");
            self.section_error(index, kind)
        })
    }

    /// The index and header of the section that is loaded at `address`.
    pub(crate) fn section_at(&self, address: u64) -> Option<(u32, Section)> {
        let starts = self.starts.get_or_init(|| self.loaded_starts());
        let after = starts.partition_point(|(start, _)| *start <= address);
        let before = starts.get(..after).unwrap_or_default().iter().rev().take(NESTED);
        let sections = before.filter_map(|(_, index)| Some((*index, self.section(*index).ok()?)));
        { sections }.find(|(_, section)| address - section.address < section.size)
    }

    fn loaded_starts(&self) -> Vec<(u64, u32)> {
        let sections = (0u32..).zip(self.sections()).filter(|(_, section)| {
            section.is_loaded() && section.flags & elf::SHF_TLS.0 == 0 && section.size != 0
        });
        let mut starts: Vec<_> =
            sections.map(|(index, section)| (section.address, index)).collect();
        // If several start at one address, the first one counts, so it comes last.
        starts.sort_by_key(|(start, index)| (*start, std::cmp::Reverse(*index)));
        starts
    }

    /// The end of the last byte that belongs to a header or a section.
    pub(crate) fn used_end(&self) -> u64 {
        let mut end = self.header_size() as u64;
        let headers = self.header.section_headers;
        end = end.max(headers.saturating_add(self.raw_section_headers().len() as u64));
        for section in self.sections().filter(|section| section.has_bytes()) {
            end = end.max(section.offset.saturating_add(section.size));
        }
        end
    }

    /// Bytes of the ELF header.
    fn header_size(&self) -> usize {
        self.by_class(size_of::<FileHeader32<Endianness>>(), size_of::<FileHeader64<Endianness>>())
    }

    /// Bytes of a section header.
    fn section_header_size(&self) -> usize {
        let small = size_of::<SectionHeader32<Endianness>>();
        self.by_class(small, size_of::<SectionHeader64<Endianness>>())
    }

    /// Bytes of a symbol.
    pub(crate) fn symbol_size(&self) -> usize {
        self.by_class(size_of::<elf::Sym32<Endianness>>(), size_of::<elf::Sym64<Endianness>>())
    }

    /// `small` in a file of `ELFCLASS32`, and `large` in one of `ELFCLASS64`.
    fn by_class<T>(&self, small: T, large: T) -> T {
        if self.is_64() { large } else { small }
    }

    /// Where the ELF header is loaded, if it is.
    ///
    /// # Errors
    ///
    /// The program headers can't be read.
    pub(crate) fn header_address(&self) -> std::result::Result<Option<u64>, ()> {
        self.header.address
    }
}

fn decode<H: SectionHeader>(header: &H, e: H::Endian) -> Section {
    Section {
        name: header.sh_name(e),
        kind: header.sh_type(e).0,
        flags: header.sh_flags(e).0,
        address: header.sh_addr(e).into(),
        offset: header.sh_offset(e).into(),
        size: header.sh_size(e).into(),
        link: header.sh_link(e),
        info: header.sh_info(e),
        alignment: header.sh_addralign(e).into(),
        entry_size: header.sh_entsize(e).into(),
    }
}
