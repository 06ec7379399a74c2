//! The sites of a linked image that are areas of NOPs, by the compiler's list of patchable entries.

use super::{Finder, Found, FoundSite, overlaps};
use crate::elf::loaded;
use crate::error::Result;
use crate::scan::patchable;
use crate::site::{Kind, Source};
use object::read::elf::FileHeader;
use std::collections::HashMap;

impl<Elf: FileHeader> Finder<'_, '_, '_, Elf> {
    /// Areas of NOPs: those that the list leads to, and those of functions that have one of the
    /// same form and are not listed, as happens to functions of discarded groups.
    pub(super) fn by_patchable_entries(&self, found: &mut Found) -> Result<()> {
        let view = self.target.view;
        let name = patchable::SECTION.as_bytes();
        let mut listed = Vec::new();
        for (index, header) in (0u32..).zip(view.sections()) {
            if header.has_bytes() && view.is_called(index, name) {
                let count = header.size / view.word();
                listed.extend(loaded::words(view, header.address, count, &self.target.loader));
            }
        }
        listed.sort_unstable();
        listed.dedup();
        let mut forms = HashMap::new();
        for address in listed.into_iter().filter(|address| *address != 0) {
            let Some(section) = self.code.section_of(address) else { continue };
            let offset = address - section.header.address;
            let size = patchable::size(self.target, self.functions, section.index, offset, None)?;
            if size != 0 {
                Self::add_area(found, section.index, offset, size, Source::PatchableEntries);
                if let Some((_, start)) = self.functions.find(section.index, offset, size) {
                    *forms.entry((offset.wrapping_sub(start), size)).or_insert(0) |= address;
                }
            }
        }
        self.lost_areas(found, &forms)
    }

    /// Areas of functions that have one of the same form as a listed one. `forms` has the distance
    /// from the function's start, the size, and the bits that the listed addresses have.
    fn lost_areas(&self, found: &mut Found, forms: &HashMap<(u64, u64), u64>) -> Result<()> {
        for section in &self.code.sections {
            for start in self.functions.starts(section.index) {
                for ((distance, size), bits) in forms {
                    let offset = start.wrapping_add(*distance);
                    // Before a function there may be padding, of the same instructions: an area that
                    // ends where the function begins cannot be told from that, and another only by
                    // the alignment that the compiler gave those that are listed.
                    let is_before = distance.cast_signed() < 0;
                    let aligned = !is_before
                        || section.header.address.wrapping_add(offset).trailing_zeros()
                            >= bits.trailing_zeros();
                    if is_before && offset.wrapping_add(*size) <= start || !aligned {
                        continue;
                    }
                    let run =
                        patchable::size(self.target, self.functions, section.index, offset, None)?;
                    if run == *size && !overlaps(found, section.index, offset, run) {
                        Self::add_area(found, section.index, offset, run, Source::Decoding);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_area(found: &mut Found, section: u32, offset: u64, size: u64, source: Source) {
        found.insert(
            (section, offset),
            FoundSite { kind: Kind::Patchable, size, hook: None, source },
        );
    }
}
