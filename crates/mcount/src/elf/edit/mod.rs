//! Changing an object by appending only: a section that changes, or is new, gets its bytes at the
//! end of the file, then comes a new section header table, and one write of the ELF header makes
//! all of it current. Until that write the file is the old object, whole.

mod encode;
mod info;
mod symbols;

pub(crate) use self::encode::{encode_relocation, encode_section, new_section};
use self::info::{InfoLayout, relocation_size};
pub(crate) use self::symbols::NewSymbol;
use super::{Encoder, Section, Symbols, View, bytes};
use crate::error::{Error, ErrorKind, Result};
use object::read::elf::FileHeader;
use std::collections::BTreeMap;

/// What to write so that an object becomes the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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

/// The bytes of a section.
enum Body {
    Bytes(Vec<u8>),
    Encoded(Encoded),
}

/// Bytes of a section that are made when they are written, so that they are in memory once.
pub(crate) struct Encoded {
    /// How many there will be.
    pub(crate) size: usize,
    /// Appends them.
    pub(crate) encode: Box<dyn Fn(&mut Encoder)>,
}

impl Encoded {
    /// No bytes.
    pub(crate) fn nothing() -> Self {
        Self { size: 0, encode: Box::new(|_| ()) }
    }
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Encoded(encoded) => encoded.size,
        }
    }

    fn append_to(&self, out: &mut Encoder) {
        match self {
            Self::Bytes(bytes) => out.out.extend(bytes),
            Self::Encoded(encoded) => (encoded.encode)(out),
        }
    }
}

/// The changes to one object.
pub(crate) struct Edit<'v, 'd, Elf: FileHeader> {
    view: &'v View<'d, Elf>,
    /// Sections that change or are new.
    bodies: BTreeMap<u32, Body>,
    headers: BTreeMap<u32, Section>,
    count: u32,
}

/// The first section index that does not fit into 16-bit fields (`SHN_LORESERVE`).
const FIRST_EXTENDED: u32 = 0xff00;

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
        let bytes = match self.bodies.remove(&index) {
            Some(Body::Bytes(bytes)) => bytes,
            Some(body) => {
                let mut out = self.encoder();
                body.append_to(&mut out);
                out.out
            }
            None => self.view.section_data(index)?.to_vec(),
        };
        self.bodies.insert(index, Body::Bytes(bytes));
        match self.bodies.get_mut(&index) {
            Some(Body::Bytes(bytes)) => Ok(bytes),
            _ => Err(Error::new(ErrorKind::Malformed("section"))),
        }
    }

    /// Gives section `index` other bytes.
    pub(crate) fn set_body(&mut self, index: u32, body: Encoded) {
        self.bodies.insert(index, Body::Encoded(body));
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
        self.bodies.insert(index, Body::Bytes(body));
        index
    }

    /// The same with bytes that are made later.
    pub(crate) fn add_encoded(&mut self, section: Section, body: Encoded) -> u32 {
        let index = self.add_section(section, Vec::new());
        self.set_body(index, body);
        index
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
            body.append_to(&mut out);
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

fn pad(out: &mut Encoder, base: u64, alignment: u64) {
    while !(base + out.out.len() as u64).is_multiple_of(alignment) {
        out.u8(0);
    }
}
