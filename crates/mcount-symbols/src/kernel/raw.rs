//! Kernels that are no ELF: the bytes of the image from its first address on, as `objcopy -O binary` leaves
//! them. Names tell where code and tables are, and where the image is linked to.
//!
//! Sources: the processors' ELF supplements for the numbers of relocations.

use super::elf::{Header, Image, Section};
use super::kallsyms::Base;
use super::table::Data;
use super::words::word;
use super::{Name, PAGE, address_of, kallsyms, table};
use crate::arch::Processor;
use crate::btf;
use memchr::memmem;
use object::elf as constants;
use std::collections::BTreeMap;

/// How many relocations must follow each other to be taken for such.
const FEWEST: usize = 16;
/// How many relocations or entries to look at.
const SAMPLES: usize = 512;
/// How far after the start of the image the first function may be.
const FARTHEST: u64 = 16 << 20;
/// How many texts to try that look like the banner.
const BANNERS: usize = 64;
/// The text that every kernel prints first.
const BANNER: &[u8] = b"Linux version ";

/// The kernel `bytes` for `processor` as an ELF image, with `names`, or else with those in it. `None` if it
/// has none.
pub(crate) fn rebuild(
    bytes: &[u8],
    processor: Processor,
    names: Option<&[Name]>,
) -> Option<Vec<u8>> {
    let Processor { machine, is_64, big_endian, flags, relative } = processor;
    let header = Header { machine, is_64, big_endian, flags };
    let relocations = match relative {
        Some(kind) if header.is_64 => relocations(bytes, kind, header),
        _ => Vec::new(),
    };
    let (mut names, base) = match names {
        Some(names) => (names.to_vec(), base(bytes, names)?),
        None => in_image(bytes, header, &relocations)?,
    };
    let mut body = bytes.to_vec();
    for (place, value) in relocations {
        let at = place.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        let word = at.and_then(|at| body.get_mut(at..at.checked_add(8)?));
        if let Some(word) = word {
            let value = if header.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            word.copy_from_slice(&value);
        }
    }
    let data = Data { bytes: &body, address: base, size: header.word(), order: header.order() };
    names.extend(table::bounds(data, &body, base, &names));
    names.sort_by_key(|name| name.address);
    let mut sections = sections(&names, base, bytes.len() as u64);
    sections.extend(btf::in_image(bytes).map(|place| Section {
        name: btf::SECTION.to_owned(),
        flags: 0,
        address: 0,
        size: place.len() as u64,
        offset: Some(place.start as u64),
    }));
    let mut image = Image { header, body, sections, names };
    let without_sizes = image.build()?;
    super::set_sizes(&mut image.names, &without_sizes);
    image.build()
}

/// The names in the image, and the address of its first byte.
fn in_image(bytes: &[u8], header: Header, relocations: &[(u64, u64)]) -> Option<(Vec<Name>, u64)> {
    let tables = kallsyms::find(bytes, header.word()).ok()?;
    let names = match tables.base {
        Base::Zero => tables.names(0),
        Base::Word { at, value: 0 } => {
            // The loader or the kernel itself writes the base.
            let base = base_by_relocations(bytes, header, relocations)?;
            let place = base.checked_add(at as u64)?;
            let written = relocations.iter().find(|(at, _)| *at == place).map(|(_, value)| *value);
            // If no relocation writes just a number, it is that of the first symbol, where the image begins.
            return Some((tables.names(written.unwrap_or(base)), base));
        }
        Base::Word { value, .. } => tables.names(value),
        Base::Image => {
            let data = Data { bytes, address: 0, size: header.word(), order: header.order() };
            let base = base_by_relocations(bytes, header, relocations)
                .or_else(|| table::base_by_functions(data, &tables.names(0)))?;
            return Some((tables.names(base), base));
        }
    };
    let base = base(bytes, &names).or_else(|| base_by_table(bytes, header, &names))?;
    Some((names, base))
}

/// The address of the first of `bytes` at which the words that `relocations` write are zero in the file, or
/// have their value already.
fn base_by_relocations(bytes: &[u8], header: Header, relocations: &[(u64, u64)]) -> Option<u64> {
    let first = relocations.iter().map(|(place, _)| *place).min()? & !(PAGE - 1);
    let last = relocations.iter().map(|(place, _)| *place).max()?;
    let step = relocations.len().div_ceil(SAMPLES).max(1);
    let samples: Vec<_> = relocations.iter().step_by(step).collect();
    let fits = |base: u64| {
        let is_right = |(place, value): &&&(u64, u64)| {
            let at = place.checked_sub(base).and_then(|at| usize::try_from(at).ok());
            let found = at.and_then(|at| word(bytes, at, 8, header.big_endian));
            found == Some(0) || found == Some(*value)
        };
        samples.iter().filter(is_right).count()
    };
    let earliest = last.saturating_sub(bytes.len() as u64).next_multiple_of(PAGE);
    let pages = first.checked_sub(earliest)? / PAGE;
    let candidates = (0..=pages).map(|page| earliest + page * PAGE);
    let (count, base) = candidates.map(|base| (fits(base), base)).max()?;
    (count * 100 >= samples.len() * 95).then_some(base)
}

