//! NOPs in an object. The code changes, and the relocations of the calls become `R_*_NONE`, so that the
//! linker doesn't change the NOPs.

use super::{NopChange, Nops, Select, Selected};
use crate::arch::CodeMut;
use crate::elf::View;
use crate::elf::edit::Edit;
use crate::error::Result;
use crate::options::Options;
use crate::scan::calls::{self, FoundCall};
use crate::scan::functions::FunctionIndex;
use crate::scan::{Target, nops, patchable};
use crate::table;
use std::collections::BTreeSet;

/// What to write so that the recorded calls of the object `view` become NOPs, in the functions that
/// `select` chooses.
///
/// # Errors
///
/// The object is malformed.
pub(super) fn nops(view: &View<'_>, options: &Options, select: Select<'_>) -> Result<Nops> {
    let target = Target::new(view)?;
    let functions = FunctionIndex::new(&target)?;
    let selected = Selected { functions: &functions, select };
    let table = table::read(&target, options.table_section.as_bytes())?;
    let listed: BTreeSet<_> = table.iter().filter_map(|entry| entry.place).collect();
    let (recorded, unrecorded): (Vec<_>, Vec<_>) = calls::find(&target, &options.hooks)?
        .into_iter()
        .partition(|call| listed.contains(&call.place()));
    let lists = table::read(&target, patchable::SECTION.as_bytes())?;
    let lists = lists.iter().filter_map(|entry| entry.place).collect();
    let areas = patchable::areas(&target, &functions, lists)?;
    let sites = recorded.iter().map(FoundCall::place);
    let sites: BTreeSet<_> = sites.chain(areas.iter().map(|a| (a.section, a.offset))).collect();
    let mut result = Nops::nothing(NopChange::Object(None));
    result.unrecorded = unrecorded.len();
    for place in listed.iter().filter(|place| !sites.contains(place)) {
        result.strays += usize::from(is_stray(&target, &selected, *place)?);
    }
    let mut edit = Edit::new(view);
    let calls: Vec<_> = recorded.into_iter().filter(|call| selected.has(call.place())).collect();
    let done = make(&target, &mut edit, &calls)?;
    let left = calls.iter().map(FoundCall::place).filter(|place| !done.contains(place));
    result.without_nop = left.map(|place| selected.text(place)).collect();
    result.made = done.len();
    for area in areas.into_iter().filter(|area| selected.has((area.section, area.offset))) {
        match join(&target, &functions, &mut edit, area)? {
            Some(is_changed) => result.made += usize::from(is_changed),
            None => result.unjoined += 1,
        }
    }
    if result.made != 0 {
        result.change = NopChange::Object(Some(edit.finish()?));
    }
    Ok(result)
}

/// Whether `place`, which isn't a site, is code that isn't a NOP either.
fn is_stray(
    target: &Target<'_, '_>,
    selected: &Selected<'_, '_>,
    place: (u32, u64),
) -> Result<bool> {
    let is_code = target.view.section(place.0).is_ok_and(|section| section.is_code());
    Ok(is_code && nops::size(target, place)? == 0 && selected.has(place))
}

/// Makes long NOPs of an area of short ones. Returns whether it changed, or `None` if no symbol says
/// which function it belongs to.
fn join(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    edit: &mut Edit<'_, '_>,
    area: patchable::Area,
) -> Result<Option<bool>> {
    if !target.arch.joins_nops {
        return Ok(Some(false));
    }
    let big_endian = target.code(area.section)?.is_big_endian();
    let mut code = CodeMut { bytes: edit.body(area.section)?, big_endian };
    Ok(patchable::join(target, functions, &mut code, area))
}

/// Makes `calls`, which are in section order, NOPs, and their relocations `R_*_NONE`. Returns the places
/// of those that became NOPs. Others stay as they are, because there is no NOP for their form.
///
/// # Errors
///
/// The relocations of the code are malformed.
pub(crate) fn make(
    target: &Target<'_, '_>,
    edit: &mut Edit<'_, '_>,
    calls: &[FoundCall],
) -> Result<BTreeSet<(u32, u64)>> {
    let view = target.view;
    let mut done = Vec::new();
    for calls in calls.chunk_by(|a, b| a.section == b.section) {
        let Some(section) = calls.first().map(|call| call.section) else { continue };
        let big_endian = target.arch.code(&[], view.is_big_endian(), view.flags()).is_big_endian();
        let mut bytes = view.section_data(section)?.to_vec();
        let mut code = CodeMut { bytes: &mut bytes, big_endian };
        let before = done.len();
        for call in calls {
            let hook = target.symbol_name(call.hook);
            if call.call.make_nop(&mut code, call.reference, hook).is_some() {
                done.push(*call);
            }
        }
        if done.len() != before {
            *edit.body(section)? = bytes;
        }
    }
    clear_relocations(target, edit, &done)?;
    Ok(done.iter().map(FoundCall::place).collect())
}

/// Makes every relocation to the hook inside `calls` an `R_*_NONE`.
fn clear_relocations(
    target: &Target<'_, '_>,
    edit: &mut Edit<'_, '_>,
    calls: &[FoundCall],
) -> Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    for (index, header, section) in target.code_relocations()? {
        // The calls are in section order.
        let start = calls.partition_point(|call| call.section < section);
        let mut ranges: Vec<_> = calls
            .iter()
            .skip(start)
            .take_while(|call| call.section == section)
            .map(|call| (call.reference, call.call.end, call.hook))
            .collect();
        if ranges.is_empty() {
            continue;
        }
        ranges.sort_unstable();
        let mut hooks: Vec<_> = ranges.iter().map(|range| range.2).collect();
        hooks.sort_unstable();
        hooks.dedup();
        let mut entries = Vec::new();
        target.relocations(index, &header)?.of_symbols(&hooks, &mut |relocation| {
            let after = ranges.partition_point(|range| range.0 <= relocation.offset);
            let range = after.checked_sub(1).and_then(|at| ranges.get(at));
            if range.is_some_and(|range| relocation.offset < range.1) {
                entries.push(relocation.index);
            }
        });
        for entry in entries {
            edit.clear_relocation(index, &header, entry)?;
        }
    }
    Ok(())
}
