//! The bytes of a table, and of its relocations.

use crate::elf::Encoder;
use crate::elf::edit::{Encoded, encode_relocation};
use crate::scan::Target;
use object::read::elf::FileHeader;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// What an entry is relocated against, and the distance from there in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) symbol: u32,
    pub(crate) addend: u64,
}

/// What the entries of all tables of an object refer to.
pub(crate) struct References {
    /// Where the entries lead: a section, and bytes from its start.
    pub(crate) places: Vec<(u32, u64)>,
    pub(crate) symbols: Anchors,
}

/// The symbols that entries are relocated against.
pub(crate) enum Anchors {
    /// One for each section, by its index.
    Sections(BTreeMap<u32, u32>),
    /// One for each place; the first of them.
    Own(u32),
}

/// The entries of one table.
#[derive(Clone)]
pub(crate) struct Entries {
    all: Rc<References>,
    /// Which of the places.
    ranges: Vec<Range<usize>>,
}

impl Entries {
    /// Entries for `range` of the places of `all`.
    pub(crate) fn of(all: &Rc<References>, range: Range<usize>) -> Self {
        Self { all: Rc::clone(all), ranges: vec![range] }
    }

    /// Adds those for `range`.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.ranges.push(range);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Calls `found` with each, in order.
    fn each(&self, mut found: impl FnMut(Reference)) {
        let mut last = None;
        for range in &self.ranges {
            let places = self.all.places.get(range.clone()).unwrap_or_default();
            for (index, (section, offset)) in range.clone().zip(places) {
                found(match &self.all.symbols {
                    Anchors::Own(first) => {
                        let index = u32::try_from(index).unwrap_or(u32::MAX);
                        Reference { symbol: first.saturating_add(index), addend: 0 }
                    }
                    Anchors::Sections(symbols) => {
                        let known = last.filter(|(of, _)| of == section);
                        let find = || symbols.get(section).copied().unwrap_or_default();
                        let (_, symbol) = known.unwrap_or_else(|| (*section, find()));
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

/// How `entries` are encoded for `target`.
pub(crate) fn bodies<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    rela: bool,
    entries: &Entries,
) -> Bodies {
    let view = target.view;
    let (count, word) = (entries.count(), view.word());
    let kind = target.arch.address(word).unwrap_or_default();
    let mips64el = view.has_mips64el_info();
    let in_section = !rela || target.arch.addend_in_section;
    let (of_table, of_relocations) = (entries.clone(), entries.clone());
    let size = |words: usize| count * words * if view.is_64() { 8 } else { 4 };
    let table = move |out: &mut Encoder| {
        of_table.each(|entry| out.word(if in_section { entry.addend } else { 0 }));
    };
    let relocations = move |out: &mut Encoder| {
        let mut offset = 0;
        of_relocations.each(|entry| {
            let fields = (offset, entry.symbol, kind, if in_section { 0 } else { entry.addend });
            encode_relocation(out, mips64el, rela, fields);
            offset += word;
        });
    };
    Bodies {
        table: Encoded { size: size(1), encode: Box::new(table) },
        relocations: Encoded {
            size: size(if rela { 3 } else { 2 }),
            encode: Box::new(relocations),
        },
    }
}
