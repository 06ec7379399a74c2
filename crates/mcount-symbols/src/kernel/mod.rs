//! Kernels without symbols, as they are installed: names from `System.map`, or from the tables inside the
//! image with which the kernel itself prints names (kallsyms).
//!
//! An ELF image gets a symbol table. What some processors boot is no ELF: from that, and the names, a new ELF
//! file is made in memory, so that everything else reads it like any other kernel.

mod elf;
mod kallsyms;
mod raw;
mod system_map;
mod table;
mod words;

use self::elf::{Header, Image, Section};
use self::kallsyms::{Base, Missing};
use self::table::Data;
use self::words::Order;
use mcount::Options;
use object::read::{File, Object, ObjectSection};
use object::{FileFlags, SectionFlags, SectionKind, elf as constants};
pub(crate) use raw::rebuild;
use std::collections::HashMap;
pub(crate) use system_map::parse as parse_system_map;

/// A name and what it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) address: u64,
    /// The letter that nm prints: `t` for code, in upper case if it is global; `w` or `W` if it is weak.
    pub(crate) letter: u8,
    /// Its size in bytes; 0 if it isn't known.
    pub(crate) size: u64,
}

impl Name {
    fn is_code(&self) -> bool {
        matches!(self.letter, b't' | b'T' | b'w' | b'W')
    }
}

/// The address of what `names` call `text`.
fn address_of(names: &[Name], text: &str) -> Option<u64> {
    names.iter().find(|name| name.text == text).map(|name| name.address)
}

/// The ELF image `image` with `names` as its symbols, or else with the names in it. `None` if it has none.
pub(crate) fn with_names(image: &[u8], names: Option<Vec<Name>>) -> Option<Vec<u8>> {
    let file = File::parse(image).ok()?;
    let mut names = match names {
        Some(names) => names,
        None => in_elf(&file)?,
    };
    names.extend(bounds(&file, &names));
    let sections = file.sections().filter_map(|section| {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
        let is_loaded = sh_flags.0 & constants::SHF_ALLOC.0 != 0;
        is_loaded.then(|| Section {
            name: section.name().unwrap_or_default().to_owned(),
            flags: sh_flags.0,
            address: section.address(),
            size: section.size(),
            offset: None,
        })
    });
    let FileFlags::Elf { e_flags, .. } = file.flags() else { return None };
    let header = Header {
        machine: machine(image)?,
        is_64: file.is_64(),
        big_endian: !file.is_little_endian(),
        flags: e_flags.0,
    };
    let mut symbols = Image { header, body: Vec::new(), sections: sections.collect(), names };
    let without_sizes = mcount::with_symbols(image, &symbols.build()?).ok()??;
    set_sizes(&mut symbols.names, &without_sizes);
    mcount::with_symbols(image, &symbols.build()?).ok()?
}

/// How far behind its start a function may have its hook, in bytes.
const FARTHEST_HOOK: i64 = 32;

/// Bytes of a page: what kernels and their images are aligned to.
const PAGE: u64 = 4096;

/// Sets the sizes of functions that reach too far. Names have no sizes, so a function reaches up to the next
/// one. If it has a hook further in, that is of another function, which has no name because another definition
/// overrode it. `image` has `names`.
fn set_sizes(names: &mut [Name], image: &[u8]) {
    let Ok(found) = mcount::scan(image, &Options::default()) else { return };
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    let mut last = None;
    for site in &found.sites {
        let (Some(address), Some(distance)) = (site.address, site.symbol_offset) else { continue };
        let start = address.wrapping_sub(distance.cast_unsigned());
        let is_own = distance <= FARTHEST_HOOK && last != Some(start);
        last = Some(start);
        if !is_own {
            sizes.entry(start).or_insert(distance.cast_unsigned());
        }
    }
    // If that is so of many, hooks are before their functions, and this tells nothing.
    if sizes.len() * 4 > found.sites.len() {
        return;
    }
    for name in names {
        name.size = sizes.get(&name.address).copied().filter(|_| name.is_code()).unwrap_or(0);
    }
}

/// The names in an ELF image: in the section that has the tables.
fn in_elf(file: &File<'_>) -> Option<Vec<Name>> {
    let word = if file.is_64() { 8 } else { 4 };
    for section in file.sections() {
        if matches!(section.kind(), SectionKind::Text | SectionKind::UninitializedData) {
            continue;
        }
        let Some(Ok(tables)) = section.data().ok().map(|data| kallsyms::find(data, word)) else {
            continue;
        };
        let base = match tables.base {
            Base::Zero => 0,
            Base::Image => section.address(),
            // The loader writes the base, or the kernel itself does.
            Base::Word { at, value: 0 } => {
                relocated(file, section.address().checked_add(at as u64)?)?
            }
            Base::Word { value, .. } => value,
        };
        return Some(tables.names(base));
    }
    None
}

/// Whether `image`, ELF or not, has tables of names, in a form that isn't known here.
pub(crate) fn has_unknown_names(image: &[u8]) -> bool {
    [4, 8].iter().all(|size| kallsyms::find(image, *size).err() == Some(Missing::UnknownForm))
}

/// The names of the bounds of the table, if `names` don't have them.
fn bounds(file: &File<'_>, names: &[Name]) -> Vec<Name> {
    let size = if file.is_64() { 8 } else { 4 };
    let order = if file.is_little_endian() { Order::Little } else { Order::Big };
    let mut code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let code = code.next().and_then(|code| Some((code.address(), code.data().ok()?)));
    let Some((base, code)) = code else { return Vec::new() };
    let data = file.sections().filter(|section| {
        !matches!(section.kind(), SectionKind::Text | SectionKind::UninitializedData)
    });
    let found = data.filter_map(|section| {
        let data = Data { bytes: section.data().ok()?, address: section.address(), size, order };
        let bounds = table::bounds(data, code, base, names);
        let [first, last] = bounds.as_slice() else { return None };
        Some((last.address.checked_sub(first.address)?, bounds))
    });
    found.max_by_key(|(size, _)| *size).map(|(_, bounds)| bounds).unwrap_or_default()
}

/// The value that a relocation gives the word at `place`.
fn relocated(file: &File<'_>, place: u64) -> Option<u64> {
    let is_big = !file.is_little_endian();
    for section in file.sections().filter(|_| file.is_64()) {
        let SectionFlags::Elf { .. } = section.flags() else { continue };
        if !section.name().is_ok_and(|name| name.starts_with(".rela")) {
            continue;
        }
        let data = section.data().unwrap_or_default();
        for entry in data.chunks_exact(24) {
            if words::word(entry, 0, 8, is_big) == Some(place) {
                return words::word(entry, 16, 8, is_big);
            }
        }
    }
    None
}

/// `e_machine` of `image`.
fn machine(image: &[u8]) -> Option<u16> {
    let is_big = *image.get(5)? == 2;
    let field = *image.get(18..)?.first_chunk::<2>()?;
    Some(if is_big { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) })
}
