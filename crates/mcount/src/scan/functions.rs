//! Which function is at a place? Verbs that show, check or exclude a site ask that.
//!
//! Say these are the symbols of a `.text`:
//!
//! ```text
//!  value  size  type    binding  name
//!      0    20  FUNC    LOCAL    helper
//!     20    40  FUNC    GLOBAL   run
//!     20    40  FUNC    WEAK     run_alias
//!     24     0  NOTYPE  LOCAL    .L3
//!     64     0  NOTYPE  GLOBAL   start
//!     96     8  FUNC    GLOBAL   patched
//! ```
//!
//! - Offset 24 is in `run`. Of two names for one place, a global one wins over a weak one, and a weak one
//!   over a local one. `.L3` is a label of the assembler, so it isn't a function ([`rank`]).
//! - Offset 62 is padding, because `run` ends at 60. So no function covers it ([`FunctionIndex::covers`]).
//!   But if somebody only wants a name to show, `run` is the nearest one before ([`FunctionIndex::find`]).
//! - Offset 70 is in `start`. Assembly code often has symbols without sizes. They reach up to the next
//!   symbol.
//! - 16 bytes of NOPs at offset 88 belong to `patched`: with `-fpatchable-function-entry=16,8`, half of
//!   the area is before the function. That is why most questions below have a size.
//!
//! Places are offsets in a section, also in images, whose symbols have addresses. On ELFv1 powerpc64, a
//! function's symbol leads to its descriptor: two or three words of data, the first of which is the
//! address of the code ([`Descriptors`]).

use super::Target;
use crate::elf::{Budget, Section, Symbol, Symbols, addresses, loaded, string};
use crate::error::Result;
use std::collections::HashMap;
use std::ops::Range;

/// All function symbols at one place. They share an entry, so that a search costs the same however many
/// names a place has.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start: u64,
    /// The size in bytes that the symbol with the best rank has.
    size: u64,
    /// The largest size that any of them has.
    longest: u64,
    /// The largest size that a local one has.
    longest_local: u64,
    /// The name of the symbol with the best rank, as an offset in the string table.
    name: u32,
    rank: u8,
    /// Whether one of them has no size.
    is_open: bool,
}

impl Extent {
    /// Whether `offset`, which is before the next function, is in this one.
    fn covers(&self, offset: u64) -> bool {
        self.is_open || offset - self.start < self.longest
    }

    /// Adds `other`, which is at the same place. Its rank isn't better.
    fn join(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        self.longest_local = self.longest_local.max(other.longest_local);
        self.is_open |= other.is_open;
    }
}

/// The functions of each section, in order of address.
pub(crate) struct FunctionIndex<'d> {
    /// By section index.
    sections: Vec<Vec<Extent>>,
    strings: &'d [u8],
    /// Whether the file isn't stripped, so that every function has a symbol.
    pub(crate) are_all: bool,
    pub(crate) descriptors: Descriptors,
    budget: Budget,
}

impl<'d> FunctionIndex<'d> {
    /// The functions of all sections of `target` that hold code.
    ///
    /// # Errors
    ///
    /// The relocations of a descriptor section are malformed.
    pub(crate) fn new(target: &Target<'_, 'd>) -> Result<Self> {
        let mut sections: Vec<Vec<Extent>> = Vec::new();
        let Some(symbols) = &target.symbols else {
            return Ok(Self {
                sections,
                strings: &[],
                are_all: false,
                descriptors: Descriptors::default(),
                budget: Budget::default(),
            });
        };
        let descriptors = descriptors(target, symbols)?;
        sections.resize_with(target.view.section_count() as usize, Vec::new);
        for (_, symbol) in symbols.iter() {
            let Some((section, start)) = code_of(target, &symbol, &descriptors) else { continue };
            if let Some(rank) = rank(&symbol, symbols.name_start(&symbol))
                && let Some(list) = sections.get_mut(section as usize)
            {
                list.push(function(&symbol, start, rank));
            }
        }
        for list in &mut sections {
            list.sort_by_key(|function| (function.start, function.rank));
            list.dedup_by(|later, first| {
                let is_same = later.start == first.start;
                if is_same {
                    first.join(later);
                }
                is_same
            });
        }
        let are_all = target.has_all_symbols();
        let budget = target.view.budget.clone();
        Ok(Self { sections, strings: symbols.strings(), are_all, descriptors, budget })
    }

