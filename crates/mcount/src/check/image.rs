//! The tables of a linked image: their words after loading, and the flaws that show before we look at
//! where the words lead.

use super::{InSection, JudgedEntry, JudgedTable, Rule, reversed};
use crate::elf::loaded::Changes;
use crate::elf::{Relocations, View, addresses, loaded};
use crate::error::Result;
use crate::options::Options;
use crate::scan::bare::Bare;
use crate::scan::{Target, patchable};
use crate::sites::image::table_range;
use crate::words::counted;
use object::elf;

/// The table of `target`, which is `bare` if nothing names it, and the compiler's lists of patchable
/// entries if they were linked in.
///
/// # Errors
///
/// Relocations over a table are malformed.
pub(super) fn tables(
    target: &Target<'_, '_>,
    options: &Options,
    bare: Option<Bare>,
) -> Result<Vec<JudgedTable>> {
    let mut loaded = Loaded::new(target);
    let main = table_range(target, options.table_section.as_bytes(), bare);
    let mut tables = Vec::new();
    if let Some(range) = main {
        tables.push(table(target, &mut loaded, range, true)?);
    }
    let name = patchable::SECTION.as_bytes();
    let lists = (0u32..).zip(target.view.sections());
    let lists = lists.filter(|(index, _)| target.view.is_called(*index, name));
    let lists = lists.map(|(index, list)| (index, *list));
    for (_, header) in lists.chain(patchable::other_lists_of_image(target)) {
        let range = (header.address, header.size);
        if header.has_bytes() && Some(range) != main {
            // A list is in the order of the objects, so it isn't sorted.
            tables.push(table(target, &mut loaded, range, false)?);
        }
    }
    Ok(tables)
}

/// Address, size and index of each loaded section, in order of address.
struct Map(Vec<(u64, u64, u32)>);

impl Map {
    fn new(target: &Target<'_, '_>) -> Self {
        let sections = (0u32..).zip(target.view.sections());
        let loaded = sections.filter(|(_, section)| {
            section.is_loaded() && section.flags & elf::SHF_TLS.0 == 0 && section.size != 0
        });
        let mut map: Vec<_> = loaded.map(|(at, s)| (s.address, s.size, at)).collect();
        map.sort_unstable();
        Self(map)
    }

    /// The section that is loaded at `address`, and bytes from its start.
    fn place(&self, address: u64) -> Option<InSection> {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let (start, size, index) = *self.0.get(after.checked_sub(1)?)?;
        (address - start < size).then_some((index, address - start))
    }
}

/// What loading does to an image. It is read once, however many tables there are.
struct Loaded {
    map: Map,
    /// Its effect on words.
    changes: Changes,
    /// The places of all relocations, in ascending order. Read when they are first needed.
    relocated: Option<Vec<u64>>,
}

impl Loaded {
    fn new(target: &Target<'_, '_>) -> Self {
        let changes = Changes::read(target.view, &target.loader);
        Self { map: Map::new(target), changes, relocated: None }
    }

    /// `size` bytes from `address` on, as words.
    fn words(&self, view: &View<'_>, address: u64, size: u64) -> Vec<u64> {
        let words = loaded::in_file(view, address, size / view.word());
        let places = addresses(address, view.word()).zip(words);
        places.filter_map(|(at, word)| self.changes.word(at, || Some(word))).collect()
    }
}

/// The table in these bytes. Checks that it is sorted if it should be.
fn table(
    target: &Target<'_, '_>,
    loaded: &mut Loaded,
    (address, size): (u64, u64),
    sorted: bool,
) -> Result<JudgedTable> {
    let view = target.view;
    let word = view.word();
    let words = loaded.words(view, address, size);
    let start = loaded.map.place(address).unwrap_or_default();
    let mut found = JudgedTable { is_list: !sorted, ..JudgedTable::default() };
    if sorted {
        found.flaws.extend(order(&words).map(|(at, detail)| {
            (Rule::Unsorted, (start.0, start.1.saturating_add(at as u64 * word)), detail)
        }));
    }
    if !words.is_empty() && words.iter().all(|value| *value == 0) {
        let detail = match words.len() {
            1 => "its only entry is zero".to_owned(),
            count => format!("all {count} entries are zero"),
        };
        found.flaws.push((Rule::ZeroTable, start, detail));
    }
    if address % word != 0 && !target.arch.reads_unaligned {
        let detail = format!("the table is at {address:#x}, no multiple of {word}");
        found.flaws.push((Rule::Misaligned, start, detail));
    }
    let relocated = text_relocations(target, loaded, (address, size), start.0)?;
    if relocated != 0 {
        let relocations = counted(relocated, "relocation", "relocations");
        let detail = format!("{relocations} over a read-only table");
        found.flaws.push((Rule::TextRelocation, start, detail));
    }
    let (map, arch) = (&loaded.map, target.arch);
    // Entries that were dropped are zero.
    for (at, value) in (0u64..).zip(words).filter(|(_, value)| *value != 0) {
        let [place, reversed] = [value, reversed(value, word)].map(|value| {
            let value = if sorted { arch.entry(value) } else { arch.listed(value) };
            map.place(target.address_of_hook(value))
        });
        let slot = (start.0, start.1.saturating_add(at.saturating_mul(word)));
        found.entries.push(JudgedEntry { slot, place, reversed, flaws: Vec::new() });
    }
    Ok(found)
}

/// The position of the first word that is less than the one before it, and a message about all of them.
fn order(words: &[u64]) -> Option<(usize, String)> {
    let pairs = words.windows(2).enumerate();
    let mut falls = pairs.filter(|(_, pair)| matches!(pair, [before, after] if after < before));
    let (first, _) = falls.next()?;
    let count = 1 + falls.count();
    let (entries, first) = (words.len(), first + 1);
    let verb = if count == 1 { "is" } else { "are" };
    let detail = format!(
        "{count} of {entries} entries {verb} less than the one before, the first is entry {first}"
    );
    Some((first, detail))
}

/// The number of relocations that the loader applies to these bytes, if their section `index` is
/// read-only.
fn text_relocations(
    target: &Target<'_, '_>,
    loaded: &mut Loaded,
    (address, size): (u64, u64),
    index: u32,
) -> Result<usize> {
    let view = target.view;
    if view.section(index).is_ok_and(|section| section.flags & elf::SHF_WRITE.0 != 0) {
        return Ok(0);
    }
    if loaded.relocated.is_none() {
        loaded.relocated = Some(relocated(view)?);
    }
    let places = loaded.relocated.as_deref().unwrap_or_default();
    let [start, end] = [address, address.saturating_add(size)]
        .map(|bound| places.partition_point(|place| *place < bound));
    Ok(end - start)
}

/// The places that the loader relocates, in ascending order.
fn relocated(view: &View<'_>) -> Result<Vec<u64>> {
    let mut places = Vec::new();
    for (index, header) in (0u32..).zip(view.sections()).filter(|(_, header)| header.is_loaded()) {
        if header.has_relocations() {
            let list = Relocations::read(view, index, header)?;
            let real = list.iter().filter(|relocation| relocation.kind != 0);
            places.extend(real.map(|relocation| relocation.offset));
        } else if header.kind == elf::SHT_RELR.0 {
            places.extend(loaded::packed(view, header));
        }
    }
    places.sort_unstable();
    Ok(places)
}
