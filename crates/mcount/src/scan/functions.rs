//! Which function contains a site: an index of the function symbols of some sections.

use super::Target;
use crate::elf::{Section, Symbol, Symbols, addresses, loaded};
use crate::error::Result;
use object::read::elf::FileHeader;
use std::collections::HashMap;
use std::ops::Range;

/// A function symbol at its code.
#[derive(Debug, Clone, Copy)]
struct Function<'d> {
    start: u64,
    size: u64,
    rank: u8,
    name: &'d [u8],
}

/// Function symbols by section, each list in order of address.
pub(crate) struct Functions<'d> {
    sections: HashMap<u32, Vec<Function<'d>>>,
    pub(crate) descriptors: Descriptors,
}

impl<'d> Functions<'d> {
    /// The functions of all sections of `target` that hold code.
    ///
    /// # Errors
    ///
    /// The relocations of a descriptor section are malformed.
    pub(crate) fn new<Elf: FileHeader>(target: &Target<'_, 'd, Elf>) -> Result<Self> {
        let mut sections: HashMap<u32, Vec<Function<'d>>> = HashMap::new();
        let Some(symbols) = &target.symbols else {
            return Ok(Self { sections, descriptors: Descriptors::default() });
        };
        let descriptors = descriptors(target, symbols)?;
        for (_, symbol) in symbols.iter() {
            let Some((section, start)) = code_of(target, &symbol, &descriptors) else { continue };
            if let Some(rank) = rank(&symbol, symbols.name(&symbol)) {
                let name = symbols.name(&symbol);
                let function = Function { start, size: symbol.size, rank, name };
                sections.entry(section).or_default().push(function);
            }
        }
        for list in sections.values_mut() {
            list.sort_by_key(|function| (function.start, function.rank));
        }
        Ok(Self { sections, descriptors })
    }

    /// The function that contains `offset` of `section`, or that an area of `size` bytes there
    /// leads to: its name and its start.
    pub(crate) fn find(&self, section: u32, offset: u64, size: u64) -> Option<(&'d [u8], u64)> {
        let list = self.sections.get(&section)?;
        let after = list.partition_point(|function| function.start <= offset);
        let before = list.get(..after).unwrap_or_default();
        let covers = |f: &&Function<'_>| f.size == 0 || offset - f.start < f.size;
        let best = before.last().and_then(|last| first_at(before, last.start));
        let next = list.get(after).filter(|next| next.start <= offset.saturating_add(size));
        // One of no size ends where an area begins that leads to the next.
        let is_over = |f: &&Function<'_>| f.size == 0 && next.is_some();
        if let Some(function) = best.filter(|f| covers(f) && !is_over(f)) {
            return Some((function.name, function.start));
        }
        // An area that begins before its function; or padding, or a function whose size is short of its
        // code: the nearest one before.
        next.or(best).map(|function| (function.name, function.start))
    }

    /// The section and offset of the code whose descriptor `symbol` names, if it names one.
    pub(crate) fn described(&self, symbol: &Symbol) -> Option<(u32, u64)> {
        let is_described = symbol.section.is_some() && symbol.section == self.descriptors.section;
        if is_described { self.descriptors.code.get(&symbol.value).copied() } else { None }
    }

    /// Whether `offset` of `section` lies in a function, or an area of `size` bytes there reaches
    /// one. A function of no size ends where the next begins.
    pub(crate) fn covers(&self, section: u32, offset: u64, size: u64) -> bool {
        let Some(list) = self.sections.get(&section) else { return false };
        let after = list.partition_point(|function| function.start <= offset);
        let before = list.get(..after).unwrap_or_default();
        // Any of the functions that begin last: aliases may have no size.
        let start = before.last().map(|function| function.start);
        let ending = before.iter().rev().take_while(|function| Some(function.start) == start);
        let next = list.get(after).is_some_and(|next| next.start <= offset.saturating_add(size));
        next && size != 0 || { ending }.any(|f| f.size == 0 || offset - f.start < f.size)
    }

    /// Whether a function that is local to its source file covers `offset` of `section`.
    pub(crate) fn is_local(&self, section: u32, offset: u64) -> bool {
        let list = self.sections.get(&section).map(Vec::as_slice).unwrap_or_default();
        let start = self.last_start(section, offset);
        let after = list.partition_point(|function| function.start <= offset);
        let ending = list.iter().take(after).rev().take_while(|f| Some(f.start) == start);
        { ending }.any(|f| f.rank == LOCAL && offset - f.start < f.size)
    }

    /// The `size` bytes at `offset` of `section`, which belong to one function or stand before it, parted
    /// where one begins. `None` where no function is known there.
    pub(crate) fn parts(&self, section: u32, offset: u64, size: u64) -> Option<Vec<Range<u64>>> {
        let end = offset.checked_add(size)?;
        let mut parts = Vec::new();
        let mut start = offset;
        let mut is_known = size == 0;
        let list = self.sections.get(&section).map(Vec::as_slice).unwrap_or_default();
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
        let ending = self.last_start(section, offset);
        is_known |= list
            .iter()
            .take(first)
            .rev()
            .take_while(|f| Some(f.start) == ending)
            .any(|function| offset - function.start < function.size);
        is_known.then_some(parts)
    }

    /// The starts of the functions in `section`, in order.
    pub(crate) fn starts(&self, section: u32) -> impl Iterator<Item = u64> + use<'_, 'd> {
        let list = self.sections.get(&section).map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|function| function.start)
    }

    /// The start of the last function that starts at `offset` of `section` or before it.
    pub(crate) fn last_start(&self, section: u32, offset: u64) -> Option<u64> {
        let list = self.sections.get(&section)?;
        let after = list.partition_point(|function| function.start <= offset);
        list.get(after.checked_sub(1)?).map(|function| function.start)
    }

    /// The start of the first function after `offset` of `section`.
    pub(crate) fn next_start(&self, section: u32, offset: u64) -> Option<u64> {
        let list = self.sections.get(&section)?;
        let after = list.partition_point(|function| function.start <= offset);
        list.get(after).map(|function| function.start)
    }
}

/// Of the functions that start at `start`, the one with the best rank.
fn first_at<'l, 'd>(list: &'l [Function<'d>], start: u64) -> Option<&'l Function<'d>> {
    list.get(list.partition_point(|function| function.start < start))
}

/// The rank of a local function.
const LOCAL: u8 = 2;

/// Functions before labels, and of several names for one, the global one first.
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

/// The section and offset of the code that `symbol` names.
pub(crate) fn code_of<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    symbol: &Symbol,
    descriptors: &Descriptors,
) -> Option<(u32, u64)> {
    let section = symbol.section?;
    if Some(section) == descriptors.section {
        return descriptors.code.get(&symbol.value).copied();
    }
    let isa_bit = u64::from(target.arch.isa_bit && symbol.is_function());
    let header = target.view.section(section).ok().filter(Section::is_code)?;
    Some((section, (symbol.value & !isa_bit).wrapping_sub(target.base(&header))))
}

/// The code addresses in a section of function descriptors, by the descriptor's offset.
#[derive(Default)]
pub(crate) struct Descriptors {
    section: Option<u32>,
    code: HashMap<u64, (u32, u64)>,
}

fn descriptors<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    symbols: &Symbols<'_, Elf>,
) -> Result<Descriptors> {
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
        for relocation in target.relocations(index, &header)?.iter() {
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

/// The same in an image, where the first word of a descriptor is the address of the code.
fn linked_descriptors<Elf: FileHeader>(target: &Target<'_, '_, Elf>, name: &[u8]) -> Descriptors {
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
