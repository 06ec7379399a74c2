//! Scanning and listing an image for people: `scan` and `read_table` of what is linked.

use crate::Options;
use crate::elf::{View, loaded};
use crate::error::Result;
use crate::policy::Treatment;
use crate::scan::bare::Bare;
use crate::scan::functions::Functions;
use crate::scan::sections::{SiteSections, text};
use crate::scan::{Target, patchable};
use crate::site::{CallSite, Sites};
use ::object::read::elf::FileHeader;
use foldhash::HashMap;

/// The sites of an image, in order of address.
///
/// # Errors
///
/// As [`crate::late_table`].
pub(crate) fn scan<Elf: FileHeader>(view: &View<'_, Elf>, options: &Options) -> Result<Sites> {
    let target = Target::image(view)?;
    let (sites, _) =
        super::sites(&target, &Functions::new(&target)?, options, Some(Bare::find(&target)))?;
    Ok(of(&target, sites))
}

/// The entries of an image's tables, in their own order, as the loader leaves them.
///
/// # Errors
///
/// As [`crate::late_table`].
pub(crate) fn list<Elf: FileHeader>(view: &View<'_, Elf>, options: &Options) -> Result<Sites> {
    let target = Target::image(view)?;
    let (_, sites) = survey(&target, &Functions::new(&target)?, options)?;
    Ok(of(&target, sites))
}

fn of<Elf: FileHeader>(target: &Target<'_, '_, Elf>, sites: Vec<CallSite>) -> Sites {
    let view = target.view;
    let bits = if view.is_64() { 64 } else { 32 };
    Sites {
        machine: target.arch.name,
        bits,
        big_endian: view.is_big_endian(),
        is_image: true,
        sites,
    }
}

/// The sites of the image `target`, in order of address, and the entries of its tables in their own.
///
/// # Errors
///
/// As [`crate::late_table`].
pub(crate) fn survey<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    functions: &Functions<'d>,
    options: &Options,
) -> Result<(Vec<CallSite>, Vec<CallSite>)> {
    let bare = Some(Bare::find(target));
    let (found, _) = super::sites(target, functions, options, bare)?;
    let view = target.view;
    let mut entries = Vec::new();
    for name in [options.table_section.as_str(), patchable::SECTION] {
        if let Some((address, size)) = super::table_range(target, name.as_bytes(), bare) {
            entries.extend(loaded::words(view, address, size / view.word(), &target.loader));
        }
        if options.table_section == patchable::SECTION {
            break;
        }
    }
    let known: HashMap<u64, &CallSite> =
        found.iter().filter_map(|site| Some((site.address?, site))).collect();
    let mut sections = SiteSections::default();
    let entries = entries.iter().map(|address| match known.get(&target.arch.entry(*address)) {
        Some(site) => CallSite { recorded: true, ..(*site).clone() },
        None => unknown(target, functions, options, &mut sections, *address),
    });
    let entries = entries.collect();
    Ok((found, entries))
}

/// An entry that leads to no site.
fn unknown<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    options: &Options,
    sections: &mut SiteSections,
    address: u64,
) -> CallSite {
    let entry = CallSite { address: Some(address), recorded: true, ..CallSite::default() };
    let Some((index, section)) = target.view.section_at(address).filter(|_| address != 0) else {
        return entry;
    };
    let offset = address - section.address;
    let section = sections.get(target, &options.policy, index);
    let function = functions.find(index, offset, 0);
    CallSite {
        section_index: Some(index),
        section: Some(section.name),
        offset: Some(offset),
        symbol: function.map(|(name, _)| text(name)),
        symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
        excluded: section.treatment != Treatment::Record,
        stale: functions.is_uncovered(index, offset, 0),
        ..entry
    }
}