/// The address of the first of `bytes` at which the entries of the table lead to places that look alike.
fn base_by_table(bytes: &[u8], header: Header, names: &[Name]) -> Option<u64> {
    let first = names.iter().map(|name| name.address).min()?;
    let last = names.iter().map(|name| name.address).max()?;
    let data = Data { bytes, address: 0, size: header.word(), order: header.order() };
    let run = data.longest(first, last.saturating_add(PAGE))?;
    let candidates =
        (0..FARTHEST / PAGE).filter_map(|pages| (first & !(PAGE - 1)).checked_sub(pages * PAGE));
    let likeness = |base: &u64| table::likeness(bytes, *base, &run.words);
    let best =
        candidates.map(|base| (likeness(&base), std::cmp::Reverse(first - base), base)).max()?;
    (best.0 >= 80).then_some(best.2)
}

/// The address of the first of `bytes`, by what `names` call the banner, or else the first code.
fn base(bytes: &[u8], names: &[Name]) -> Option<u64> {
    let text = address_of(names, "_text");
    let Some(banner) = address_of(names, "linux_banner") else { return text };
    for start in memmem::find_iter(bytes, BANNER).take(BANNERS) {
        let base = banner.wrapping_sub(start as u64);
        let at = text.map_or(Some(0), |text| text.checked_sub(base));
        if at.is_some_and(|at| at < bytes.len() as u64) && base % PAGE == 0 {
            return Some(base);
        }
    }
    text
}

/// The relocations that only add the base: their places and values. They are a run of entries of 24 bytes, with
/// `kind` in each.
fn relocations(bytes: &[u8], kind: u64, header: Header) -> Vec<(u64, u64)> {
    let is_big = header.big_endian;
    let kind = if is_big { kind.to_be_bytes() } else { kind.to_le_bytes() };
    let mut found = Vec::new();
    let mut end = 0;
    for place in memmem::find_iter(bytes, &kind) {
        let Some(first) = place.checked_sub(8).filter(|first| first % 8 == 0 && *first >= end)
        else {
            continue;
        };
        let entries = bytes.get(first..).unwrap_or_default().chunks_exact(24);
        let run = entries.take_while(|entry| entry.get(8..16) == Some(&kind[..]));
        let run: Vec<_> = run
            .filter_map(|entry| Some((word(entry, 0, 8, is_big)?, word(entry, 16, 8, is_big)?)))
            .collect();
        end = first + run.len() * 24;
        if run.len() >= FEWEST {
            found.extend(run);
        }
    }
    found
}

/// The sections of an image of `size` bytes from `base` on: code, by the names of its bounds and of functions,
/// and what is between as data.
fn sections(names: &[Name], base: u64, size: u64) -> Vec<Section> {
    let end = base.saturating_add(size);
    let mut code: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
    let init = address_of(names, "_sinittext").or_else(|| start_of_init(names));
    for (name, first, last) in
        [(".text", address_of(names, "_stext"), "_etext"), (".init.text", init, "_einittext")]
    {
        if let (Some(first), Some(last)) = (first, address_of(names, last))
            && first < last
            && first >= base
            && last <= end
        {
            code.insert(first, (last, name));
        }
    }
    for (first, last) in stretches(names, end).into_iter().filter(|(first, _)| *first >= base) {
        let before = code.range(..=first).next_back();
        let is_inside = before.is_some_and(|(_, (end, _))| first < *end);
        let next = code.range(first..).next().map_or(end, |(next, _)| *next);
        if !is_inside && first < next {
            let is_head = code.values().all(|(last, _)| first < *last);
            let name = if is_head { ".head.text" } else { ".exit.text" };
            code.insert(first, (last.min(next), name));
        }
    }
    let mut sections = Vec::new();
    let mut at = base;
    let alloc = constants::SHF_ALLOC.0;
    let mut add = |name: &str, flags: u64, first: u64, last: u64| {
        if first < last {
            let (name, address) = (name.to_owned(), first);
            let offset = Some(first - base);
            sections.push(Section { name, flags, address, size: last - first, offset });
        }
    };
    for (first, (last, name)) in code {
        add(".data", alloc | constants::SHF_WRITE.0, at, first);
        add(name, alloc | constants::SHF_EXECINSTR.0, first, last);
        at = last;
    }
    add(".data", alloc | constants::SHF_WRITE.0, at, end);
    sections
}

/// Where the code begins that is freed after boot, if it follows the other code: at the page of the first function there. A table
/// of functions alone has no name of what is where `_etext` is (`symbol_valid` in scripts/kallsyms.c).
fn start_of_init(names: &[Name]) -> Option<u64> {
    let before = address_of(names, "_etext")?;
    let behind = names.iter().filter(|name| name.is_code()).map(|name| name.address);
    let first = behind.filter(|address| *address > before).min()?;
    Some((first & !(PAGE - 1)).max(before))
}

/// From each first function to what isn't one. `names` are in order of address.
fn stretches(names: &[Name], end: u64) -> Vec<(u64, u64)> {
    let mut stretches = Vec::new();
    let mut start = None;
    for name in names {
        match (start, name.is_code()) {
            (None, true) if name.address < end => start = Some(name.address),
            (Some(first), false) => {
                stretches.push((first, name.address.min(end)));
                start = None;
            }
            _ => {}
        }
    }
    stretches.extend(start.map(|first| (first, end)));
    stretches
}
