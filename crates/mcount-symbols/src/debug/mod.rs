//! Debug information: where it is, and what it says about addresses and functions.
//!
//! `gimli` and `addr2line` read DWARF. The DWARF of an object must be relocated first; that happens here.

pub mod functions;
pub mod lines;
pub mod separate;
pub mod units;

use crate::unpack;
use gimli::{EndianSlice, RunTimeEndian, SectionId};
use mcount::{Arithmetic, Step};
use object::read::elf::FileHeader;
use object::read::{
    CompressionFormat, File, Object, ObjectSection, ObjectSymbol, Relocation, RelocationKind,
    RelocationTarget,
};
use object::{ObjectKind, RelocationFlags, SectionFlags, SectionIndex};
use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;

/// The bytes of a section, relocated and decompressed.
pub type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// The debug sections of a file.
#[derive(Debug)]
pub struct Sections<'d> {
    bytes: gimli::DwarfSections<Cow<'d, [u8]>>,
    endian: RunTimeEndian,
    /// Where the sections of an object are placed. An image needs no places.
    places: Option<Places>,
}

/// The name and the address of each section, by index.
type Places = HashMap<usize, (Vec<u8>, u64)>;

/// The first section of an object is placed here, so that 0 isn't an address.
const FIRST_PLACE: u64 = 0x1_0000;

impl<'d> Sections<'d> {
    /// Whether `file` has debug sections.
    #[must_use]
    pub fn is_in(file: &[u8]) -> bool {
        File::parse(file)
            .is_ok_and(|file| file.section_by_name(SectionId::DebugInfo.name()).is_some())
    }

    /// The debug sections of the ELF file `file`. `None` if it has none that we can read.
    #[must_use]
    pub fn load(file: &'d [u8]) -> Option<Self> {
        let file = File::parse(file).ok()?;
        file.section_by_name(SectionId::DebugInfo.name())?;
        let places = (file.kind() == ObjectKind::Relocatable).then(|| places(&file));
        let bytes = gimli::DwarfSections::load(|id| {
            Ok::<_, Infallible>(load(&file, id, places.as_ref()).unwrap_or_default())
        });
        let Ok(bytes) = bytes;
        let endian =
            if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Some(Self { bytes, endian, places })
    }

    /// The sections, for `gimli`.
    #[must_use]
    pub fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        self.bytes.borrow(|bytes| EndianSlice::new(bytes, self.endian))
    }

    /// The address that the debug information has for byte `offset` of `section`, or for `address` in an
    /// image. `section` is its index and name, because the sections of a separate debug file may have
    /// other indices.
    #[must_use]
    pub fn address(
        &self,
        section: Option<(u32, &str)>,
        offset: Option<u64>,
        address: Option<u64>,
    ) -> Option<u64> {
        let Some(places) = &self.places else { return address };
        let (index, name) = section?;
        let start = match places.get(&(index as usize)) {
            Some((own, start)) if own == name.as_bytes() => *start,
            _ => {
                let mut named = places.values().filter(|(own, _)| own == name.as_bytes());
                // If there are several with this name, we don't know which one it is.
                named.next().filter(|_| named.next().is_none())?.1
            }
        };
        start.checked_add(offset?)
    }
}

/// An address for each loaded section of an object. In the object all sections begin at 0, so that one
/// address is in many functions.
fn places(file: &File<'_>) -> Places {
    let mut next = FIRST_PLACE;
    let mut places = HashMap::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if !sh_flags.contains(object::elf::SHF_ALLOC) {
            continue;
        }
        let name = section.name_bytes().unwrap_or_default().to_vec();
        places.insert(section.index().0, (name, next));
        next = next.saturating_add(section.size()).saturating_add(0x100) & !0xff;
    }
    places
}

/// The bytes of the debug section `id`, decompressed, and relocated if sections have `places`.
fn load<'d>(file: &File<'d>, id: SectionId, places: Option<&Places>) -> Option<Cow<'d, [u8]>> {
    let section = file.section_by_name(id.name())?;
    let data = section.compressed_data().ok()?;
    let bytes = match data.format {
        CompressionFormat::None => Cow::Borrowed(data.data),
        CompressionFormat::Zlib => {
            Cow::Owned(unpack::section(data.data, false, data.uncompressed_size)?)
        }
        CompressionFormat::Zstandard => {
            Cow::Owned(unpack::section(data.data, true, data.uncompressed_size)?)
        }
        _ => return None,
    };
    let Some(places) = places else { return Some(bytes) };
    let mut bytes = bytes.into_owned();
    let (arithmetic, addend_in_section) = mcount::debug_relocations(machine(file));
    let rules = Rules { file, places, arithmetic, addend_in_section };
    for (offset, relocation) in section.relocations() {
        // If one can't be applied, a number is wrong, and the rest is still useful.
        let _ = rules.apply(&mut bytes, offset, &relocation);
    }
    Some(Cow::Owned(bytes))
}

