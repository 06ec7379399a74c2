//! Filling in a table in place. That is possible if the table has as many entries as the image has sites,
//! and it saves a link.

use super::LateTable;
use crate::elf::dynamic::Write;
use crate::elf::loaded::Loader;
use crate::elf::{Relocations, Verb, View, addresses, loaded};
use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use ::object::elf;
use std::collections::BTreeMap;

/// Whether a table can be filled in in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fill {
    /// The table is right already.
    Right,
    /// These writes make it right.
    Writes(Vec<Write>),
    /// It can't: the table has another number of entries, or isn't there, or the loader relocates it in a
    /// way that can't be changed.
    Impossible {
        /// How many entries the table has room for.
        room: usize,
    },
}

/// [`crate::fill`], for each class and byte order.
pub(crate) struct Filler<'a> {
    pub(crate) options: &'a Options,
    pub(crate) table: &'a LateTable,
}

impl<'d> Verb<'d> for Filler<'_> {
    type Output = Fill;

    fn run(self, view: &View<'d>) -> Result<Fill> {
        let target = Target::image(view)?;
        let name = self.options.table_section.as_bytes();
        let wanted: Vec<_> = self.table.addresses().collect();
        // A kernel's linker script puts the table among other data, between two symbols.
        let Some((address, size)) = target.table_range(name) else {
            return Ok(if wanted.is_empty() { Fill::Right } else { Fill::Impossible { room: 0 } });
        };
        let count = size / view.word();
        let room = usize::try_from(count).unwrap_or(usize::MAX);
        if room != wanted.len() {
            return Ok(Fill::Impossible { room });
        }
        let there = loaded::words(view, address, count, &target.loader);
        if there == wanted {
            return Ok(Fill::Right);
        }
        loaded::check_writable(view)?;
        Ok(writes(view, (address, size), &wanted, &target.loader)
            .map_or(Fill::Impossible { room }, Fill::Writes))
    }
}

/// The writes that make the words of the table `wanted`: the words themselves, and the addends of the
/// relocations over them. The table is an address and a size in bytes. `None` if its bytes aren't in the
/// file, or if the value of a relocation depends on another file.
fn writes(
    view: &View<'_>,
    (address, size): (u64, u64),
    wanted: &[u64],
    loader: &Loader<'_>,
) -> Option<Vec<Write>> {
    let (_, section) = view.section_at(address).filter(|(_, section)| section.has_bytes())?;
    let offset = section.offset + (address - section.address);
    let end = address.checked_add(size)?;
    let mut places = BTreeMap::new();
    for (index, header) in (0u32..).zip(view.sections()) {
        if header.flags & elf::SHF_ALLOC.0 == 0 || !header.is_relocations() {
            continue;
        }
        // What can't be read is REL, whose addends are in the table.
        let Ok(list) = Relocations::read(view, index, header) else { continue };
        for relocation in list.iter() {
            if !(address..end).contains(&relocation.offset) {
                continue;
            }
            let base = loader.fixed_base(&relocation, header.link)?;
            if relocation.addend.is_some() {
                let entry = u64::from(relocation.index) * header.entry_size;
                // r_addend is the last word of the entry.
                let at = header.offset + entry + header.entry_size - view.word();
                places.insert(relocation.offset, (at, base));
            }
        }
    }
    let in_file = loaded::in_file(view, address, size / view.word());
    let mut table = view.encoder();
    let mut writes = Vec::new();
    let places_of_words = addresses(address, view.word());
    for ((address, value), old) in places_of_words.zip(wanted).zip(in_file) {
        let addend = places.get(&address);
        // If the addend has the value and the linker left a 0 in the word, it stays.
        table.word(if addend.is_some() && old == 0 { 0 } else { *value });
        if let Some((at, base)) = addend {
            let mut word = view.encoder();
            word.word(value.wrapping_sub(*base));
            writes.push((*at, word.out));
        }
    }
    writes.push((offset, table.out));
    Some(writes)
}
