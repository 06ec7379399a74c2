//! Changing an object by appending to it.
//!
//! The bytes of sections that are new or change go to the end of the file, and a new section header table
//! goes behind them. Then one write of the ELF header makes the new object current. Until that write, the
//! file is the old object, complete.

mod encode;
mod info;
mod symbols;

pub(crate) use self::encode::{encode_relocation, encode_section, new_section};
use self::info::{InfoLayout, relocation_size};
pub(crate) use self::symbols::NewSymbol;
use self::symbols::Renumbering;
use super::{Encoder, Section, Symbols, View, bytes};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// What to write so that an object becomes a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Where `appended` goes, in bytes from the start of the file. Bytes from there on aren't part of the
    /// old object.
    pub at: u64,
    /// Write this first.
    pub appended: Vec<u8>,
    /// Write this last, at the start of the file, in one write.
    pub header: Vec<u8>,
}

impl Change {
    /// The new object, made from the old one, `data`.
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

/// The bytes of a section, made only when they are written, so that they are in memory once.
pub(crate) struct Encoded {
    /// Their number.
    pub(crate) size: usize,
    /// Appends them to the file.
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
pub(crate) struct Edit<'v, 'd> {
    view: &'v View<'d>,
    /// The new bytes of sections that change or are new.
    bodies: BTreeMap<u32, Body>,
    headers: BTreeMap<u32, Section>,
    count: u32,
    /// What became of the indices of symbols.
    renumbering: Option<Renumbering>,
}

/// The first section index that doesn't fit into 16-bit fields (`SHN_LORESERVE`).
const FIRST_EXTENDED: u32 = 0xff00;

impl<'v, 'd> Edit<'v, 'd> {
    pub(crate) fn new(view: &'v View<'d>) -> Self {
        let count = view.section_count();
        let (bodies, headers) = (BTreeMap::new(), BTreeMap::new());
        Self { view, bodies, headers, count, renumbering: None }
    }

    fn encoder(&self) -> Encoder {
        self.view.encoder()
    }

    /// The index that the symbol with index `old` has now.
    pub(crate) fn symbol(&self, old: u32) -> u32 {
        self.renumbering.map_or(old, |renumbering| renumbering.of(old))
    }

    /// The bytes of section `index`, for changing.
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

    /// The header of section `index`, for changing. Its offset and size are set at the end.
    pub(crate) fn header(&mut self, index: u32) -> Result<&mut Section> {
        if !self.headers.contains_key(&index) {
            self.headers.insert(index, self.view.section(index)?);
        }
        self.headers.get_mut(&index).ok_or_else(|| Error::new(ErrorKind::Malformed("section")))
    }

    /// Adds `text` to the string table `table`. Returns its offset there.
    ///
    /// # Errors
    ///
    /// A name of the file is outside the table. It would be inside when the table grows.
    pub(crate) fn add_string(&mut self, table: u32, text: &[u8]) -> Result<u32> {
        if !self.bodies.contains_key(&table) {
            self.check_names(table)?;
        }
        let body = self.body(table)?;
        // An empty table gets the empty name. A table that doesn't end with a NUL gets one.
        if body.last() != Some(&0) {
            body.push(0);
        }
        let offset = bytes::index(body.len());
        body.extend(text);
        body.push(0);
        Ok(offset)
    }

