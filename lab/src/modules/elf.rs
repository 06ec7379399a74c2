//! Reads what the comparison needs of a relocatable ELF file, with the `object` crate only.
//!
//! Independent of `crates/mcount` on purpose: what checks a program must not share its mistakes.
//! The result is plain data, the same for each class and byte order.

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Rel as _, Rela as _, SectionHeader as _, Sym as _};

use crate::Result;

/// The names of the hook symbols of all architectures.
const HOOKS: &[&str] = &["mcount", "_mcount", "__fentry__", "__gnu_mcount_nc", "._mcount"];

/// A place in an object: section index, then offset in bytes.
pub(crate) type Place = (usize, u64);

/// A section header and, unless it has none, its contents.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entry_size: u64,
    /// Where the contents are in the file: offset and size in bytes. Zero size for `SHT_NOBITS`.
    pub(crate) range: (usize, usize),
}

impl Section {
    /// Does it hold instructions?
    pub(crate) fn is_code(&self) -> bool {
        self.flags & elf::SHF_EXECINSTR.0 != 0
    }
}

/// A function symbol.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) place: Place,
    pub(crate) name: String,
}

/// A relocation against a hook symbol in a section that holds instructions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HookRelocation {
    pub(crate) place: Place,
    /// Of the three types that MIPS n64 packs: the first.
    pub(crate) kind: u32,
}

/// A table and how it is stored.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    /// In the order of the table.
    pub(crate) entries: Vec<Place>,
    /// The relocation type, the same for all entries.
    pub(crate) relocation: u32,
    /// What the table's and its relocations' section headers say.
    pub(crate) shape: String,
}

/// One object, read whole.
#[derive(Debug)]
pub(crate) struct Object<'data> {
    pub(crate) data: &'data [u8],
    pub(crate) machine: u16,
    pub(crate) is_64: bool,
    pub(crate) endian: Endianness,
    pub(crate) sections: Vec<Section>,
    /// Sorted by place.
    pub(crate) functions: Vec<Function>,
    /// In the order of the file: relocation sections, then relocations.
    pub(crate) hooks: Vec<HookRelocation>,
    /// Every place that some relocation changes, in sections that hold instructions. Sorted.
    pub(crate) relocated: Vec<Place>,
    /// `__mcount_loc`, when it is there.
    pub(crate) table: Option<Table>,
    /// `__patchable_function_entries`, when it is there.
    pub(crate) patchable: Option<Table>,
    /// Where the section header table is, and the size of one header, in bytes.
    pub(crate) headers: (usize, usize),
}

impl<'data> Object<'data> {
    /// Reads an object of any class and byte order.
    pub(crate) fn parse(data: &'data [u8]) -> Result<Self> {
        match object::FileKind::parse(data)? {
            object::FileKind::Elf32 => load::<FileHeader32<Endianness>>(data),
            object::FileKind::Elf64 => load::<FileHeader64<Endianness>>(data),
            other => Err(format!("not an ELF object: {other:?}").into()),
        }
    }

    /// The contents of a section; empty when there is none.
    pub(crate) fn contents(&self, section: usize) -> &'data [u8] {
        let range = self.sections.get(section).map_or((0, 0), |section| section.range);
        self.data.get(range.0..range.0.saturating_add(range.1)).unwrap_or_default()
    }

    /// `N` bytes at a place.
    pub(crate) fn bytes<const N: usize>(&self, place: Place) -> Option<[u8; N]> {
        let start = usize::try_from(place.1).ok()?;
        self.contents(place.0).get(start..start.checked_add(N)?)?.try_into().ok()
    }

    /// Four bytes at a place, in the data byte order of the file.
    pub(crate) fn word(&self, place: Place) -> Option<u32> {
        let bytes = self.bytes::<4>(place)?;
        Some(match self.endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        })
    }

    /// The name of a section.
    pub(crate) fn section_name(&self, section: usize) -> &str {
        self.sections.get(section).map_or("?", |section| section.name.as_str())
    }

    /// The last function symbol at or before a place, in the same section.
    pub(crate) fn function_before(&self, place: Place) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.place <= place);
        self.functions.get(after.checked_sub(1)?).filter(|function| function.place.0 == place.0)
    }
}

