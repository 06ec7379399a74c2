//! Late recording: the table of a linked image, and an object that carries it into the next link.

mod fill;
mod object;

pub use fill::Fill;
pub(crate) use fill::Filler;
pub use object::{ObjectOptions, table_object};

use crate::elf::{Encoder, Symbol, Verb, View};
use crate::error::Result;
use crate::options::{LateOptions, Options};
use crate::scan::Target;
use crate::site::{CallSite, Sites, Source};
use crate::sites::{self, Known};
use std::collections::BTreeMap;

/// The table that a linked image should have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateTable {
    /// The name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Whether data is big-endian.
    pub big_endian: bool,
    /// How many sites were found in which way.
    pub sources: BTreeMap<Source, usize>,
    /// The sites, in order of address. `recorded` says which of them are in the table of the image.
    pub sites: Vec<CallSite>,
    /// A symbol that an object can refer to, so that the entries are right at any load address.
    pub anchor: Option<Anchor>,
    header: Header,
}

/// A symbol that keeps its place when the image is linked again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anchor {
    /// Its name.
    pub symbol: String,
    /// Its address in the image.
    pub address: u64,
}

impl Anchor {
    /// The symbol `symbol`, which is at `address` in the image.
    #[must_use]
    pub fn new(symbol: impl Into<String>, address: u64) -> Self {
        Self { symbol: symbol.into(), address }
    }
}

/// The values that the ELF header of an object for the same link must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    machine: u16,
    flags: u32,
    os_abi: u8,
    address: u32,
    rel: bool,
    mips64el: bool,
}

impl LateTable {
    /// The addresses that the table must have, in ascending order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.sites.iter().filter(|site| !site.excluded).filter_map(|site| site.address)
    }

    /// Makes it a table of `entries` entries that don't lead anywhere yet.
    pub fn reserve(&mut self, entries: usize) {
        self.sites = vec![CallSite { address: Some(0), ..CallSite::default() }; entries];
    }

    /// Its sites.
    #[must_use]
    pub fn to_sites(&self) -> Sites {
        Sites {
            machine: self.machine,
            bits: self.bits,
            big_endian: self.big_endian,
            is_image: true,
            is_table: false,
            sites: self.sites.clone(),
        }
    }

    /// The addresses as words in the byte order of the image.
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        let mut out = self.encoder();
        self.addresses().for_each(|address| out.word(address));
        out.out
    }

    fn encoder(&self) -> Encoder {
        Encoder { big_endian: self.big_endian, is_64: self.bits == 64, out: Vec::new() }
    }
}

/// [`crate::late_table`], for each class and byte order.
pub(crate) struct Late<'o, 'd> {
    pub(crate) options: &'o Options,
    pub(crate) how: &'o LateOptions,
    pub(crate) known: &'o mut Known<'d>,
}

impl<'d> Verb<'d> for Late<'_, 'd> {
    type Output = LateTable;

    fn run(self, view: &View<'d>) -> Result<LateTable> {
        let target = Target::image(view)?;
        let functions = self.known.functions(&target)?;
        let names = self.how.names;
        let (sites, sources) = sites::image::sites(&target, &functions, self.options, None, names)?;
        Ok(LateTable {
            machine: target.arch.name,
            bits: if view.is_64() { 64 } else { 32 },
            big_endian: view.is_big_endian(),
            sources,
            sites,
            anchor: anchor(&target),
            header: header(&target),
        })
    }
}

/// [`crate::placeholder`], for each class and byte order.
pub(crate) struct Reserve;

impl<'d> Verb<'d> for Reserve {
    type Output = LateTable;

    fn run(self, view: &View<'d>) -> Result<LateTable> {
        let target = Target::new(view)?;
        Ok(LateTable {
            machine: target.arch.name,
            bits: if view.is_64() { 64 } else { 32 },
            big_endian: view.is_big_endian(),
            sources: BTreeMap::new(),
            sites: Vec::new(),
            anchor: Some(Anchor { symbol: EHDR_START.to_owned(), address: 0 }),
            header: header(&target),
        })
    }
}

/// Every linker defines this symbol where the ELF header is loaded.
const EHDR_START: &str = "__ehdr_start";

/// The symbol at the start of the ELF header. If the header isn't loaded, one of a kernel's own symbols,
/// or the first symbol of all.
fn anchor(target: &Target<'_, '_>) -> Option<Anchor> {
    let view = target.view;
    if let Some(address) = view.header_address().ok()? {
        return Some(Anchor { symbol: EHDR_START.to_owned(), address });
    }
    let symbols = target.symbols.as_ref()?;
    let mut known = symbols.called(&[b"_stext", b"_text", b"_start", b"__start"]);
    known.sort_by_key(|(index, name)| (*name, *index));
    let known = known.iter().filter_map(|(index, _)| symbols.get(*index)).find(is_global);
    let symbol = known.or_else(|| {
        let all = symbols.iter().map(|(_, symbol)| symbol);
        all.filter(|symbol| is_plain_code(target, symbol)).min_by_key(|symbol| symbol.value)
    })?;
    let name = String::from_utf8(symbols.name(&symbol).to_vec()).ok()?;
    Some(Anchor { symbol: name, address: symbol.value })
}

/// Whether other files can refer to `symbol`.
fn is_global(symbol: &Symbol) -> bool {
    !symbol.is_local() && symbol.section.is_some()
}

/// Whether `symbol` is a global one in code that can't be overridden, and its value is just an address:
/// that of a function may have an instruction-set bit.
fn is_plain_code(target: &Target<'_, '_>, symbol: &Symbol) -> bool {
    let section = symbol.section.and_then(|section| target.view.section(section).ok());
    let is_code = section.is_some_and(|section| section.is_code());
    let has_isa_bit = target.arch.isa_bit && symbol.is_function();
    is_global(symbol) && is_code && !symbol.is_weak() && !has_isa_bit
}

fn header(target: &Target<'_, '_>) -> Header {
    let view = target.view;
    Header {
        machine: view.machine(),
        // Only linkers set this flag.
        flags: view.flags() & !target.arch.little_endian_code_flag,
        os_abi: view.data.get(7).copied().unwrap_or(0),
        address: target.arch.address(view.word()).unwrap_or(0),
        rel: target.arch.is_rel(view.word()) || target.arch.addend_in_section,
        mips64el: view.has_mips64el_info(),
    }
}
