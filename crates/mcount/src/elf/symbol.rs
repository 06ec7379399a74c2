//! The symbol table: names, and where symbols are defined, with extended section indices.

use super::by_class::{ByClass, by_class};
use super::{Budget, View, bytes};
use crate::error::{ErrorKind, Result};
use object::elf::{self, Sym32, Sym64};
use object::read::elf::Sym;
use object::{BigEndian, Endian, Endianness, LittleEndian};

/// A symbol, decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    /// The offset of its name in the string table.
    pub(crate) name: u32,
    /// `STT_*`.
    pub(crate) kind: u8,
    /// `STB_*`.
    pub(crate) binding: u8,
    /// `st_other`.
    pub(crate) other: u8,
    /// The section that defines it; `None` if undefined, absolute or common.
    pub(crate) section: Option<u32>,
    /// Whether it is defined elsewhere.
    pub(crate) is_undefined: bool,
    /// Relative to the section in an object; an address in an image.
    pub(crate) value: u64,
    /// Its size in bytes.
    pub(crate) size: u64,
}

impl Symbol {
    pub(crate) fn is_section(&self) -> bool {
        self.kind == elf::STT_SECTION.0
    }

    pub(crate) fn is_function(&self) -> bool {
        self.kind == elf::STT_FUNC.0 || self.kind == elf::STT_GNU_IFUNC.0
    }

    pub(crate) fn is_untyped(&self) -> bool {
        self.kind == elf::STT_NOTYPE.0
    }

    pub(crate) fn is_local(&self) -> bool {
        self.binding == elf::STB_LOCAL.0
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.binding == elf::STB_WEAK.0
    }
}

type SymbolTable<'d> =
    ByClass<'d, Sym32<LittleEndian>, Sym32<BigEndian>, Sym64<LittleEndian>, Sym64<BigEndian>>;

/// The symbol table of a file.
pub(crate) struct Symbols<'d> {
    endian: Endianness,
    /// The index of the section that holds the table.
    pub(crate) section: u32,
    /// The index of the section that holds its strings.
    pub(crate) strings_section: u32,
    /// `sh_info`: the index of the first symbol that is not local.
    pub(crate) first_global: u32,
    entries: SymbolTable<'d>,
    strings: &'d [u8],
    /// The index and the bytes of the `SHT_SYMTAB_SHNDX` section, if there is one.
    extended: Option<(u32, &'d [u8])>,
    budget: Budget,
}

impl<'d> Symbols<'d> {
    /// The symbol table of `view`, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// There are two, or the table or its string table is malformed.
    pub(crate) fn read(view: &View<'d>) -> Result<Option<Self>> {
        Self::read_kind(view, elf::SHT_SYMTAB.0)
    }

    /// The dynamic symbol table of `view`, as [`Symbols::read`].
    pub(crate) fn read_dynamic(view: &View<'d>) -> Result<Option<Self>> {
        Self::read_kind(view, elf::SHT_DYNSYM.0)
    }

    fn read_kind(view: &View<'d>, kind: u32) -> Result<Option<Self>> {
        let mut tables = (0u32..).zip(view.sections()).filter(|(_, s)| s.kind == kind);
        let Some((index, section)) = tables.next() else { return Ok(None) };
        if let Some((second, _)) = tables.next() {
            let kind = ErrorKind::Malformed("a second symbol table");
            return Err(view.section_error(second, kind));
        }
        let entries: SymbolTable<'d> = view.table(index, section)?;
        let count = by_class!(&entries, list => list.len());
        let strings = view.string_table(section.link)?;
        // The null symbol is local, so a table that isn't empty has at least one local symbol.
        let info = section.info as usize;
        if info > count || (info == 0 && count != 0) {
            let kind = ErrorKind::Malformed("sh_info is not the index of a symbol");
            return Err(view.section_error(index, kind));
        }
        let extended = (0u32..)
            .zip(view.sections())
            .find(|(_, s)| s.kind == elf::SHT_SYMTAB_SHNDX.0 && s.link == index)
            .map(|(at, s)| (at, view.bytes_of(s)));
        Ok(Some(Self {
            endian: view.endian,
            section: index,
            strings_section: section.link,
            first_global: section.info,
            entries,
            strings,
            extended,
            budget: view.budget.clone(),
        }))
    }

