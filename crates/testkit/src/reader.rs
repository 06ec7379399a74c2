//! A second opinion on tables: reads one with the high-level half of `object`, which the library
//! under test does not use.

use crate::tiny_elf::{Field, get, header_fields, section_fields};
use object::read::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use object::{Architecture, File, RelocationFlags, SectionIndex, SymbolFlags};

/// Where a table entry leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the section.
    pub section: String,
    /// Index of the section.
    pub index: usize,
    /// Bytes from its start.
    pub offset: u64,
}

/// The entries of every section of `file` called `name`, in order.
///
/// # Errors
///
/// The file cannot be parsed, or an entry leads to no section.
pub fn table(file: &[u8], name: &str) -> Result<Vec<Place>, String> {
    let file = File::parse(file).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for section in file.sections().filter(|section| section.name() == Ok(name)) {
        let data = section.data().map_err(|error| error.to_string())?;
        let word = if file.is_64() { 8 } else { 4 };
        let mut slots = vec![None; data.len() / word];
        for (offset, relocation) in section.relocations() {
            let at = usize::try_from(offset).map_err(|error| error.to_string())?;
            let slot = slots.get_mut(at / word).ok_or("a relocation outside the table")?;
            let mut addend = relocation.addend();
            if relocation.has_implicit_addend() || file.architecture() == Architecture::SuperH {
                addend += in_place(data, at, word, file.is_little_endian());
            }
            *slot = Some(resolve(&file, relocation.target(), addend)?);
        }
        for (index, slot) in slots.into_iter().enumerate() {
            found.push(slot.ok_or(format!("entry {index} of {name} has no relocation"))?);
        }
    }
    Ok(found)
}

/// The number at `at` of `data`.
fn in_place(data: &[u8], at: usize, word: usize, little_endian: bool) -> i64 {
    let bytes = data.get(at..at + word).unwrap_or_default();
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value =
        if little_endian { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) };
    value.cast_signed()
}

fn resolve(file: &File<'_>, target: RelocationTarget, addend: i64) -> Result<Place, String> {
    let RelocationTarget::Symbol(index) = target else {
        return Err(format!("an entry refers to {target:?}"));
    };
    let symbol = file.symbol_by_index(index).map_err(|error| error.to_string())?;
    let section = symbol.section_index().ok_or("an entry refers to an undefined symbol")?;
    let name = section_name(file, section)?;
    let offset = symbol.address().wrapping_add_signed(addend);
    Ok(Place { section: name, index: section.0, offset })
}

fn section_name(file: &File<'_>, index: SectionIndex) -> Result<String, String> {
    let section = file.section_by_index(index).map_err(|error| error.to_string())?;
    section.name().map(str::to_owned).map_err(|error| error.to_string())
}

/// A section with its header, field by field as the gABI has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Index in the section header table.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `sh_type`.
    pub kind: u64,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_link`.
    pub link: u64,
    /// `sh_info`.
    pub info: u64,
    /// `sh_addralign`.
    pub alignment: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
    /// Its bytes; none where it has none in the file.
    pub data: Vec<u8>,
}

/// The sections of `file`, but for the null section.
///
/// # Errors
///
/// The file cannot be parsed.
pub fn sections(file: &[u8]) -> Result<Vec<Section>, String> {
    let parsed = File::parse(file).map_err(|error| error.to_string())?;
    let (is_64, big_endian) = (parsed.is_64(), !parsed.is_little_endian());
    let header = |name: &str| number(file, 0, &header_fields(is_64), name, big_endian);
    let (table, size) = (header("e_shoff"), header("e_shentsize"));
    let mut found = Vec::new();
    for section in parsed.sections() {
        let at = table.saturating_add(size.saturating_mul(section.index().0 as u64));
        let field = |name: &str| number(file, at, &section_fields(is_64), name, big_endian);
        found.push(Section {
            index: u32::try_from(section.index().0).map_err(|error| error.to_string())?,
            name: section.name().map_err(|error| error.to_string())?.to_owned(),
            kind: field("sh_type"),
            flags: field("sh_flags"),
            link: field("sh_link"),
            info: field("sh_info"),
            alignment: field("sh_addralign"),
            entry_size: field("sh_entsize"),
            data: section.data().map_err(|error| error.to_string())?.to_vec(),
        });
    }
    Ok(found)
}

/// The field `name` of the header at `at`.
fn number(file: &[u8], at: u64, fields: &[Field], name: &str, big_endian: bool) -> u64 {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let field = fields.iter().find(|field| field.name == name);
    field.map_or(0, |field| get(file, at.saturating_add(field.offset), field.size, big_endian))
}

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// `STT_*`.
    pub kind: u8,
    /// `STB_*`.
    pub binding: u8,
    /// The section that defines it; 0 if none does.
    pub section: u32,
    /// Bytes from the start of that section.
    pub value: u64,
}

/// The symbols of `file`, but for the null symbol.
///
/// # Errors
///
/// The file cannot be parsed.
pub fn symbols(file: &[u8]) -> Result<Vec<Symbol>, String> {
    let file = File::parse(file).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for symbol in file.symbols() {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            return Err("not an ELF symbol".to_owned());
        };
        let section = symbol.section_index().map_or(0, |index| index.0);
        let name = symbol.name_bytes().map_err(|error| error.to_string())?;
        found.push(Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: st_info.st_type().0,
            binding: st_info.st_bind().0,
            section: u32::try_from(section).map_err(|error| error.to_string())?,
            value: symbol.address(),
        });
    }
    Ok(found)
}

/// The relocations of every section of `file` called `name`: offset, type, index of the symbol (0
/// for none) and addend.
///
/// # Errors
///
/// The file cannot be parsed.
pub fn relocations(file: &[u8], name: &str) -> Result<Vec<(u64, u32, usize, i64)>, String> {
    let file = File::parse(file).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for section in file.sections().filter(|section| section.name() == Ok(name)) {
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                return Err("not an ELF relocation".to_owned());
            };
            let symbol = match relocation.target() {
                RelocationTarget::Symbol(index) => index.0,
                _ => 0,
            };
            found.push((offset, r_type.0, symbol, relocation.addend()));
        }
    }
    Ok(found)
}
