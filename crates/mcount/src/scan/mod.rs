//! Finding sites. Here `elf`, which knows files, meets `arch`, which knows processors.
//!
//! A [`Target`] is a file whose processor is known. In an object, [`calls`] finds the calls of the hook
//! by their relocations, [`patchable`] finds the areas that the compiler listed, and [`nops`] finds calls
//! that became NOPs. In a linked image, [`image`] does all that without relocations. [`functions`] says
//! which function is at a place.

pub(crate) mod bare;
pub(crate) mod calls;
pub(crate) mod functions;
pub(crate) mod image;
pub(crate) mod nops;
pub(crate) mod patchable;
pub(crate) mod sections;
pub(crate) mod source_files;

use crate::arch::{self, Arch, Code};
use crate::elf::loaded::{self, Loader};
use crate::elf::{Relocations, Section, Symbols, View};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Whether `view` is of a linked image.
pub(crate) fn is_image(view: &View<'_>) -> bool {
    matches!(view.file_type(), ET_EXEC | ET_DYN)
}

/// The processor of `view`.
fn known(view: &View<'_>) -> Result<&'static Arch> {
    arch::find(view.machine(), view.word()).map_err(|known| {
        Error::new(match known {
            Some(machine) => {
                ErrorKind::UnsupportedClass { machine, bits: if view.is_64() { 64 } else { 32 } }
            }
            None => ErrorKind::UnknownMachine(view.machine()),
        })
    })
}

/// The kind of a file.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    /// The name of its processor.
    pub(crate) machine: &'static str,
    /// 32 or 64.
    pub(crate) bits: u8,
    pub(crate) big_endian: bool,
    pub(crate) is_image: bool,
}

/// The kind of the file of `view`.
///
/// # Errors
///
/// It is neither an object nor an image, or of no known processor.
pub(crate) fn identify(view: &View<'_>) -> Result<Identity> {
    let is_image = is_image(view);
    let arch = known(view)?;
    if !is_image && view.file_type() != ET_REL {
        return Err(Error::new(ErrorKind::NotAnObject(view.file_type())));
    }
    let bits = if view.is_64() { 64 } else { 32 };
    Ok(Identity { machine: arch.name, bits, big_endian: view.is_big_endian(), is_image })
}

/// A file of a known processor.
pub(crate) struct Target<'v, 'd> {
    pub(crate) view: &'v View<'d>,
    pub(crate) arch: &'static Arch,
    pub(crate) symbols: Option<Symbols<'d>>,
    /// Whether these are the symbols that the loader needs, because the file has no others.
    pub(crate) symbols_are_dynamic: bool,
    /// Whether it is an image. Then symbol values are addresses, not offsets in sections.
    pub(crate) is_image: bool,
    /// What loading does to an image.
    pub(crate) loader: Loader<'d>,
}

/// `e_type` of an object, and of images.
const ET_REL: u16 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

impl<'v, 'd> Target<'v, 'd> {
    /// The object `view`.
    ///
    /// # Errors
    ///
    /// It isn't an object, its processor is unknown, or its symbol table is malformed.
    pub(crate) fn new(view: &'v View<'d>) -> Result<Self> {
        let arch = known(view)?;
        if view.file_type() != ET_REL {
            return Err(Error::new(ErrorKind::NotAnObject(view.file_type())));
        }
        let loader =
            Loader { relative: &[], address: None, other_addresses: [&[], &[]], symbols: None };
        let symbols = Symbols::read(view)?;
        Ok(Self { view, arch, symbols, symbols_are_dynamic: false, is_image: false, loader })
    }

    /// The image `view`. If it has no other symbols, it has the dynamic ones.
    ///
    /// # Errors
    ///
    /// It isn't an image, its processor is unknown, or its symbol table is malformed.
    pub(crate) fn image(view: &'v View<'d>) -> Result<Self> {
        let arch = known(view)?;
        if !is_image(view) {
            return Err(Error::new(ErrorKind::NotAnImage(view.file_type())));
        }
        loaded::check(view)?;
        let (symbols, symbols_are_dynamic) = match Symbols::read(view)? {
            Some(symbols) => (Some(symbols), false),
            None => (Symbols::read_dynamic(view)?, true),
        };
        let loader = Loader {
            relative: arch.decode.map_or(&[], |decode| decode.relative),
            address: arch.address(view.word()),
            other_addresses: [arch.unaligned_addresses, arch.loaded_addresses],
            symbols: Symbols::read_dynamic(view)?,
        };
        Ok(Self { view, arch, symbols, symbols_are_dynamic, is_image: true, loader })
    }

    /// The object or image `view`.
    ///
    /// # Errors
    ///
    /// As [`Target::new`] and [`Target::image`].
    pub(crate) fn of(view: &'v View<'d>) -> Result<Self> {
        if is_image(view) { Self::image(view) } else { Self::new(view) }
    }