    /// The number of symbols, including the null symbol.
    pub(crate) fn count(&self) -> u32 {
        bytes::index(by_class!(&self.entries, list => list.len()))
    }

    /// The string table.
    pub(crate) fn strings(&self) -> &'d [u8] {
        self.strings
    }

    /// The index of the `SHT_SYMTAB_SHNDX` section, if there is one.
    pub(crate) fn extended_section(&self) -> Option<u32> {
        self.extended.map(|(index, _)| index)
    }

    /// Symbol `index`, or `None` if there is no such symbol.
    pub(crate) fn get(&self, index: u32) -> Option<Symbol> {
        by_class!(self.entries, list => list.get(index as usize).map(|entry| self.decode(index, entry)))
    }

    /// All symbols with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Symbol)> + use<'_, 'd> {
        (0..self.count()).filter_map(|index| Some((index, self.get(index)?)))
    }

    /// The index and `st_name` of every symbol, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u32, u32)> + use<'_, 'd> {
        let name =
            |index: u32| by_class!(self.entries, list => list.get(index as usize).map(name_of));
        (0..self.count()).filter_map(move |index| Some((index, name(index)?)))
    }

    /// The name of `symbol`.
    pub(crate) fn name(&self, symbol: &Symbol) -> &'d [u8] {
        self.budget.name(|| bytes::string(self.strings, symbol.name))
    }

    /// The symbols called one of `names`, possibly with a version behind an `@`, in order, each with the
    /// position of its name in `names`.
    ///
    /// We search the string table instead of reading each name, because most symbols have other names.
    pub(crate) fn called(&self, names: &[&[u8]]) -> Vec<(u32, u32)> {
        let mut places = Vec::new();
        for (position, name) in (0u32..).zip(names).filter(|(_, name)| !name.is_empty()) {
            // A name may be the tail of another: `mcount` inside `_mcount`.
            for start in bytes::find_all(self.strings, name) {
                let end = self.strings.get(start + name.len());
                if end.is_none_or(|end| [0, b'@'].contains(end)) {
                    places.extend(u32::try_from(start).map(|start| (start, position)));
                }
            }
        }
        places.sort_unstable();
        let (Some((first, _)), Some((last, _))) = (places.first(), places.last()) else {
            return Vec::new();
        };
        let near = self.names().filter(|(_, name)| (first..=last).contains(&name));
        let called = near.filter_map(|(index, name)| {
            let at = places.binary_search_by_key(&name, |place| place.0).ok()?;
            Some((index, places.get(at)?.1))
        });
        called.collect()
    }

    /// The first two bytes of the name of `symbol`, which tell what kind of name it is. This is faster
    /// than reading the whole name. A shorter name has fewer bytes.
    pub(crate) fn name_start(&self, symbol: &Symbol) -> &'d [u8] {
        let rest = self.strings.get(symbol.name as usize..).unwrap_or_default();
        match rest {
            [] | [0, ..] => &[],
            [one, 0, ..] => std::slice::from_ref(one),
            _ => rest.get(..2).unwrap_or(rest),
        }
    }

    fn decode<S: Sym>(&self, index: u32, entry: &S) -> Symbol {
        let e = S::Endian::default();
        Symbol {
            name: entry.st_name(e),
            kind: entry.st_type().0,
            binding: entry.st_bind().0,
            other: entry.st_other().0,
            section: self.defining_section(index, entry.st_shndx(e)),
            is_undefined: entry.st_shndx(e) == elf::SHN_UNDEF,
            value: entry.st_value(e).into(),
            size: entry.st_size(e).into(),
        }
    }

    fn defining_section(&self, index: u32, shndx: elf::SymbolSection) -> Option<u32> {
        if shndx != elf::SHN_XINDEX {
            return shndx.index().map(u32::from);
        }
        let (_, table) = self.extended?;
        let entry = bytes::range(table, u64::from(index) * 4, 4)?.try_into().ok()?;
        Some(self.endian.read_u32(entry)).filter(|section| *section != 0)
    }
}

/// `st_name`
fn name_of<S: Sym>(entry: &S) -> u32 {
    entry.st_name(S::Endian::default())
}