    /// The functions of `section`, in order.
    fn list(&self, section: u32) -> &[Extent] {
        self.sections.get(section as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn name(&self, function: &Extent) -> &'d [u8] {
        self.budget.name(|| string(self.strings, function.name))
    }

    /// The last function of `section` that starts at `offset` or before it, and the one after that.
    fn around(&self, section: u32, offset: u64) -> Around<'_> {
        let list = self.list(section);
        around(list, list.partition_point(|function| function.start <= offset))
    }

    /// The same questions, for places that come in order.
    pub(crate) fn walk(&self) -> Walk<'_, 'd> {
        Walk { functions: self, section: 0, after: 0 }
    }

    /// The name and start of the function that contains `offset` of `section`, or that an area of `size`
    /// bytes there reaches.
    pub(crate) fn find(&self, section: u32, offset: u64, size: u64) -> Option<(&'d [u8], u64)> {
        let function = choose(self.around(section, offset), offset, size)?;
        Some((self.name(function), function.start))
    }

    /// The section and offset of the code whose descriptor is at `address` of an image, if there is one.
    /// Only the address counts, because the section indices of dynamic symbols are wrong after strip
    /// has removed relocation sections before them.
    pub(crate) fn described(&self, address: u64) -> Option<(u32, u64)> {
        self.descriptors.code.get(&address).copied()
    }

    /// Whether `offset` of `section` is in a function, or an area of `size` bytes there reaches one.
    pub(crate) fn covers(&self, section: u32, offset: u64, size: u64) -> bool {
        covers(self.around(section, offset), offset, size)
    }

    /// Whether the symbols show that `offset` of `section` is in no function, and that an area of `size`
    /// bytes there reaches none. `false` if there are no such symbols.
    pub(crate) fn is_uncovered(&self, section: u32, offset: u64, size: u64) -> bool {
        self.are_all && !self.list(section).is_empty() && !self.covers(section, offset, size)
    }

    /// Whether a function that is local to its source file covers `offset` of `section`.
    pub(crate) fn is_local(&self, section: u32, offset: u64) -> bool {
        let (last, _) = self.around(section, offset);
        last.is_some_and(|last| offset - last.start < last.longest_local)
    }

    /// The `size` bytes at `offset` of `section`, split where a function begins. `None` if there is no
    /// function at, in or right behind them.
    pub(crate) fn parts(&self, section: u32, offset: u64, size: u64) -> Option<Vec<Range<u64>>> {
        let end = offset.checked_add(size)?;
        let mut parts = Vec::new();
        let mut start = offset;
        let mut is_known = size == 0;
        let list = self.list(section);
        let first = list.partition_point(|function| function.start < offset);
        for function in list.iter().skip(first).take_while(|function| function.start <= end) {
            is_known = true;
            if function.start > start {
                parts.push(start..function.start);
                start = function.start;
            }
        }
        parts.push(start..end);
        parts.retain(|part| !part.is_empty());
        let before = first.checked_sub(1).and_then(|at| list.get(at));
        is_known |= before.is_some_and(|before| offset - before.start < before.longest);
        is_known.then_some(parts)
    }

    /// The starts of the functions in `section`, in order.
    pub(crate) fn starts(&self, section: u32) -> impl Iterator<Item = u64> + use<'_, 'd> {
        self.list(section).iter().map(|function| function.start)
    }

    /// The starts of the functions in `section` from `offset` on.
    pub(crate) fn starts_from(
        &self,
        section: u32,
        offset: u64,
    ) -> impl Iterator<Item = u64> + use<'_, 'd> {
        let list = self.list(section);
        let before = list.partition_point(|function| function.start < offset);
        list.iter().skip(before).map(|function| function.start)
    }

