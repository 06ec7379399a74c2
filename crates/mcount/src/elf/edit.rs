//! Changing an object by appending only: a section that changes, or is new, gets its bytes at the
//! end of the file, then comes a new section header table, and one write of the ELF header makes
//! all of it current. Until that write the file is the old object, whole.

use super::{Encoder, Relocations, Section, Symbols, View, bytes};
use crate::error::{Error, ErrorKind, Result};
use object::elf;
use object::read::elf::FileHeader;
use std::collections::BTreeMap;

/// What to write so that an object becomes the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where `appended` goes: bytes from the start of the file. What the file has from there on is
    /// no part of the object.
    pub at: u64,
    /// To be written first.
    pub appended: Vec<u8>,
    /// To be written last, at the start of the file, in one write.
    pub header: Vec<u8>,
}

impl Change {
    /// The new object, whole; `data` is the old one.
    #[must_use]
    pub fn apply(&self, data: &[u8]) -> Vec<u8> {
        let kept = usize::try_from(self.at).unwrap_or(usize::MAX).min(data.len());
        let tail = data.get(self.header.len()..kept).unwrap_or_default();
        [&self.header, tail, &self.appended].concat()
    }
}

/// What adding symbols does to the indices of those behind them.
#[derive(Clone, Copy)]
struct Renumbering {
    /// The first symbol that moves.
    first: u32,
    /// How far.
    added: u32,
    /// The number of symbols before.
    end: u32,
}

/// A local symbol to add.
pub(crate) struct NewSymbol {
    /// `STT_*`.
    pub(crate) kind: u8,
    /// Empty for none.
    pub(crate) name: Vec<u8>,
    pub(crate) section: u32,
    pub(crate) value: u64,
}

/// The changes to one object.
pub(crate) struct Edit<'v, 'd, Elf: FileHeader> {
    view: &'v View<'d, Elf>,
    /// Sections that change or are new.
    bodies: BTreeMap<u32, Vec<u8>>,
    headers: BTreeMap<u32, Section>,
    count: u32,
}

/// The first section index that does not fit into 16-bit fields (`SHN_LORESERVE`).
const FIRST_EXTENDED: u32 = 0xff00;
const SHN_XINDEX: u16 = 0xffff;
/// Section types of LLVM that hold symbol indices, and one that cannot be renumbered.
const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
const SHT_LLVM_CALL_GRAPH_PROFILE_OLD: u32 = 0x6fff_4c02;

impl<'v, 'd, Elf: FileHeader> Edit<'v, 'd, Elf> {
    pub(crate) fn new(view: &'v View<'d, Elf>) -> Self {
        let count = view.section_count();
        Self { view, bodies: BTreeMap::new(), headers: BTreeMap::new(), count }
    }

    fn encoder(&self) -> Encoder {
        let view = self.view;
        Encoder { big_endian: view.is_big_endian(), is_64: view.is_64(), out: Vec::new() }
    }

    /// The bytes of section `index`, to change.
    pub(crate) fn body(&mut self, index: u32) -> Result<&mut Vec<u8>> {
        if !self.bodies.contains_key(&index) {
            self.bodies.insert(index, self.view.section_data(index)?.to_vec());
        }
        Ok(self.bodies.entry(index).or_default())
    }

    /// The header of section `index`; its offset and size are set in the end.
    pub(crate) fn header(&mut self, index: u32) -> Result<&mut Section> {
        if !self.headers.contains_key(&index) {
            self.headers.insert(index, self.view.section(index)?);
        }
        self.headers.get_mut(&index).ok_or_else(|| Error::new(ErrorKind::Malformed("section")))
    }

    /// Adds `text` and a NUL to string table `table`; the offset of `text` in it.
    ///
    /// # Errors
    ///
    /// A name of the file lies outside the table: it would become one when the table grows.
    pub(crate) fn add_string(&mut self, table: u32, text: &[u8]) -> Result<u32> {
        if !self.bodies.contains_key(&table) {
            self.check_names(table)?;
        }
        let body = self.body(table)?;
        // An empty table gets the empty name, one without a last NUL gets it.
        if body.last() != Some(&0) {
            body.push(0);
        }
        let offset = bytes::index(body.len());
        body.extend(text);
        body.push(0);
        Ok(offset)
    }