/// A relocation of any class, with or without addend.
struct Relocation {
    offset: u64,
    symbol: usize,
    kind: u32,
    addend: Option<i64>,
}

/// A symbol, without its name: section index and value.
type SymbolPlace = (usize, u64);

fn load<H: FileHeader<Endian = Endianness>>(data: &[u8]) -> Result<Object<'_>> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let table = header.sections(endian, data)?;
    let mut sections = Vec::with_capacity(table.len());
    for section in table.iter() {
        sections.push(load_section::<H>(endian, data, &table, section)?);
    }
    let mut object = Object {
        data,
        machine: header.e_machine(endian).0,
        is_64: header.is_class_64(),
        endian,
        sections,
        functions: Vec::new(),
        hooks: Vec::new(),
        relocated: Vec::new(),
        table: None,
        patchable: None,
        headers: (
            usize::try_from(header.e_shoff(endian).into())?,
            usize::from(header.e_shentsize(endian)),
        ),
    };
    let symbols = table.symbols(endian, data, elf::SHT_SYMTAB)?;
    let mut places = Vec::with_capacity(symbols.len());
    let mut is_hook = Vec::with_capacity(symbols.len());
    for symbol in symbols.iter() {
        let place = (usize::from(symbol.st_shndx(endian).0), symbol.st_value(endian).into());
        let name = str::from_utf8(symbol.name(endian, symbols.strings())?)?;
        places.push(place);
        is_hook.push(HOOKS.contains(&name));
        if symbol.st_type() == elf::STT_FUNC && place.0 != 0 {
            object.functions.push(Function { place, name: name.to_owned() });
        }
    }
    object.functions.sort_by(|a, b| (a.place, &a.name).cmp(&(b.place, &b.name)));
    load_relocations::<H>(&mut object, header, &table, &places, &is_hook)?;
    object.relocated.sort_unstable();
    Ok(object)
}

fn load_section<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    data: &[u8],
    table: &object::read::elf::SectionTable<'_, H>,
    section: &H::SectionHeader,
) -> Result<Section> {
    let range = match section.file_range(endian) {
        Some((offset, size)) => (usize::try_from(offset)?, usize::try_from(size)?),
        None => (0, 0),
    };
    if range.0.checked_add(range.1).is_none_or(|end| end > data.len()) {
        return Err("a section ends behind the end of the file".into());
    }
    Ok(Section {
        name: str::from_utf8(table.section_name(endian, section)?)?.to_owned(),
        kind: section.sh_type(endian).0,
        flags: section.sh_flags(endian).0,
        link: section.sh_link(endian),
        info: section.sh_info(endian),
        align: section.sh_addralign(endian).into(),
        entry_size: section.sh_entsize(endian).into(),
        range,
    })
}

fn load_relocations<H: FileHeader<Endian = Endianness>>(
    object: &mut Object<'_>,
    header: &H,
    table: &object::read::elf::SectionTable<'_, H>,
    places: &[SymbolPlace],
    is_hook: &[bool],
) -> Result<()> {
    for (index, section) in table.enumerate() {
        let target = section.sh_info(object.endian) as usize;
        let Some(wanted) = object.sections.get(target).cloned() else { continue };
        let is_table = matches!(&*wanted.name, "__mcount_loc" | "__patchable_function_entries");
        let is_relocations = section.sh_type(object.endian) == elf::SHT_REL
            || section.sh_type(object.endian) == elf::SHT_RELA;
        if !is_relocations || !(wanted.is_code() || is_table) {
            continue;
        }
        let list = relocations::<H>(object.endian, header, object.data, section)?;
        if is_table {
            let read = read_table(object, target, index.0, &list, places)?;
            let slot = if wanted.name == "__mcount_loc" {
                &mut object.table
            } else {
                &mut object.patchable
            };
            if slot.replace(read).is_some() {
                return Err(format!("two relocation sections for {}", wanted.name).into());
            }
            continue;
        }
        for relocation in list {
            let place = (target, relocation.offset);
            object.relocated.push(place);
            if is_hook.get(relocation.symbol) == Some(&true) {
                object.hooks.push(HookRelocation { place, kind: relocation.kind });
            }
        }
    }
    Ok(())
}

