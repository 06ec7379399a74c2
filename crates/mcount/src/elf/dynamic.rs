//! The dynamic section, and changing dynamic relocations in place: moving some to another word, and
//! removing others.
//!
//! `DT_RELCOUNT` and `DT_RELACOUNT` say how many relative relocations the list begins with. Loaders
//! handle that many without looking at their types. So one of them can't just become `R_*_NONE`. Instead,
//! the last one of the run takes its place, the run gets shorter, and the `R_*_NONE` comes after the
//! run.
//!
//! Source: Oracle Solaris Linkers and Libraries Guide, "Dynamic Section", which defined both tags.

use super::{Section, View, bytes, loaded};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes to write at an offset in the file.
pub type Write = (u64, Vec<u8>);

/// Changes to the entries of relocation sections.
pub(crate) struct RelocationEdit<'v, 'd> {
    view: &'v View<'d>,
    /// The new bytes of each entry that changes, by its offset in the file.
    changed: BTreeMap<u64, Vec<u8>>,
    /// Other words that change, by their offset in the file.
    words: Vec<(u64, Vec<u8>)>,
}

impl<'v, 'd> RelocationEdit<'v, 'd> {
    pub(crate) fn new(view: &'v View<'d>) -> Self {
        Self { view, changed: BTreeMap::new(), words: Vec::new() }
    }

    /// Makes entry `index` of `section` apply to the word at `place`, with `addend` if it has one.
    pub(crate) fn set(&mut self, section: &Section, index: u32, place: u64, addend: Option<u64>) {
        let word = usize::try_from(self.view.word()).unwrap_or(8);
        let mut entry = self.get(section, index);
        let fields = [(0, Some(place)), (2 * word, addend)];
        for (at, value) in fields.into_iter().filter_map(|(at, value)| Some((at, value?))) {
            if let Some(field) = entry.get_mut(at..at + word) {
                field.copy_from_slice(&self.word(value));
            }
        }
        self.changed.insert(place_of(section, index), entry);
    }

    /// Removes the entries `gone`. Each is a section and a position there.
    pub(crate) fn remove(&mut self, gone: &[(Section, u32)]) {
        let mut sections: BTreeMap<u64, (Section, BTreeSet<u32>)> = BTreeMap::new();
        for (section, index) in gone {
            let entry = sections.entry(section.offset).or_insert((*section, BTreeSet::new()));
            entry.1.insert(*index);
        }
        for (section, gone) in sections.into_values() {
            self.remove_of(&section, &gone);
        }
    }

    fn remove_of(&mut self, section: &Section, gone: &BTreeSet<u32>) {
        let run = self.run(section);
        let (old, at) = run.unwrap_or((0, 0));
        let new = old - bytes::index(gone.range(..old).count());
        let mut last = (new..old).filter(|index| !gone.contains(index));
        let holes = gone.range(..new).zip(last.by_ref());
        for (hole, last) in holes.collect::<Vec<_>>() {
            let entry = self.get(section, last);
            self.changed.insert(place_of(section, *hole), entry);
        }
        let size = usize::try_from(section.entry_size).unwrap_or(0);
        for index in (new..old).chain(gone.range(old..).copied()) {
            self.changed.insert(place_of(section, index), vec![0; size]);
        }
        if new != old {
            self.words.push((at, self.word(new.into())));
        }
    }

    /// How many relative relocations `section` begins with, and where in the file that number is.
    fn run(&self, section: &Section) -> Option<(u32, u64)> {
        let (list, count) = if section.kind == elf::SHT_REL.0 {
            (elf::DT_REL.0, elf::DT_RELCOUNT.0)
        } else {
            (elf::DT_RELA.0, elf::DT_RELACOUNT.0)
        };
        let (address, _) = tag(self.view, list)?;
        let (count, at) = tag(self.view, count)?;
        let entries = section.size / section.entry_size;
        let is_list = address == section.address && count <= entries;
        is_list.then_some((u32::try_from(count).ok()?, at))
    }

    /// The entry with the changes so far.
    fn get(&self, section: &Section, index: u32) -> Vec<u8> {
        let at = place_of(section, index);
        self.changed.get(&at).cloned().unwrap_or_else(|| {
            bytes::range(self.view.data, at, section.entry_size).unwrap_or_default().to_vec()
        })
    }

    fn word(&self, value: u64) -> Vec<u8> {
        let mut out = self.view.encoder();
        out.word(value);
        out.out
    }

    /// The bytes to write, at offsets in the file.
    pub(crate) fn writes(self) -> Vec<(u64, Vec<u8>)> {
        self.changed.into_iter().chain(self.words).collect()
    }
}

/// The value of `tag` in the dynamic section, and its offset in the file.
pub(crate) fn tag(view: &View<'_>, tag: i64) -> Option<(u64, u64)> {
    let section = view.sections().find(|section| section.kind == elf::SHT_DYNAMIC.0)?;
    let words = loaded::in_file(view, section.address, section.size / view.word());
    let value = (section.offset..).step_by(usize::try_from(2 * view.word()).ok()?);
    words.chunks_exact(2).zip(value).find_map(|(entry, at)| match entry {
        [found, value] if *found == tag.cast_unsigned() => Some((*value, at + view.word())),
        _ => None,
    })
}

/// The offset of an entry in the file. Its section is inside the file.
fn place_of(section: &Section, index: u32) -> u64 {
    section.offset.saturating_add(u64::from(index).saturating_mul(section.entry_size))
}
