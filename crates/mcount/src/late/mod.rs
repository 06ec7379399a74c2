//! Late recording: the table of a linked image, and an object that carries it into the next link.

mod fill;
mod list;
mod names;
mod object;
mod sort;

pub use fill::{Fill, Write, fill};
pub(crate) use list::{list, scan, survey};
pub(crate) use names::WithSymbols;
pub use object::{ObjectOptions, table_object};
pub(crate) use sort::Sort;
pub use sort::{Named, Sorted};

use crate::Options;
use crate::elf::{Encoder, Symbol, Verb, View};
use crate::error::Result;
use crate::policy::Treatment;
use crate::scan::Target;
use crate::scan::bare::Bare;
use crate::scan::functions::Functions;
use crate::scan::image::{Finder, Found};
use crate::scan::sections::{SiteSections, text};
use crate::scan::source_files::SourceFiles;
use crate::site::{CallSite, Kind, Source, TABLE_SECTION};
use ::object::elf;
use ::object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The table that a linked image should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateTable {
    /// Name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Big-endian data.
    pub big_endian: bool,
    /// How many sites are known by what.
    pub sources: BTreeMap<Source, usize>,
    /// In order of address. `recorded` says whether the table of the image has it.
    pub sites: Vec<CallSite>,
    /// What an object can refer to so that the entries are right at any load address.
    pub anchor: Option<Anchor>,
    header: Header,
}

/// A symbol that keeps its place when the image is linked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Its name.
    pub symbol: String,
    /// Its address in the image.
    pub address: u64,
}

/// What the header of an object for the same link has.
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
    /// The addresses that the table must have, ascending.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.sites.iter().filter(|site| !site.excluded).filter_map(|site| site.address)
    }

    /// Makes it a table of `entries` entries that lead nowhere yet.
    pub fn reserve(&mut self, entries: usize) {
        self.sites = vec![CallSite { address: Some(0), ..CallSite::default() }; entries];
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
pub(crate) struct Late<'o>(pub(crate) &'o Options);

impl<'d> Verb<'d> for Late<'_> {
    type Output = LateTable;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<LateTable> {
        let target = Target::image(view)?;
        let (sites, sources) = sites(&target, &Functions::new(&target)?, self.0, None)?;
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

/// How many sites are known by what.
type Sources = BTreeMap<Source, usize>;

/// The sites of the image `target` in order of address, and what they are known by. `bare` is given
/// where entries may tell what symbols do not.
///
/// # Errors
///
/// As [`crate::late_table`].
pub(crate) fn sites<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    functions: &Functions<'d>,
    options: &Options,
    bare: Option<Bare>,
) -> Result<(Vec<CallSite>, Sources)> {
    let mut finder = Finder::new(target, functions, &options.hooks, options.helpers.clone())?;
    let range = table_range(target, options.table_section.as_bytes(), bare);
    let table = finder.table(range);
    match bare.map(|bare| bare.hook) {
        Some(Some(address)) => finder.hooks.add_nameless(address),
        Some(None) => finder.find_hook_by_table(&table),
        None => {}
    }
    let mut found = finder.find()?;
    let names = std::mem::take(&mut finder.hooks.names);
    finder.by_table(&table, &mut found)?;
    let mut sites = named(target, functions, options, &found, &names, &table);
    sites.sort_by_key(|site| site.address);
    let mut sources = Sources::new();
    for site in found.values() {
        *sources.entry(site.source).or_default() += 1;
    }
    Ok((sites, sources))
}

/// Address and size in bytes of the table called `name`, or of the `bare` one.
pub(crate) fn table_range<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    name: &[u8],
    bare: Option<Bare>,
) -> Option<(u64, u64)> {
    let bare = bare.filter(|_| name == TABLE_SECTION.as_bytes());
    target.table_range(name).or_else(|| bare?.range)
}

/// [`crate::placeholder`], for each class and byte order.
pub(crate) struct Reserve;

