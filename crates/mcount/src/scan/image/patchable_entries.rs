//! The patchable entries of an image, by the compiler's list.
//!
//! The list may have holes, for example because the linker discarded COMDAT groups. So an area that isn't
//! listed counts too, if it has the same form as a listed one.

use super::{Finder, Found, FoundSite, overlaps};
use crate::elf::Section;
use crate::elf::loaded::Changes;
use crate::elf::{addresses, loaded};
use crate::error::Result;
use crate::scan::patchable;
use crate::site::{Kind, Source};
use std::collections::BTreeMap;

/// How many bytes the search for areas that aren't listed may read, for each byte of code. Real images
/// need less than one.
const WORK: u64 = 16;
/// How many bytes behind an area to read, to see whether it is longer. A landing pad and a NOP have
/// fewer.
const BEHIND: u64 = 32;
/// How far behind its start a function may have its area, in bytes. There are a landing pad and, on PowerPC, two
/// instructions. A more distant area belongs to an overridden function without a name after it.
const FARTHEST: u64 = 32;

impl Finder<'_, '_, '_> {
    /// Adds the areas of NOPs that the list leads to, and those of the same form that aren't listed.
    pub(super) fn by_patchable_entries(&mut self, found: &mut Found) -> Result<()> {
        let mut listed = self.listed();
        for address in &mut listed {
            *address = self.target.address_of_hook(self.target.arch.listed(*address));
        }
        listed.sort_unstable();
        listed.dedup();
        let mut forms = BTreeMap::new();
        let mut have_one = Vec::with_capacity(listed.len());
        let mut areas = Vec::with_capacity(listed.len());
        let mut walk = self.functions.walk();
        let following = listed.iter().skip(1).map(Some).chain([None]);
        for (address, following) in listed.iter().zip(following).filter(|(at, _)| **at != 0) {
            let Some(section) = self.code.section_of(*address) else { continue };
            let offset = address - section.header.address;
            let next = following.map(|next| next - section.header.address);
            let next = next.filter(|next| *next < section.header.size);
            let size = patchable::size(self.target, self.functions, section.index, offset, next)?;
            let is_site = |offset| found.contains_key(&(section.index, offset));
            let place = (section.index, offset);
            if patchable::is_padding(self.target, self.functions, place, size, &is_site)? {
                continue;
            }
            if size != 0 {
                areas.push(area(section.index, offset, size, Source::PatchableEntries));
                if let Some(start) = walk.start(section.index, offset, size)
                    && offset < start.saturating_add(FARTHEST)
                {
                    *forms.entry((offset.wrapping_sub(start), size)).or_insert(0) |= *address;
                    have_one.push((section.index, start));
                }
            }
        }
        // In one go, which takes a third of the time that as many insertions take.
        found.append(&mut areas.into_iter().collect());
        have_one.sort_unstable();
        self.lost_areas(found, &forms, &have_one)
    }

    /// The targets of the image's lists.
    fn listed(&mut self) -> Vec<u64> {
        let view = self.target.view;
        let name = patchable::SECTION.as_bytes();
        let lists = (0u32..).zip(view.sections());
        let lists = lists.filter(|(index, list)| list.has_bytes() && view.is_called(*index, name));
        let lists = lists
            .map(|(index, list)| (index, *list))
            .chain(patchable::other_lists_of_image(self.target));
        let (lists, unloaded): (Vec<_>, Vec<_>) =
            lists.map(|(_, list)| list).partition(Section::is_loaded);
        // A linker script may keep the list for tools alone. Then the linker has filled it in, as it does with debug
        // information.
        let mut listed: Vec<u64> =
            unloaded.iter().flat_map(|list| loaded::in_bytes(view, view.bytes_of(list))).collect();
        let lists: Vec<_> =
            lists.iter().map(|list| (list.address, list.size / view.word())).collect();
        let loader = &self.target.loader;
        if let [(address, count)] = *lists.as_slice() {
            listed.append(&mut loaded::words(view, address, count, loader));
            return listed;
        }
        // Go through all relocations once, not once for each list.
        let changes = self.changes.get_or_insert_with(|| Changes::read(view, loader));
        for (address, count) in lists {
            let words = addresses(address, view.word()).zip(loaded::in_file(view, address, count));
            listed.extend(words.filter_map(|(at, word)| changes.word(at, || Some(word))));
        }
        listed
    }

    /// Adds the areas that have the same form as a listed one, and whose functions have no listed area.
    /// `forms` has the distance from the function's start, the size, and the bits that the listed
    /// addresses have. `have_one` has the sections and starts of the functions with a listed area, in order.
    fn lost_areas(
        &self,
        found: &mut Found,
        forms: &BTreeMap<(u64, u64), u64>,
        have_one: &[(u32, u64)],
    ) -> Result<()> {
        let code: u64 = self.code.sections.iter().map(|section| section.code.len()).sum();
        let mut left = code.saturating_mul(WORK);
        for section in &self.code.sections {
            let mut listed = have_one;
            for start in self.functions.starts(section.index) {
                if is_among(&mut listed, (section.index, start)) {
                    continue;
                }
                for ((distance, size), bits) in forms {
                    let offset = start.wrapping_add(*distance);
                    let offset = self.target.behind_global_entry(section.index, offset);
                    // Before a function there may be padding of the same instructions. An area that
                    // ends where the function begins looks the same. Any other area is aligned as the
                    // compiler aligned the listed ones.
                    let is_before = distance.cast_signed() < 0;
                    let aligned = !is_before
                        || section.header.address.wrapping_add(offset).trailing_zeros()
                            >= bits.trailing_zeros();
                    if is_before && offset.wrapping_add(*size) <= start || !aligned {
                        continue;
                    }
                    let next = Some(offset.saturating_add(*size).saturating_add(BEHIND));
                    let (target, functions) = (self.target, self.functions);
                    let run = patchable::size(target, functions, section.index, offset, next)?;
                    left = left.saturating_sub(run + 1);
                    if left == 0 {
                        return Ok(());
                    }
                    if run == *size
                        && !overlaps(found, section.index, offset, run)
                        && !patchable::is_name_of_padding(functions, (section.index, start))
                    {
                        let (place, site) = area(section.index, offset, run, Source::Decoding);
                        found.insert(place, site);
                    }
                }
            }
        }
        Ok(())
    }
}

fn area(section: u32, offset: u64, size: u64, source: Source) -> ((u32, u64), FoundSite) {
    ((section, offset), FoundSite { kind: Kind::Patchable, size, hook: None, source })
}

/// Is `one` in `rest`, which is in order? Takes what is before it away, so that what is asked next, and is greater, is
/// found at once.
fn is_among(rest: &mut &[(u32, u64)], one: (u32, u64)) -> bool {
    while let Some((first, others)) = rest.split_first() {
        if *first >= one {
            return *first == one;
        }
        *rest = others;
    }
    false
}