    /// The start of the last function that starts at `offset` of `section` or before it.
    pub(crate) fn last_start(&self, section: u32, offset: u64) -> Option<u64> {
        self.around(section, offset).0.map(|function| function.start)
    }

    /// The start of the first function after `offset` of `section`.
    pub(crate) fn next_start(&self, section: u32, offset: u64) -> Option<u64> {
        self.around(section, offset).1.map(|function| function.start)
    }
}

/// The last function at a place or before it, and the one after that.
type Around<'f> = (Option<&'f Extent>, Option<&'f Extent>);

fn around(list: &[Extent], after: usize) -> Around<'_> {
    (after.checked_sub(1).and_then(|at| list.get(at)), list.get(after))
}

/// Chooses what [`FunctionIndex::find`] returns from the functions before and after `offset`.
fn choose((best, next): Around<'_>, offset: u64, size: u64) -> Option<&Extent> {
    let covers = |f: &&Extent| f.size == 0 || offset - f.start < f.size;
    let next = next.filter(|next| next.start <= offset.saturating_add(size));
    // A function without a size ends where the area of the next one begins.
    let is_over = |f: &&Extent| f.size == 0 && next.is_some();
    // Otherwise the area of the next function. Or padding, or code after the size that the function's symbol
    // has: then the nearest function before it.
    best.filter(|f| covers(f) && !is_over(f)).or(next).or(best)
}

fn covers((last, next): Around<'_>, offset: u64, size: u64) -> bool {
    let is_reached = next.is_some_and(|next| next.start <= offset.saturating_add(size));
    is_reached && size != 0 || last.is_some_and(|last| last.covers(offset))
}

/// [`FunctionIndex`] for places in order of section and offset. Each search begins where the last one ended.
/// Places in another order get the right answer too, only later.
pub(crate) struct Walk<'f, 'd> {
    functions: &'f FunctionIndex<'d>,
    section: u32,
    /// How many functions of the section start at the last place or before it.
    after: usize,
}

impl<'f, 'd> Walk<'f, 'd> {
    /// How many functions to look at one by one before a binary search.
    const STEPS: usize = 8;

    fn around(&mut self, section: u32, offset: u64) -> Around<'f> {
        let list = self.functions.list(section);
        let is_before = |function: &Extent| function.start <= offset;
        let start = if section == self.section { self.after } else { 0 };
        let is_ahead = start.checked_sub(1).and_then(|at| list.get(at)).is_none_or(is_before);
        let (_, rest) = list.split_at_checked(if is_ahead { start } else { 0 }).unwrap_or_default();
        let few = rest.iter().take(Self::STEPS).take_while(|function| is_before(function)).count();
        let passed = if few < Self::STEPS { few } else { rest.partition_point(is_before) };
        self.section = section;
        self.after = list.len() - rest.len() + passed;
        around(list, self.after)
    }

    /// As [`FunctionIndex::find`].
    pub(crate) fn find(&mut self, section: u32, offset: u64, size: u64) -> Option<(&'d [u8], u64)> {
        let function = choose(self.around(section, offset), offset, size)?;
        Some((self.functions.name(function), function.start))
    }

    /// Where the function begins that [`FunctionIndex::find`] finds.
    pub(crate) fn start(&mut self, section: u32, offset: u64, size: u64) -> Option<u64> {
        choose(self.around(section, offset), offset, size).map(|function| function.start)
    }

    /// As [`FunctionIndex::is_uncovered`].
    pub(crate) fn is_uncovered(&mut self, section: u32, offset: u64, size: u64) -> bool {
        let functions = self.functions;
        let is_told = functions.are_all && !functions.list(section).is_empty();
        is_told && !covers(self.around(section, offset), offset, size)
    }
}

/// The function of `symbol`, whose code starts at `start`.
fn function(symbol: &Symbol, start: u64, rank: u8) -> Extent {
    Extent {
        start,
        size: symbol.size,
        longest: symbol.size,
        longest_local: if rank == LOCAL { symbol.size } else { 0 },
        name: symbol.name,
        rank,
        is_open: symbol.size == 0,
    }
}

/// The rank of a local function symbol.
const LOCAL: u8 = 2;