    /// Every name in string table `table` lies inside it.
    fn check_names(&self, table: u32) -> Result<()> {
        let size = self.view.section_data(table)?.len();
        let is_outside = |name: u32| name != 0 && name as usize >= size;
        if table == self.view.section_names_index() {
            let mut names = (0u32..).zip(self.view.sections());
            if let Some((index, _)) = names.find(|(_, section)| is_outside(section.name)) {
                let kind = ErrorKind::Malformed("sh_name lies outside the string table");
                return Err(self.view.section_error(index, kind));
            }
        }
        match Symbols::read(self.view)? {
            Some(symbols) if symbols.strings_section == table => {
                match symbols.names().find(|(_, name)| is_outside(*name)) {
                    Some(_) => {
                        let kind = ErrorKind::Malformed("st_name lies outside the string table");
                        Err(self.view.section_error(symbols.section, kind))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Adds a section; its index.
    pub(crate) fn add_section(&mut self, section: Section, body: Vec<u8>) -> u32 {
        let index = self.count;
        self.count = self.count.saturating_add(1);
        self.headers.insert(index, section);
        self.bodies.insert(index, body);
        index
    }

    /// Adds `new` behind the last local symbol of `symbols` and renumbers the symbols after it.
    ///
    /// # Errors
    ///
    /// A section refers to symbols in a way that cannot be renumbered, or is malformed.
    pub(crate) fn add_symbols(
        &mut self,
        symbols: &Symbols<'d, Elf>,
        new: &[NewSymbol],
    ) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let renumbering = Renumbering {
            first: symbols.first_global,
            added: bytes::index(new.len()),
            end: symbols.count(),
        };
        let (first, count) = (renumbering.first, renumbering.added);
        self.insert_symbols(symbols, new)?;
        for (index, section) in (0u32..).zip(self.view.sections()) {
            if section.link != symbols.section {
                continue;
            }
            if section.is_relocations() {
                self.renumber_relocations(index, &section, renumbering)?;
            } else if section.kind == elf::SHT_GROUP.0 && section.info >= first {
                self.header(index)?.info = section.info.saturating_add(count);
            } else if section.kind == SHT_LLVM_ADDRSIG {
                self.renumber_address_significance(index, first, count)?;
            } else if section.kind == SHT_LLVM_CALL_GRAPH_PROFILE_OLD {
                let kind = ErrorKind::Unsupported("symbol indices in a call graph profile");
                return Err(self.view.section_error(index, kind));
            }
        }
        Ok(())
    }

    fn insert_symbols(&mut self, symbols: &Symbols<'d, Elf>, new: &[NewSymbol]) -> Result<()> {
        let mut entries = self.encoder();
        let mut extended = self.encoder();
        let mut needs_extended = symbols.extended_section().is_some();
        for symbol in new {
            let name = match symbol.name.as_slice() {
                [] => 0,
                name => self.add_string(symbols.strings_section, name)?,
            };
            let fits = symbol.section < FIRST_EXTENDED;
            needs_extended |= !fits;
            extended.u32(if fits { 0 } else { symbol.section });
            let section = u16::try_from(symbol.section).ok().filter(|_| fits);
            encode_symbol(&mut entries, name, symbol, section.unwrap_or(SHN_XINDEX));
        }
        let at = symbols.first_global as usize;
        splice(self.body(symbols.section)?, at * size_of::<Elf::Sym>(), &entries.out);
        let added = bytes::index(new.len());
        self.header(symbols.section)?.info = symbols.first_global.saturating_add(added);
        if needs_extended {
            let table = self.extended_table(symbols)?;
            splice(self.body(table)?, at * 4, &extended.out);
        }
        Ok(())
    }

    /// The `SHT_SYMTAB_SHNDX` section, made if there is none.
    fn extended_table(&mut self, symbols: &Symbols<'d, Elf>) -> Result<u32> {
        if let Some(index) = symbols.extended_section() {
            return Ok(index);
        }
        let name = self.add_string(self.view.section_names_index(), b".symtab_shndx")?;
        let section = Section {
            kind: elf::SHT_SYMTAB_SHNDX.0,
            link: symbols.section,
            alignment: 4,
            entry_size: 4,
            ..new_section(name)
        };
        Ok(self.add_section(section, vec![0; symbols.count() as usize * 4]))
    }

    /// Renumbers the symbols in relocation section `index`.
    fn renumber_relocations(
        &mut self,
        index: u32,
        section: &Section,
        Renumbering { first, added, end }: Renumbering,
    ) -> Result<()> {
        // For its checks: the entries are as large as they must be.
        Relocations::read(self.view, index, section)?;
        let layout = InfoLayout::of(self.view);
        let size = relocation_size::<Elf>(section);
        let error = |kind| self.view.section_error(index, kind);
        let overflow = error(ErrorKind::Unsupported("too many symbols"));
        let outside = error(ErrorKind::Malformed("symbol index out of range"));
        for entry in self.body(index)?.chunks_exact_mut(size) {
            let symbol = layout.symbol(entry);
            if symbol >= end {
                return Err(outside);
            }
            if symbol >= first {
                let moved = symbol.checked_add(added).filter(|moved| *moved <= layout.limit());
                layout.set_symbol(entry, moved.ok_or_else(|| overflow.clone())?);
            }
        }
        Ok(())
    }

    /// The same in a table of ULEB128 numbers.
    fn renumber_address_significance(&mut self, index: u32, first: u32, count: u32) -> Result<()> {
        let malformed = self.view.section_error(index, ErrorKind::Malformed("a symbol index"));
        let body = self.body(index)?;
        let mut renumbered = Vec::with_capacity(body.len() + 8);
        let mut rest = body.as_slice();
        while let Some((symbol, after)) = read_uleb128(rest) {
            let moved = if symbol >= u64::from(first) {
                symbol.saturating_add(count.into())
            } else {
                symbol
            };
            write_uleb128(&mut renumbered, moved);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(malformed);
        }
        *body = renumbered;
        Ok(())
    }

    /// Makes entry `entry` of relocation section `index` an `R_*_NONE`.
    pub(crate) fn clear_relocation(
        &mut self,
        index: u32,
        section: &Section,
        entry: u32,
    ) -> Result<()> {
        let layout = InfoLayout::of(self.view);
        let size = relocation_size::<Elf>(section);
        if let Some(entry) = self.body(index)?.chunks_exact_mut(size).nth(entry as usize) {
            layout.clear(entry);
        }
        Ok(())
    }

    /// All changes, as bytes to append and the header that makes them current.
    ///
    /// # Errors
    ///
    /// The new file would be too large for its class.
    pub(crate) fn finish(mut self) -> Result<Change> {
        let data = self.view.data;
        let used = usize::try_from(self.view.used_end()).unwrap_or(usize::MAX).min(data.len());
        let tail = data.get(used..).unwrap_or_default();
        let change = self.build(used as u64)?;
        // Bytes behind the object that are the beginning of what would be written: an earlier run
        // was interrupted. Any others are kept.
        if change.appended.starts_with(tail) { Ok(change) } else { self.build(data.len() as u64) }
    }

    fn build(&mut self, at: u64) -> Result<Change> {
        let mut out = self.encoder();
        out.out.reserve_exact(self.size());
        let end = |out: &Encoder| at + out.out.len() as u64;
        for (index, body) in &self.bodies {
            let header = match self.headers.get(index) {
                Some(header) => *header,
                None => self.view.section(*index)?,
            };
            pad(&mut out, at, header.alignment.clamp(1, 16));
            let header = Section { offset: end(&out), size: body.len() as u64, ..header };
            self.headers.insert(*index, header);
            out.out.extend(body);
        }
        pad(&mut out, at, self.view.word());
        let table = end(&out);
        self.section_headers(&mut out)?;
        if !self.view.is_64() && u32::try_from(end(&out)).is_err() {
            return Err(Error::new(ErrorKind::Unsupported("over 4 GiB in ELFCLASS32")));
        }
        Ok(Change { at, appended: out.out, header: self.elf_header(table)? })
    }

    /// Bytes that will be appended, or some more: for alignment.
    fn size(&self) -> usize {
        let bodies = self.bodies.values().map(|body| body.len() + 16).sum::<usize>();
        bodies + 8 + self.count as usize * size_of::<Elf::SectionHeader>()
    }

    /// The section header table, the null section's extended counts included.
    fn section_headers(&mut self, out: &mut Encoder) -> Result<()> {
        let extended = self.count >= FIRST_EXTENDED;
        if extended && self.view.section_count() < FIRST_EXTENDED {
            let count = self.count.into();
            let names = self.view.section_names_index();
            let null = self.header(0)?;
            null.size = count;
            if names >= FIRST_EXTENDED {
                null.link = names;
            }
        } else if extended {
            let count = self.count.into();
            self.header(0)?.size = count;
        }
        let start = out.out.len();
        let size = size_of::<Elf::SectionHeader>();
        out.out.extend(self.view.raw_section_headers());
        for (index, header) in &self.headers {
            let mut one = self.encoder();
            encode_section(&mut one, header);
            match out
                .out
                .get_mut(start + *index as usize * size..)
                .and_then(|at| at.get_mut(..size))
            {
                Some(place) => place.copy_from_slice(&one.out),
                None => out.out.extend(one.out),
            }
        }
        Ok(())
    }

    /// The ELF header, with the section header table at `table`.
    fn elf_header(&self, table: u64) -> Result<Vec<u8>> {
        let size = size_of::<Elf>();
        let truncated = || Error::new(ErrorKind::Truncated("ELF header"));
        let old = self.view.data.get(..size).ok_or_else(truncated)?;
        let (shoff, shnum) = if self.view.is_64() { (0x28, 0x3c) } else { (0x20, 0x30) };
        let mut header = self.encoder();
        header.out.extend(old.get(..shoff).ok_or_else(truncated)?);
        header.word(table);
        header.out.extend(old.get(header.out.len()..shnum).ok_or_else(truncated)?);
        let count = u16::try_from(self.count).ok().filter(|_| self.count < FIRST_EXTENDED);
        header.u16(count.unwrap_or(0));
        header.out.extend(old.get(header.out.len()..).ok_or_else(truncated)?);
        Ok(header.out)
    }
}

/// A section header with nothing but a name.
pub(crate) fn new_section(name: u32) -> Section {
    Section {
        name,
        kind: 0,
        flags: 0,
        address: 0,
        offset: 0,
        size: 0,
        link: 0,
        info: 0,
        alignment: 0,
        entry_size: 0,
    }
}

/// Appends a section header to `out`.
pub(crate) fn encode_section(out: &mut Encoder, section: &Section) {
    out.u32(section.name);
    out.u32(section.kind);
    out.word(section.flags);
    out.word(section.address);
    out.word(section.offset);
    out.word(section.size);
    out.u32(section.link);
    out.u32(section.info);
    out.word(section.alignment);
    out.word(section.entry_size);
}

/// A local symbol of no size and default visibility.
fn encode_symbol(out: &mut Encoder, name: u32, symbol: &NewSymbol, section: u16) {
    out.u32(name);
    if out.is_64 {
        out.u8(symbol.kind);
        out.u8(0);
        out.u16(section);
        out.word(symbol.value);
        out.word(0);
    } else {
        out.word(symbol.value);
        out.word(0);
        out.u8(symbol.kind);
        out.u8(0);
        out.u16(section);
    }
}

/// Appends a relocation to `out`, with an addend if `rela`.
pub(crate) fn encode_relocation(
    out: &mut Encoder,
    mips64el: bool,
    rela: bool,
    (offset, symbol, kind, addend): (u64, u32, u32, u64),
) {
    out.word(offset);
    if mips64el {
        // r_sym, r_ssym, r_type3, r_type2, r_type.
        out.u32(symbol);
        out.out.extend([0, 0, 0]);
        out.u8(u8::try_from(kind).unwrap_or_default());
    } else if out.is_64 {
        out.u64(u64::from(symbol) << 32 | u64::from(kind));
    } else {
        out.u32(symbol << 8 | kind);
    }
    if rela {
        out.word(addend);
    }
}

fn relocation_size<Elf: FileHeader>(section: &Section) -> usize {
    if section.kind == elf::SHT_REL.0 { size_of::<Elf::Rel>() } else { size_of::<Elf::Rela>() }
}

/// Where an entry of a relocation section keeps its symbol.
#[derive(Clone, Copy)]
struct InfoLayout {
    is_64: bool,
    big_endian: bool,
    mips64el: bool,
}

impl InfoLayout {
    fn of<Elf: FileHeader>(view: &View<'_, Elf>) -> Self {
        Self {
            is_64: view.is_64(),
            big_endian: view.is_big_endian(),
            mips64el: view.has_mips64el_info(),
        }
    }

    /// The largest symbol index that fits.
    fn limit(self) -> u32 {
        if self.is_64 { u32::MAX } else { 0x00ff_ffff }
    }

    /// The bytes of `r_info` that hold the symbol.
    fn range(self) -> std::ops::Range<usize> {
        match (self.is_64, self.big_endian || self.mips64el) {
            (false, _) => 4..8,
            (true, true) => 8..12,
            (true, false) => 12..16,
        }
    }

    /// The word with the symbol in it.
    fn load(self, entry: &[u8]) -> u32 {
        let bytes = entry.get(self.range()).and_then(|bytes| bytes.try_into().ok());
        let bytes: [u8; 4] = bytes.unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn store(self, entry: &mut [u8], value: u32) {
        if let Some(place) = entry.get_mut(self.range()) {
            let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            place.copy_from_slice(&bytes);
        }
    }

    fn symbol(self, entry: &[u8]) -> u32 {
        let word = self.load(entry);
        if self.is_64 { word } else { word >> 8 }
    }

    fn set_symbol(self, entry: &mut [u8], symbol: u32) {
        let kind = self.load(entry) & 0xff;
        self.store(entry, if self.is_64 { symbol } else { symbol << 8 | kind });
    }

    /// Symbol 0, type 0: `R_*_NONE` of every processor. The offset stays.
    fn clear(self, entry: &mut [u8]) {
        let info = if self.is_64 { 8..16 } else { 4..8 };
        if let Some(info) = entry.get_mut(info) {
            info.fill(0);
        }
    }
}

fn pad(out: &mut Encoder, base: u64, alignment: u64) {
    while !(base + out.out.len() as u64).is_multiple_of(alignment) {
        out.u8(0);
    }
}

fn splice(body: &mut Vec<u8>, at: usize, new: &[u8]) {
    let at = at.min(body.len());
    body.splice(at..at, new.iter().copied());
}

fn read_uleb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (index * 7);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn write_uleb128(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}
