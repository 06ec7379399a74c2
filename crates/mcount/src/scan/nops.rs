//! Hooks that are NOPs already.
//!
//! A NOP is a NOP; nothing about it says that a call was there once. But an entry of a table does, and so
//! does a relocation to the hook that a tool turned to `R_*_NONE` instead of deleting it, as objtool and
//! the original recorder do. Some compilers' NOPs look like no other, or are the first instruction of a
//! function. Entries always count. The rest counts only if it is asked for (`--nops`).

use super::functions::FunctionIndex;
use super::{Target, calls, patchable};
use crate::elf::Relocation;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Where kernels have the instructions that they copy over others when they know the processor. No code calls
/// that area, and on s390 there are the NOPs that look like a hook.
const REPLACEMENTS: &[u8] = b".altinstr_replacement";

/// The `places` at which there is a NOP as long as a call. Entries lead to `places`. `calls` are the
/// places of calls, sorted; there is no NOP there.
///
/// # Errors
///
/// A section can't be read.
pub(crate) fn recorded(
    target: &Target<'_, '_>,
    places: impl Iterator<Item = (u32, u64)>,
    calls: &[(u32, u64)],
) -> Result<Vec<(u32, u64)>> {
    let mut found = Vec::new();
    // Entries are nearly always in the order of the calls, so the next call is that of the next entry.
    let mut next = 0;
    for place in places {
        if calls.get(next) == Some(&place) {
            next += 1;
        } else if let Ok(at) = calls.binary_search(&place) {
            next = at + 1;
        } else if size(target, place)? != 0 {
            found.push(place);
        }
    }
    Ok(found)
}

/// The size in bytes of the NOP at `place` that a call became; 0 if there is none.
pub(crate) fn size(target: &Target<'_, '_>, (section, offset): (u32, u64)) -> Result<u64> {
    if !target.view.section(section)?.is_code() {
        return Ok(0);
    }
    Ok(target.arch.nop_of_call(target.code(section)?, offset))
}

/// Every place at which a NOP is a hook even though no entry leads there, in section order, then offset
/// order. Either the compiler left it in place of a call, or another tool made it of a call and left the
/// relocation as an `R_*_NONE` to the hook. `extra` are names of hooks.
///
/// NOPs of patchable entries aren't among them: the compiler's lists lead to these, and `listed` is where.
///
/// # Errors
///
/// Relocations of code are malformed.
pub(crate) fn decoded(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    extra: &[String],
    listed: Vec<(u32, u64)>,
) -> Result<Vec<(u32, u64)>> {
    let found = marked(target, extra)?;
    let mut places: Vec<_> = found.keys().copied().collect();
    let mut plain = Vec::new();
    for (section, header) in (0u32..).zip(target.view.sections()) {
        let is_replacement = target.view.is_called(section, REPLACEMENTS);
        if header.is_code() && !is_replacement {
            let places = target.arch.hook_nops(target.code(section)?, functions.starts(section));
            plain.extend(places.into_iter().map(|offset| (section, offset)));
        }
    }
    if !plain.is_empty() {
        let relocated = relocated(target)?;
        let areas = patchable::areas(target, functions, listed)?;
        let areas = areas.iter().map(|area| ((area.section, area.offset), area.size)).collect();
        let size = target.arch.call_size;
        for (section, offset) in plain {
            let ahead = (section, offset)..(section, offset.saturating_add(size));
            let is_other = relocated.range(ahead).next().is_some()
                || is_inside(&found, section, offset)
                || is_inside(&areas, section, offset);
            if !is_other {
                places.push((section, target.arch.site_of_nop(target.code(section)?, offset)));
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

/// Hooks by section and offset, with their sizes in bytes.
type Marked = BTreeMap<(u32, u64), u64>;

/// The NOPs that a tool made of calls whose relocation it turned to `R_*_NONE`.
fn marked(target: &Target<'_, '_>, extra: &[String]) -> Result<Marked> {
    let mut found = Marked::new();
    let Some(symbols) = &target.symbols else { return Ok(found) };
    let hooks = calls::hooks(target, symbols, extra);
    for (index, header, section) in target.code_relocations()? {
        let code = target.code(section)?;
        target.relocations(index, &header)?.of_symbols(&hooks, &mut |relocation| {
            let nop = target.arch.nop_of_reference(code, relocation.offset);
            if let (true, Some((recorded, size))) = (is_none(target, &relocation), nop) {
                found.insert((section, recorded), size);
            }
        });
    }
    Ok(found)
}

/// Whether `offset` of `section` is in one of the hooks `found`.
fn is_inside(found: &Marked, section: u32, offset: u64) -> bool {
    let before = found.range((section, 0)..=(section, offset)).next_back();
    before.is_some_and(|((_, start), size)| offset - start < *size)
}

/// Whether the linker does nothing for `relocation`. That is type 0 on every processor.
fn is_none(target: &Target<'_, '_>, relocation: &Relocation) -> bool {
    relocation.kind & target.arch.type_mask == 0
}

/// The places in code that the linker changes.
fn relocated(target: &Target<'_, '_>) -> Result<BTreeSet<(u32, u64)>> {
    let mut places = BTreeSet::new();
    for (index, header, section) in target.code_relocations()? {
        let list = target.relocations(index, &header)?;
        let real = list.iter().filter(|relocation| !is_none(target, relocation));
        places.extend(real.map(|relocation| (section, relocation.offset)));
    }
    Ok(places)
}