/// The rank of a symbol among others at the same place; the lowest wins. Functions come before labels,
/// and global before weak before local ones. `None` if the symbol can't be a function.
fn rank(symbol: &Symbol, name: &[u8]) -> Option<u8> {
    if name.is_empty() {
        return None;
    }
    let binding = if symbol.is_local() { LOCAL } else { u8::from(symbol.is_weak()) };
    if symbol.is_function() {
        return Some(binding);
    }
    // Mapping symbols and assembler-local labels name no function.
    let label = symbol.is_untyped() && !name.starts_with(b"$") && !name.starts_with(b".L");
    label.then_some(3 + binding)
}

/// The section and offset of the code that `symbol` means.
pub(crate) fn code_of(
    target: &Target<'_, '_>,
    symbol: &Symbol,
    descriptors: &Descriptors,
) -> Option<(u32, u64)> {
    let section = holder(target, symbol)?;
    if Some(section) == descriptors.section {
        return descriptors.code.get(&symbol.value).copied();
    }
    let isa_bit = u64::from(target.arch.isa_bit && symbol.is_function());
    let header = target.view.section(section).ok().filter(Section::is_code)?;
    Some((section, (symbol.value & !isa_bit).wrapping_sub(target.base(&header))))
}

/// The section that `symbol` is in. The section index of a dynamic symbol is wrong after strip has
/// removed relocation sections before it, so there the address decides.
fn holder(target: &Target<'_, '_>, symbol: &Symbol) -> Option<u32> {
    let section = symbol.section?;
    let covers = |s: Section| symbol.value.wrapping_sub(s.address) < s.size;
    if !target.symbols_are_dynamic || target.view.section(section).is_ok_and(covers) {
        return Some(section);
    }
    let by_address = target.view.section_at(symbol.value);
    Some(by_address.map_or(section, |(index, _)| index))
}

/// The code that each function descriptor leads to, by the descriptor's offset; in an image, by its
/// address.
#[derive(Default)]
pub(crate) struct Descriptors {
    section: Option<u32>,
    code: HashMap<u64, (u32, u64)>,
}

fn descriptors(target: &Target<'_, '_>, symbols: &Symbols<'_>) -> Result<Descriptors> {
    let Some(name) = target.arch.descriptors else { return Ok(Descriptors::default()) };
    let view = target.view;
    let mut found = Descriptors::default();
    if target.is_image {
        return Ok(linked_descriptors(target, name));
    }
    for (index, header) in (0u32..).zip(view.sections()) {
        if !header.is_relocations() || !view.is_called(header.info, name) {
            continue;
        }
        found.section = Some(header.info);
        for relocation in target.relocations(index, header)?.iter() {
            let is_address = Some(relocation.kind) == target.arch.address(view.word());
            let symbol = symbols.get(relocation.symbol).filter(|_| is_address);
            let Some((section, value)) = symbol.and_then(|s| Some((s.section?, s.value))) else {
                continue;
            };
            let code = value.wrapping_add_signed(relocation.addend.unwrap_or(0));
            found.code.insert(relocation.offset, (section, code));
        }
    }
    Ok(found)
}

/// The descriptors of an image. The first word of each is the address of the code.
fn linked_descriptors(target: &Target<'_, '_>, name: &[u8]) -> Descriptors {
    let view = target.view;
    let mut found = Descriptors::default();
    let mut sections = (0u32..).zip(view.sections());
    let Some((index, header)) = sections.find(|(index, _)| view.is_called(*index, name)) else {
        return found;
    };
    found.section = Some(index);
    let count = header.size / view.word();
    let words = loaded::words(view, header.address, count, &target.loader);
    let code: Vec<_> = (0u32..).zip(view.sections()).filter(|(_, s)| s.is_code()).collect();
    for (at, value) in addresses(header.address, view.word()).zip(words) {
        let inside = |s: &Section| value >= s.address && value - s.address < s.size;
        if let Some((section, header)) = code.iter().find(|(_, section)| inside(section)) {
            found.code.insert(at, (*section, value - header.address));
        }
    }
    found
}
