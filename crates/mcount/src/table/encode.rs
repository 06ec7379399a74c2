//! The bytes of a table and of its relocations.

use crate::elf::edit::{Encoded, encode_relocation};
use crate::scan::Target;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// The symbol that an entry refers to, and the distance from there in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) symbol: u32,
    pub(crate) addend: u64,
}

/// The symbols that the entries of all tables of an object refer to.
pub(crate) struct References {
    /// Where the entries lead: a section, and bytes from its start.
    pub(crate) places: Vec<(u32, u64)>,
    pub(crate) symbols: Anchors,
}

/// The symbols that entries refer to.
pub(crate) enum Anchors {
    /// There is one for each section, by the index of the section.
    Sections(BTreeMap<u32, u32>),
    /// There is one for each place. This is the first.
    Own(u32),
    /// The entry for each place refers to this.
    Each(Vec<Reference>),
}

/// The entries of one table.
#[derive(Clone)]
pub(crate) struct Entries {
    all: Rc<References>,
    /// Which of the places they lead to.
    ranges: Vec<Range<usize>>,
}

impl Entries {
    /// Entries for `range` of the places of `all`.
    pub(crate) fn of(all: &Rc<References>, range: Range<usize>) -> Self {
        Self { all: Rc::clone(all), ranges: vec![range] }
    }

    /// Adds the entries for `range`.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.ranges.push(range);
    }

    /// The number of entries.
    pub(super) fn count(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Calls `found` for each, in order.
    fn each(&self, mut found: impl FnMut(Reference)) {
        // The section of the last entry, and its symbol.
        let mut last = None;
        for range in &self.ranges {
            let places = self.all.places.get(range.clone()).unwrap_or_default();
            for (index, (section, offset)) in range.clone().zip(places) {
                found(match &self.all.symbols {
                    Anchors::Each(references) => match references.get(index) {
                        Some(reference) => *reference,
                        None => continue,
                    },
                    Anchors::Own(first) => {
                        let index = u32::try_from(index).unwrap_or(u32::MAX);
                        Reference { symbol: first.saturating_add(index), addend: 0 }
                    }
                    Anchors::Sections(symbols) => {
                        let symbol = match last {
                            Some((of, symbol)) if of == *section => symbol,
                            _ => symbols.get(section).copied().unwrap_or_default(),
                        };
                        last = Some((*section, symbol));
                        Reference { symbol, addend: *offset }
                    }
                });
            }
        }
    }
}

/// The bytes of a table and of its relocations.
pub(crate) struct Bodies {
    pub(crate) table: Encoded,
    pub(crate) relocations: Encoded,
}

/// Encodes `entries` for `target`.
pub(crate) fn bodies(target: &Target<'_, '_>, rela: bool, entries: &Entries) -> Bodies {
    let view = target.view;
    let (count, word) = (entries.count(), view.word());
    let kind = target.arch.address(word).unwrap_or_default();
    let mips64el = view.has_mips64el_info();
    let in_section = !rela || target.arch.addend_in_section;
    let (of_table, of_relocations) = (entries.clone(), entries.clone());
    let size = count * if view.is_64() { 8 } else { 4 };
    let table = Encoded {
        size,
        encode: Box::new(move |out| {
            of_table.each(|entry| out.word(if in_section { entry.addend } else { 0 }));
        }),
    };
    let relocations = Encoded {
        size: size * if rela { 3 } else { 2 },
        encode: Box::new(move |out| {
            let mut offset = 0;
            of_relocations.each(|entry| {
                let addend = if in_section { 0 } else { entry.addend };
                encode_relocation(out, mips64el, rela, (offset, entry.symbol, kind, addend));
                offset += word;
            });
        }),
    };
    Bodies { table, relocations }
}