fn relocations<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    header: &H,
    data: &[u8],
    section: &H::SectionHeader,
) -> Result<Vec<Relocation>> {
    if let Some((list, _)) = section.rel(endian, data)? {
        return Ok(list
            .iter()
            .map(|rel| Relocation {
                offset: rel.r_offset(endian).into(),
                symbol: rel.r_sym(endian) as usize,
                kind: rel.r_type(endian).0,
                addend: None,
            })
            .collect());
    }
    let packed = header.is_mips64el(endian);
    // The first type is the low byte; object puts the others above it.
    let mask = if header.e_machine(endian) == elf::EM_MIPS { 0xff } else { u32::MAX };
    let list = section.rela(endian, data)?.map(|(list, _)| list).unwrap_or_default();
    Ok(list
        .iter()
        .map(|rela| Relocation {
            offset: rela.r_offset(endian).into(),
            symbol: rela.r_sym(endian, packed) as usize,
            kind: rela.r_type(endian, packed).0 & mask,
            addend: Some(rela.r_addend(endian).into()),
        })
        .collect())
}

/// Resolves every entry of a table to a place. Strict: one relocation a word, none missing, one
/// type.
fn read_table(
    object: &Object<'_>,
    section: usize,
    relocations_section: usize,
    list: &[Relocation],
    places: &[SymbolPlace],
) -> Result<Table> {
    let word = if object.is_64 { 8 } else { 4 };
    let size = object.contents(section).len();
    let mut slots: Vec<Option<Place>> = vec![None; size / word];
    let first = list.first().map_or(0, |relocation| relocation.kind);
    for relocation in list {
        let offset = usize::try_from(relocation.offset)?;
        let symbol = places.get(relocation.symbol).ok_or("a table relocation without symbol")?;
        let addend = match relocation.addend {
            Some(addend) => addend,
            None => {
                stored_addend(object, (section, relocation.offset)).ok_or("outside the table")?
            }
        };
        let value = symbol.1.wrapping_add_signed(addend);
        let slot = slots.get_mut(offset / word).filter(|_| offset % word == 0);
        let slot = slot.ok_or_else(|| format!("table relocation at a wrong offset {offset:#x}"))?;
        if relocation.kind != first || slot.replace((symbol.0, value)).is_some() {
            return Err(format!("odd table relocation at {offset:#x}").into());
        }
    }
    let entries: Option<Vec<Place>> = slots.into_iter().collect();
    let entries =
        entries.filter(|_| size.is_multiple_of(word)).ok_or("a table word without relocation")?;
    let shape = shape(object, section, relocations_section);
    Ok(Table { entries, relocation: first, shape })
}

/// The addend of a REL relocation, as the word says, with its sign.
fn stored_addend(object: &Object<'_>, place: Place) -> Option<i64> {
    if !object.is_64 {
        return Some(i64::from(object.word(place)?.cast_signed()));
    }
    let bytes = object.bytes::<8>(place)?;
    Some(match object.endian {
        Endianness::Little => i64::from_le_bytes(bytes),
        Endianness::Big => i64::from_be_bytes(bytes),
    })
}

/// The headers of a table and of its relocations, without what depends on the file.
fn shape(object: &Object<'_>, table: usize, relocations: usize) -> String {
    let one = |index: usize| {
        object.sections.get(index).map_or_else(String::new, |section| {
            let link = object.section_name(section.link as usize);
            format!(
                "{} type {} flags {:#x} align {} entsize {} link {link:?}",
                section.name, section.kind, section.flags, section.align, section.entry_size
            )
        })
    };
    format!("{}; {}", one(table), one(relocations))
}
