//! The table of an object: `__mcount_loc`, the list of recorded addresses.

pub(crate) mod encode;
pub(crate) mod right;
pub(crate) mod sleds;
pub(crate) mod split;
pub(crate) mod write;

use crate::elf::{Relocations, Section, Symbol, loaded};
use crate::error::{ErrorKind, Result};
use crate::scan::{Target, patchable};
use crate::site::PATCHABLE_SECTION;
use object::elf;

/// One entry of a table in an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The section and offset that it leads to; `None` if that is in no section of this file.
    pub(crate) place: Option<(u32, u64)>,
    /// Whether the linker will make it just an address, without an instruction-set bit.
    pub(crate) is_plain: bool,
    /// Whether it stays right when the linker deletes code: it refers to a local label, without a
    /// distance.
    pub(crate) relaxation_proof: bool,
    /// Whether its symbol is the same after the link: no other file defines or overrides it.
    pub(crate) is_firm: bool,
    /// Its bytes in the section.
    pub(crate) raw: u64,
    /// Where it is: the section of the table, and bytes from its start.
    pub(crate) slot: (u32, u64),
    /// The symbol that it refers to, and the distance from there.
    pub(crate) base: Option<(u32, i64)>,
}

/// A section that has a table or a part of one, and the relocation sections that apply to it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) index: u32,
    pub(crate) header: Section,
    pub(crate) lists: Vec<(u32, Section)>,
    /// It's a compiler's list of patchable entries.
    pub(crate) is_list: bool,
}

impl Part {
    /// The section of code that it is linked to (`SHF_LINK_ORDER`).
    pub(crate) fn link(&self) -> Option<u32> {
        let is_ordered = self.header.flags & elf::SHF_LINK_ORDER.0 != 0;
        (is_ordered && self.header.link != 0).then_some(self.header.link)
    }

    /// Whether it is loaded writable.
    pub(crate) fn is_writable(&self) -> bool {
        self.header.flags & elf::SHF_WRITE.0 != 0
    }
}

/// Whether `target` has a section called `name`.
pub(crate) fn is_there(target: &Target<'_, '_>, name: &[u8]) -> bool {
    sections(target, name).next().is_some()
}

/// The sections of `target` that are called `name`.
fn sections<'a>(
    target: &'a Target<'_, '_>,
    name: &'a [u8],
) -> impl Iterator<Item = (u32, Section)> + use<'a> {
    let all = (0u32..).zip(target.view.sections()).filter(move |(index, section)| {
        section.has_bytes() && !section.is_relocations() && target.view.is_called(*index, name)
    });
    all.map(|(index, section)| (index, *section))
}

/// Does every word of `part` lead to NOPs in code?
fn leads_to_nops(target: &Target<'_, '_>, part: &Part) -> bool {
    let Ok(entries) = entries(target, std::slice::from_ref(part)) else { return false };
    let is_nop = |entry: &Entry| {
        entry.place.is_some_and(|(section, at)| {
            let is_code = target.view.section(section).is_ok_and(|section| section.is_code());
            let code = target.code(section).ok().filter(|_| is_code);
            code.is_some_and(|code| target.arch.nop_run(code, at, code.len()) != 0)
        })
    };
    !entries.is_empty() && entries.iter().all(is_nop)
}

/// The parts of the table of `target` that is called `name`, in file order. Lists of patchable entries are also known by what
/// they are.
pub(crate) fn parts(target: &Target<'_, '_>, name: &[u8]) -> Vec<Part> {
    let is_list = name == PATCHABLE_SECTION.as_bytes();
    let mut tables: Vec<_> = sections(target, name).collect();
    if is_list && !target.is_image {
        tables.extend(patchable::other_lists(target));
        tables.sort_by_key(|(index, _)| *index);
    }
    let mut tables = tables.into_iter().peekable();
    if tables.peek().is_none() {
        return Vec::new();
    }
    let mut relocations: Vec<_> =
        (0u32..).zip(target.view.sections()).filter(|(_, s)| s.is_relocations()).collect();
    relocations.sort_by_key(|(_, header)| header.info);
    let parts = tables.map(|(index, header)| {
        let start = relocations.partition_point(|(_, list)| list.info < index);
        let lists = relocations.iter().skip(start).take_while(|(_, list)| list.info == index);
        Part { index, header, lists: lists.map(|(at, list)| (*at, **list)).collect(), is_list }
    });
    let is_it =
        |part: &Part| target.view.is_called(part.index, name) || leads_to_nops(target, part);
    parts.filter(is_it).collect()
}

