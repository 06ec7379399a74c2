//! The functions into which others were inlined, where only BTF tells: it has a place in a section of code for each, and
//! neither source files nor lines.
//!
//! Plain data in and out. `btf` reads the places, `why` shows them.

use crate::btf::InlinedAt;
use mcount::{Function, Functions};
use std::collections::BTreeMap;

/// A place where a function was inlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinedCode {
    /// The section of code.
    pub section: String,
    /// Bytes from the start of the section.
    pub offset: u64,
    /// Its address, in an image.
    pub address: Option<u64>,
    /// The function that has the code now, and the bytes from its start. `None` if no symbol covers the place.
    pub into: Option<(String, u64)>,
}

/// Where functions were inlined, with the functions that have the code.
pub struct InlinedPlaces<'k> {
    places: &'k InlinedAt,
    /// The functions of each section, by offset. If several sections have one name, those of the first.
    sections: BTreeMap<&'k str, Vec<&'k Function>>,
}

impl<'k> InlinedPlaces<'k> {
    /// `places` of a file with these functions.
    #[must_use]
    pub fn new(places: &'k InlinedAt, functions: &'k Functions) -> Self {
        let mut sections: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
        for function in &functions.functions {
            let all = sections.entry(&function.section).or_default();
            if all.first().is_none_or(|first| first.section_index == function.section_index) {
                all.push(function);
            }
        }
        for all in sections.values_mut() {
            all.sort_by_key(|function| function.offset);
        }
        Self { places, sections }
    }

    /// The names of the functions that were inlined.
    pub fn names(&self) -> impl Iterator<Item = &'k str> {
        self.places.keys().map(String::as_str)
    }

    /// Where the function `name` was inlined, in order of section and offset.
    #[must_use]
    pub fn of(&self, name: &str) -> Vec<InlinedCode> {
        let places = self.places.get(name).into_iter().flatten();
        places.map(|(section, offset)| self.place(section, *offset)).collect()
    }

    fn place(&self, section: &str, offset: u64) -> InlinedCode {
        let functions = self.sections.get(section).map_or(&[][..], Vec::as_slice);
        let first = functions.iter().find_map(|one| one.address?.checked_sub(one.offset));
        let address = first.and_then(|first| first.checked_add(offset));
        let before = functions.partition_point(|function| function.offset <= offset);
        let into =
            before.checked_sub(1).and_then(|last| functions.get(last)).and_then(|function| {
                let distance = offset - function.offset;
                let is_in = function.size == 0 || distance < function.size;
                is_in.then(|| (function.name.clone(), distance))
            });
        InlinedCode { section: section.to_owned(), offset, address, into }
    }
}