impl<'d> Verb<'d> for Reserve {
    type Output = LateTable;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<LateTable> {
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

/// The sites of an image with their names.
fn named<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    functions: &Functions<'d>,
    options: &Options,
    found: &Found,
    hooks: &[Arc<str>],
    table: &[u64],
) -> Vec<CallSite> {
    let files = SourceFiles::new(target, functions, &options.policy);
    let mut sections = SiteSections::default();
    let mut table = Ascending::new(table);
    let mut walk = functions.walk();
    let mut sites = Vec::with_capacity(found.len());
    for ((index, offset), site) in found {
        let section = sections.get(target, &options.policy, *index);
        let address = section.base.wrapping_add(*offset);
        let function = || walk.find(*index, *offset, site.size);
        let function = options.names.then(function).flatten();
        let is_left = options.policy.leaves_alone(functions, &files, (*index, *offset, site.size));
        let area = if site.kind == Kind::Patchable { site.size } else { 0 };
        sites.push(CallSite {
            section_index: Some(*index),
            section: Some(section.name),
            offset: Some(*offset),
            address: Some(address),
            symbol: function.map(|(name, _)| text(name)),
            symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
            kind: Some(site.kind),
            hook: site
                .hook
                .filter(|_| options.names)
                .and_then(|hook| hooks.get(hook as usize).cloned()),
            size: Some(site.size),
            recorded: table.has(address),
            excluded: is_left || section.treatment != Treatment::Record,
            stale: walk.is_uncovered(*index, *offset, area),
        });
    }
    sites
}

/// Numbers in ascending order, asked mostly for one after the other.
struct Ascending<'t> {
    all: &'t [u64],
    next: usize,
}

impl<'t> Ascending<'t> {
    fn new(all: &'t [u64]) -> Self {
        Self { all, next: 0 }
    }

    fn has(&mut self, number: u64) -> bool {
        let at = |at: usize| self.all.get(at).copied();
        self.next = if at(self.next).is_some_and(|next| next < number)
            && at(self.next + 1).is_none_or(|next| next >= number)
        {
            self.next + 1
        } else {
            self.all.partition_point(|other| *other < number)
        };
        at(self.next) == Some(number)
    }
}

/// Every linker defines this where the ELF header is loaded.
const EHDR_START: &str = "__ehdr_start";

/// The start of the ELF header; where that is not loaded, one of a kernel's own symbols, or the first
/// of all.
fn anchor<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> Option<Anchor> {
    let view = target.view;
    let headers = view.header.program_headers(view.endian, view.data).ok()?;
    for header in headers {
        let is_load = header.p_type(view.endian) == elf::PT_LOAD;
        if is_load && header.p_offset(view.endian).into() == 0 {
            let address = header.p_vaddr(view.endian).into();
            return Some(Anchor { symbol: EHDR_START.to_owned(), address });
        }
    }
    let symbols = target.symbols.as_ref()?;
    let is_global = |symbol: &Symbol| !symbol.is_local() && symbol.section.is_some();
    let global = || {
        let all = symbols.iter().map(|(_, symbol)| symbol);
        all.filter(is_global)
    };
    // The address of a function may have a bit that is not of the address.
    let plain = |symbol: &Symbol| {
        let section = symbol.section.and_then(|section| view.section(section).ok());
        let is_code = section.is_some_and(|section| section.is_code());
        is_code && !symbol.is_weak() && !(target.arch.isa_bit && symbol.is_function())
    };
    let first = || global().filter(plain).min_by_key(|symbol| symbol.value);
    let mut known = symbols.called(&[b"_stext", b"_text", b"_start", b"__start"]);
    known.sort_unstable_by_key(|(index, name)| (*name, *index));
    let known = known.iter().filter_map(|(index, _)| symbols.get(*index)).find(is_global);
    let symbol = known.or_else(first)?;
    let name = String::from_utf8(symbols.name(&symbol).to_vec()).ok()?;
    Some(Anchor { symbol: name, address: symbol.value })
}

fn header<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> Header {
    let view = target.view;
    Header {
        machine: view.machine(),
        // Only the linker sets it.
        flags: view.flags() & !target.arch.little_endian_code_flag,
        os_abi: view.data.get(7).copied().unwrap_or(0),
        address: target.arch.address(view.word()).unwrap_or(0),
        rel: target.arch.is_rel(view.word()) || target.arch.addend_in_section,
        mips64el: view.has_mips64el_info(),
    }
}