    /// The name of symbol `index`; empty if there is no such symbol.
    pub(crate) fn symbol_name(&self, index: u32) -> &'d [u8] {
        let symbols = self.symbols.as_ref();
        symbols.and_then(|all| Some(all.name(&all.get(index)?))).unwrap_or_default()
    }

    /// Whether every function has a symbol, because the file isn't stripped.
    pub(crate) fn has_all_symbols(&self) -> bool {
        let symbols = self.symbols.as_ref();
        let header = symbols.and_then(|symbols| self.view.section(symbols.section).ok());
        header.is_some_and(|header| header.kind == object::elf::SHT_SYMTAB.0)
    }

    /// The base of the values of symbols in `section`: the address of the section in an image.
    pub(crate) fn base(&self, section: &Section) -> u64 {
        if self.is_image { section.address } else { 0 }
    }

    /// The address and size in bytes of the table of an image. In a kernel, it is between two symbols.
    /// Otherwise it is the section called `name`.
    pub(crate) fn table_range(&self, name: &[u8]) -> Option<(u64, u64)> {
        let mut sections = (0u32..).zip(self.view.sections());
        let section = sections
            .find(|(index, section)| section.has_bytes() && self.view.is_called(*index, name))
            .map(|(_, section)| (section.address, section.size));
        // A kernel's linker script puts the table among other data.
        let bounds =
            if name == crate::site::TABLE_SECTION.as_bytes() { self.table_bounds() } else { None };
        bounds.or(section)
    }

    fn table_bounds(&self) -> Option<(u64, u64)> {
        let symbols = self.symbols.as_ref()?;
        let (mut start, mut stop) = (None, None);
        for (index, name) in symbols.called(&[b"__start_mcount_loc", b"__stop_mcount_loc"]) {
            let symbol = symbols.get(index).filter(|symbol| symbol.section.is_some());
            let bound = if name == 0 { &mut start } else { &mut stop };
            *bound = symbol.map(|symbol| symbol.value).or(*bound);
        }
        Some((start?, stop?.checked_sub(start?)?))
    }

    /// The instructions in section `index`.
    pub(crate) fn code(&self, index: u32) -> Result<Code<'d>> {
        let bytes = self.view.section_data(index)?;
        Ok(self.arch.code(bytes, self.view.is_big_endian(), self.view.flags()))
    }

    /// Where the hook is that an entry for `offset` of section `index` is meant for. It is after the function's global
    /// entry if the entry leads to that.
    pub(crate) fn behind_global_entry(&self, index: u32, offset: u64) -> u64 {
        if self.arch.global_entry.is_none() {
            return offset;
        }
        let size = self.code(index).map(|code| self.arch.global_entry_before_nops(code, offset));
        offset.saturating_add(size.unwrap_or(0))
    }

    /// The address of the hook that an entry of a table or list of this image is meant for.
    pub(crate) fn address_of_hook(&self, entry: u64) -> u64 {
        let section = self.arch.global_entry.and_then(|_| self.view.section_at(entry));
        let Some((index, section)) = section.filter(|(_, section)| section.is_code()) else {
            return entry;
        };
        let offset = entry.wrapping_sub(section.address);
        section.address.wrapping_add(self.behind_global_entry(index, offset))
    }

    /// The relocations in section `index`, whose header is `section`.
    ///
    /// # Errors
    ///
    /// They are malformed, or refer to a symbol table that isn't the file's.
    pub(crate) fn relocations(&self, index: u32, section: &Section) -> Result<Relocations<'d>> {
        // No assembler makes it, and none of two other readers reads it correctly.
        if self.view.has_mips64el_info() && section.kind == object::elf::SHT_REL.0 {
            let kind = ErrorKind::Unsupported("REL in a little-endian MIPS n64 object");
            return Err(self.view.section_error(index, kind));
        }
        if self.symbols.as_ref().is_none_or(|symbols| symbols.section != section.link) {
            let kind = ErrorKind::Malformed("sh_link is not the symbol table");
            return Err(self.view.section_error(index, kind));
        }
        Relocations::read(self.view, index, section)
    }

    /// The relocation sections that apply to code, with the section that each applies to.
    ///
    /// # Errors
    ///
    /// A relocation section applies to no section of the file.
    pub(crate) fn code_relocations(&self) -> Result<Vec<(u32, Section, u32)>> {
        let mut found = Vec::new();
        for (index, section) in (0u32..).zip(self.view.sections()) {
            if section.is_relocations() {
                let kind = ErrorKind::Malformed("sh_info names no section");
                let target = self.view.section(section.info);
                let target = target.map_err(|_| self.view.section_error(index, kind))?;
                if target.is_code() && section.size != 0 {
                    found.push((index, *section, section.info));
                }
            } else if section.kind == object::elf::SHT_CREL.0 {
                let kind = ErrorKind::Unsupported("CREL relocations");
                return Err(self.view.section_error(index, kind));
            }
        }
        Ok(found)
    }

    /// The section group of each section that is in one.
    ///
    /// # Errors
    ///
    /// A group's size isn't a multiple of 4.
    pub(crate) fn groups(&self) -> Result<HashMap<u32, u32>> {
        let view = self.view;
        let mut groups = HashMap::new();
        for (index, section) in (0u32..).zip(view.sections()) {
            if section.kind != object::elf::SHT_GROUP.0 {
                continue;
            }
            let body = view.bytes_of(section);
            if !body.len().is_multiple_of(4) || body.is_empty() {
                let kind = ErrorKind::Malformed("the size of the group is no multiple of 4");
                return Err(view.section_error(index, kind));
            }
            for member in body.chunks_exact(4).skip(1) {
                let member: [u8; 4] = member.try_into().unwrap_or_default();
                let big = view.is_big_endian();
                let member =
                    if big { u32::from_be_bytes(member) } else { u32::from_le_bytes(member) };
                groups.insert(member, index);
            }
        }
        Ok(groups)
    }
}