/// The entries of all sections of `target` that are called `name`, in file order.
///
/// # Errors
///
/// A table's size isn't a multiple of the size of an address, or its relocations are malformed.
pub(crate) fn read(target: &Target<'_, '_>, name: &[u8]) -> Result<Vec<Entry>> {
    entries(target, &parts(target, name))
}

/// The entries of `parts`, in their order.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn entries(target: &Target<'_, '_>, parts: &[Part]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for part in parts {
        let first = entries.len();
        read_raw(target, part.index, &part.header, &mut entries)?;
        let slots = entries.get_mut(first..).unwrap_or_default();
        for (at, list) in &part.lists {
            resolve(target, *at, &target.relocations(*at, list)?, slots)?;
        }
        if part.is_list {
            for entry in slots {
                entry.place = entry.place.map(|(section, at)| {
                    (section, target.behind_global_entry(section, target.arch.listed(at)))
                });
                entry.is_plain = true;
            }
        }
    }
    Ok(entries)
}

/// Appends the words of the table in section `index`, as entries that don't lead anywhere yet.
fn read_raw(
    target: &Target<'_, '_>,
    index: u32,
    section: &Section,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let word = target.view.word();
    let bytes = target.view.bytes_of(section);
    if !(bytes.len() as u64).is_multiple_of(word) {
        let kind = ErrorKind::Malformed("the size of the table is no multiple of an address");
        return Err(target.view.section_error(index, kind));
    }
    let slots = (0u64..).zip(loaded::in_bytes(target.view, bytes));
    entries.extend(slots.map(|(slot, raw)| Entry {
        place: None,
        is_plain: true,
        relaxation_proof: false,
        is_firm: true,
        raw,
        slot: (index, slot * word),
        base: None,
    }));
    Ok(())
}

/// Finds out where entries lead, by the relocations in section `index`.
fn resolve(
    target: &Target<'_, '_>,
    index: u32,
    relocations: &Relocations<'_>,
    slots: &mut [Entry],
) -> Result<()> {
    let word = target.view.word();
    // Most entries refer to the same symbol as the one before.
    let mut last: Option<(u32, Symbol)> = None;
    for relocation in relocations.iter() {
        let kind = relocation.kind & target.arch.type_mask;
        let is_address = Some(kind) == target.arch.address(word)
            || target.arch.unaligned_addresses.contains(&kind);
        if !is_address || relocation.offset % word != 0 {
            continue;
        }
        let slot = usize::try_from(relocation.offset / word).ok().and_then(|i| slots.get_mut(i));
        let Some(slot) = slot else {
            let kind = ErrorKind::Malformed("a relocation lies outside its section");
            return Err(target.view.offset_error(index, relocation.offset, kind));
        };
        let known = last.filter(|(known, _)| *known == relocation.symbol).or_else(|| {
            let symbol = target.symbols.as_ref()?.get(relocation.symbol)?;
            Some((relocation.symbol, symbol))
        });
        let Some((_, symbol)) = known else {
            let kind = ErrorKind::Malformed("symbol index out of range");
            return Err(target.view.offset_error(index, relocation.offset, kind));
        };
        last = known;
        let in_section = sign_extend(slot.raw, word);
        let addend = match relocation.addend {
            Some(addend) if target.arch.addend_in_section => addend.wrapping_add(in_section),
            Some(addend) => addend,
            None => in_section,
        };
        slot.place = place(target, &symbol, addend);
        slot.base = Some((relocation.symbol, addend));
        let has_isa_bit = target.arch.isa_bit && symbol.is_function() && symbol.value & 1 != 0;
        let distance = addend.cast_unsigned();
        slot.is_plain = !has_isa_bit && target.arch.entry(distance) == distance;
        slot.is_firm = !symbol.is_undefined && (!symbol.is_weak() || symbol.is_section());
        slot.relaxation_proof = addend == 0 && symbol.is_local() && !symbol.is_section();
    }
    Ok(())
}

/// Where an entry with this symbol and addend leads, if that is in a section of this file.
pub(crate) fn place(target: &Target<'_, '_>, symbol: &Symbol, addend: i64) -> Option<(u32, u64)> {
    let isa_bit = u64::from(target.arch.isa_bit && symbol.is_function());
    let section = symbol.section.filter(|index| *index < target.view.section_count())?;
    let offset = (symbol.value & !isa_bit).wrapping_add_signed(addend);
    Some((section, target.arch.entry(offset)))
}

/// An addend of `word` bytes as a signed number.
fn sign_extend(value: u64, word: u64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "an addend of ELFCLASS32 has 32 bits")]
    let low = value as u32;
    if word == 8 { value.cast_signed() } else { low.cast_signed().into() }
}