    /// Checks that every name in the string table `table` is inside it.
    fn check_names(&self, table: u32) -> Result<()> {
        let size = self.view.section_data(table)?.len();
        if table == self.view.section_names_index() {
            let mut names = (0u32..).zip(self.view.sections());
            if let Some((index, _)) = names.find(|(_, section)| is_outside(section.name, size)) {
                let kind = ErrorKind::Malformed("sh_name lies outside the string table");
                return Err(self.view.section_error(index, kind));
            }
        }
        match Symbols::read(self.view)? {
            Some(symbols) if symbols.strings_section == table => {
                if symbols.names().any(|(_, name)| is_outside(name, size)) {
                    let kind = ErrorKind::Malformed("st_name lies outside the string table");
                    return Err(self.view.section_error(symbols.section, kind));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a section. Returns its index.
    pub(crate) fn add_section(&mut self, section: Section, body: Vec<u8>) -> u32 {
        let index = self.count;
        self.count = self.count.saturating_add(1);
        self.headers.insert(index, section);
        self.bodies.insert(index, Body::Bytes(body));
        index
    }

    /// Adds a section whose bytes are made later. Returns its index.
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
        let size = relocation_size(self.view, section);
        if let Some(entry) = self.body(index)?.chunks_exact_mut(size).nth(entry as usize) {
            layout.clear(entry);
        }
        Ok(())
    }

    /// All changes: the bytes to append, and the header that makes them current.
    ///
    /// # Errors
    ///
    /// The new file would be too large for its class.
    pub(crate) fn finish(mut self) -> Result<Change> {
        let data = self.view.data;
        let used = usize::try_from(self.view.used_end()).unwrap_or(usize::MAX).min(data.len());
        let tail = data.get(used..).unwrap_or_default();
        let change = self.build(used as u64)?;
        // If an earlier run was interrupted, the bytes after the object are the beginning of what we
        // write. Any other bytes are kept.
        if change.appended.starts_with(tail) { Ok(change) } else { self.build(data.len() as u64) }
    }

    fn build(&mut self, at: u64) -> Result<Change> {
        let mut out = self.encoder();
        out.out.reserve_exact(self.size());
        for (index, body) in &self.bodies {
            let header = match self.headers.get(index) {
                Some(header) => *header,
                None => self.view.section(*index)?,
            };
            pad(&mut out, at, header.alignment.clamp(1, 16));
            let header = Section { offset: end(at, &out), size: body.len() as u64, ..header };
            self.headers.insert(*index, header);
            body.append_to(&mut out);
        }
        pad(&mut out, at, self.view.word());
        let table = end(at, &out);
        self.section_headers(&mut out)?;
        if !self.view.is_64() && u32::try_from(end(at, &out)).is_err() {
            return Err(Error::new(ErrorKind::Unsupported("over 4 GiB in ELFCLASS32")));
        }
        Ok(Change { at, appended: out.out, header: self.elf_header(table)? })
    }

    /// At least the number of bytes that will be appended. Alignment may need fewer than this allows.
    fn size(&self) -> usize {
        let bodies = self.bodies.values().map(|body| body.len() + 16).sum::<usize>();
        bodies + 8 + self.count as usize * self.view.section_header_size()
    }

    /// Appends the section header table, with the extended counts in the null section.
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
        let size = self.view.section_header_size();
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
        let size = self.view.header_size();
        let old = part(self.view.data, 0..size)?;
        let (shoff, shnum) = if self.view.is_64() { (0x28, 0x3c) } else { (0x20, 0x30) };
        let mut header = self.encoder();
        header.out.extend(part(old, 0..shoff)?);
        header.word(table);
        header.out.extend(part(old, header.out.len()..shnum)?);
        let count = u16::try_from(self.count).ok().filter(|_| self.count < FIRST_EXTENDED);
        header.u16(count.unwrap_or(0));
        header.out.extend(part(old, header.out.len()..size)?);
        Ok(header.out)
    }
}

/// Whether `name` is outside a string table of `size` bytes.
fn is_outside(name: u32, size: usize) -> bool {
    name != 0 && name as usize >= size
}

/// These bytes of the ELF header.
fn part(header: &[u8], range: Range<usize>) -> Result<&[u8]> {
    header.get(range).ok_or_else(|| Error::new(ErrorKind::Truncated("ELF header")))
}

/// Where `out` ends, if it begins at `start`.
fn end(start: u64, out: &Encoder) -> u64 {
    start + out.out.len() as u64
}

/// Fills `out`, which begins at `base`, with zeros up to a multiple of `alignment`.
fn pad(out: &mut Encoder, base: u64, alignment: u64) {
    while !end(base, out).is_multiple_of(alignment) {
        out.u8(0);
    }
}
