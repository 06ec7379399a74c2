//! The sleds of an object or image, and the entries of the compiler's list of them, with section, function and kind.
//!
//! Sleds have a list of their own, `xray_instr_map`. No table of calls ever has them, so the verbs that make tables don't ask
//! for them.

use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use crate::scan::functions::FunctionIndex;
use crate::scan::sections::{SiteSections, text};
use crate::site::{CallSite, Kind};
use crate::table::sleds::{self, Sled, SledEntry};
use std::collections::BTreeMap;

/// Adds the sleds at entries of functions to `sites`, which are in order and stay so.
///
/// # Errors
///
/// Relocations of the list are malformed.
pub(super) fn add_sites(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
    sites: &mut Vec<CallSite>,
) -> Result<()> {
    let all = all(target, functions, options)?;
    let entries = all.into_iter().filter(|site| site.kind == Some(Kind::Sled));
    // An entry may be there twice, and another table may lead to a sled, too.
    let placed: BTreeMap<_, _> =
        entries.map(|site| ((site.section_index, site.offset), site)).collect();
    if placed.is_empty() {
        return Ok(());
    }
    sites.retain(|site| !placed.contains_key(&(site.section_index, site.offset)));
    sites.extend(placed.into_values());
    sites.sort_by_key(|site| (site.address, site.section_index, site.offset));
    Ok(())
}

/// All entries of the list, in its order.
///
/// # Errors
///
/// Relocations of the list are malformed.
pub(super) fn all(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
) -> Result<Vec<CallSite>> {
    let mut sections = SiteSections::default();
    let entries = sleds::entries(target)?;
    Ok(entries.iter().map(|entry| site(target, functions, options, &mut sections, entry)).collect())
}

fn site(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
    sections: &mut SiteSections,
    entry: &SledEntry,
) -> CallSite {
    let address = Some(entry.address).filter(|_| target.is_image);
    let Some((section, offset)) = entry.place else {
        return CallSite { address: Some(entry.address), recorded: true, ..CallSite::default() };
    };
    let place = (section, offset, address);
    let found = unknown(target, functions, options, sections, place);
    let Some(Sled { kind, size }) = sleds::sled(target, entry) else { return found };
    CallSite { kind: Some(kind), size: Some(size), ..found }
}

/// What is known of a place, whatever is there.
fn unknown(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
    sections: &mut SiteSections,
    (section, offset, address): (u32, u64, Option<u64>),
) -> CallSite {
    let function = functions.find(section, offset, 0);
    let stale = functions.is_uncovered(section, offset, 0);
    CallSite {
        section_index: Some(section),
        section: Some(sections.get(target, &options.policy, section).name),
        offset: Some(offset),
        address,
        symbol: function.map(|(name, _)| text(name)),
        symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
        recorded: true,
        stale,
        ..CallSite::default()
    }
}