/// `e_machine`.
fn machine(file: &File<'_>) -> u16 {
    match file {
        File::Elf32(file) => file.elf_header().e_machine(file.endian()).0,
        File::Elf64(file) => file.elf_header().e_machine(file.endian()).0,
        _ => 0,
    }
}

/// The meaning of a file's relocations.
struct Rules<'f, 'd> {
    file: &'f File<'d>,
    places: &'f Places,
    arithmetic: &'static [Arithmetic],
    /// Whether the addend is in the section even if the relocation has a field for it.
    addend_in_section: bool,
}

impl Rules<'_, '_> {
    /// Applies `relocation` at `offset` of a section. `None` if it is of a kind that debug sections don't
    /// have.
    fn apply(&self, bytes: &mut [u8], offset: u64, relocation: &Relocation) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let target = self.target(relocation)?;
        let value = target.wrapping_add(relocation.addend().cast_unsigned());
        let little_endian = self.file.is_little_endian();
        if relocation.kind() == RelocationKind::Absolute {
            let size = usize::from(relocation.size() / 8);
            let field = bytes.get_mut(start..start.checked_add(size)?)?;
            let is_implicit = relocation.has_implicit_addend() || self.addend_in_section;
            let own = if is_implicit { number(field, little_endian) } else { 0 };
            store(field, value.wrapping_add(own), little_endian);
            return Some(());
        }
        let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
        let rule = self.arithmetic.iter().find(|rule| rule.kind == r_type.0)?;
        let Some(bits) = rule.bits else {
            return uleb128(bytes.get_mut(start..)?, rule.step, value);
        };
        let size = usize::from(bits).div_ceil(8);
        let field = bytes.get_mut(start..start.checked_add(size)?)?;
        let old = number(field, little_endian);
        let mask = u64::MAX >> (64 - bits);
        let new = computed(old, rule.step, value) & mask;
        store(field, old & !mask | new, little_endian);
        Some(())
    }

    /// The address of what `relocation` refers to.
    fn target(&self, relocation: &Relocation) -> Option<u64> {
        Some(match relocation.target() {
            RelocationTarget::Symbol(symbol) => {
                let symbol = self.file.symbol_by_index(symbol).ok()?;
                let place = symbol.section_index().map_or(0, |section| self.place(section));
                place.wrapping_add(symbol.address())
            }
            RelocationTarget::Section(section) => self.place(section),
            _ => 0,
        })
    }

    /// The address at which a section is placed; 0 if it isn't loaded.
    fn place(&self, section: SectionIndex) -> u64 {
        self.places.get(&section.0).map_or(0, |(_, start)| *start)
    }
}

fn computed(old: u64, step: Step, value: u64) -> u64 {
    match step {
        Step::Set => value,
        Step::Add => old.wrapping_add(value),
        Step::Subtract => old.wrapping_sub(value),
    }
}

/// Changes the ULEB128 number at the start of `bytes`, without changing its length.
fn uleb128(bytes: &mut [u8], step: Step, value: u64) -> Option<()> {
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let field = bytes.get_mut(..length)?;
    let old = field.iter().rev().fold(0, |old: u64, byte| old << 7 | u64::from(byte & 0x7f));
    let mut new = computed(old, step, value);
    for byte in field {
        let [low, ..] = new.to_le_bytes();
        *byte = *byte & 0x80 | low & 0x7f;
        new >>= 7;
    }
    Some(())
}

fn number(field: &[u8], little_endian: bool) -> u64 {
    let bytes = field.iter().copied();
    if little_endian { bytes.rev().fold(0, append) } else { bytes.fold(0, append) }
}

/// `value`, with `byte` after it.
fn append(value: u64, byte: u8) -> u64 {
    value << 8 | u64::from(byte)
}

fn store(field: &mut [u8], value: u64, little_endian: bool) {
    let bytes = value.to_le_bytes();
    let places: &mut dyn Iterator<Item = &mut u8> =
        if little_endian { &mut field.iter_mut() } else { &mut field.iter_mut().rev() };
    for (place, byte) in places.zip(bytes) {
        *place = byte;
    }
}
