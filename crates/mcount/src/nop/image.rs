//! NOPs in a linked image. The file is changed in place.

use super::{NopChange, Nops, Select, Selected};
use crate::arch::CodeMut;
use crate::elf::dynamic::{RelocationEdit, Write};
use crate::elf::{Relocations, View, loaded};
use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use crate::scan::functions::FunctionIndex;
use crate::scan::image::{CallAt, Finder, Found, FoundSite};
use crate::scan::{nops, patchable};
use crate::site::Kind;
use ::object::elf;
use std::collections::BTreeMap;

/// What to write so that the recorded calls of the image `view` become NOPs, in the functions that
/// `select` chooses.
///
/// # Errors
///
/// The image is malformed, or we can't decode the code of its processor.
pub(super) fn nops(view: &View<'_>, options: &Options, select: Select<'_>) -> Result<Nops> {
    let target = Target::image(view)?;
    loaded::check_writable(view)?;
    let functions = FunctionIndex::new(&target)?;
    let selected = Selected { functions: &functions, select };
    let mut finder = Finder::new(&target, &functions, &options.hooks, options.helpers.clone())?;
    finder.keep_calls();
    let found = finder.find()?;
    let table = finder.table(target.table_range(options.table_section.as_bytes()));
    let mut result = Nops::nothing(NopChange::Image(Vec::new()));
    let (mut writes, mut ranges) = (Vec::new(), Vec::new());
    for (section, sites) in by_section(&found) {
        let header = view.section(section)?;
        let mut bytes = view.section_data(section)?.to_vec();
        let mut code =
            CodeMut { bytes: &mut bytes, big_endian: target.code(section)?.is_big_endian() };
        for (offset, site) in sites {
            let place = (section, offset);
            let address = header.address.wrapping_add(offset);
            if site.kind == Kind::Patchable {
                if selected.has(place) {
                    let area = patchable::Area { section, offset, size: site.size };
                    match patchable::join(&target, &functions, &mut code, area) {
                        Some(is_changed) => result.made += usize::from(is_changed),
                        None => result.unjoined += 1,
                    }
                }
                continue;
            }
            if table.binary_search(&address).is_err() {
                result.unrecorded += 1;
                continue;
            }
            if !selected.has(place) {
                continue;
            }
            let hook = site.hook.and_then(|hook| finder.hooks.names.get(hook as usize));
            let hook = hook.map_or(&[][..], |name| name.as_bytes());
            let call = finder.call_at(section, offset);
            match call.and_then(|found| make(&target, &mut code, &found, hook)) {
                Some(length) => {
                    result.made += 1;
                    ranges.push((address, address.wrapping_add(length)));
                }
                None => result.without_nop.push(selected.text(place)),
            }
        }
        writes.extend(differences(view.section_data(section)?, &bytes, header.offset));
    }
    result.strays = strays(&target, &selected, &found, &table)?;
    writes.extend(relocations(view, &ranges)?);
    result.change = NopChange::Image(writes);
    Ok(result)
}

/// How many entries of `table` lead to code that is neither a known site nor a NOP. It may be a call that
/// we can't decode, so the caller must warn.
fn strays(
    target: &Target<'_, '_>,
    selected: &Selected<'_, '_>,
    found: &Found,
    table: &[u64],
) -> Result<usize> {
    let mut count = 0;
    for address in table.iter().filter(|address| **address != 0) {
        let Some((section, header)) = target.view.section_at(*address) else { continue };
        let place = (section, address - header.address);
        let is_known = found.contains_key(&place) || nops::size(target, place)? != 0;
        count += usize::from(header.is_code() && !is_known && selected.has(place));
    }
    Ok(count)
}

/// Makes a call a NOP, together with what a linker put after it. Returns their size in bytes.
fn make(
    target: &Target<'_, '_>,
    code: &mut CodeMut<'_>,
    found: &CallAt,
    hook: &[u8],
) -> Option<u64> {
    let call = &found.call;
    let size = call.end.checked_sub(call.recorded)?;
    let restore = target.arch.restore(code.as_code(), call.end);
    if call.is_relaxed() {
        target.arch.fill_with_nops(code, call.recorded, size)?;
    } else {
        call.make_nop(code, found.reference, hook)?;
    }
    target.arch.fill_with_nops(code, call.end, restore)?;
    Some(size + restore)
}

fn by_section(found: &Found) -> BTreeMap<u32, Vec<(u64, FoundSite)>> {
    let mut sections: BTreeMap<u32, Vec<(u64, FoundSite)>> = BTreeMap::new();
    for ((section, offset), site) in found {
        sections.entry(*section).or_default().push((*offset, *site));
    }
    sections
}

/// The runs of bytes in which `new` differs from `old`, which is at `offset` in the file.
fn differences(old: &[u8], new: &[u8], offset: u64) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for (at, (old, new)) in (offset..).zip(old.iter().zip(new)) {
        if old == new {
            continue;
        }
        match writes.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.push(*new),
            _ => writes.push((at, vec![*new])),
        }
    }
    writes
}

/// Removes every relocation inside `ranges`, because a dynamic relocation would change the NOP.
fn relocations(view: &View<'_>, ranges: &[(u64, u64)]) -> Result<Vec<Write>> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let (mut writes, mut dynamic) = (Vec::new(), Vec::new());
    for (index, header) in (0u32..).zip(view.sections()) {
        if !header.is_relocations() {
            continue;
        }
        for relocation in Relocations::read(view, index, header)?.iter() {
            let after = ranges.partition_point(|range| range.0 <= relocation.offset);
            let range = after.checked_sub(1).and_then(|at| ranges.get(at));
            if range.is_none_or(|range| relocation.offset >= range.1) {
                continue;
            }
            if header.flags & elf::SHF_ALLOC.0 != 0 {
                dynamic.push((*header, relocation.index));
            } else {
                let entry = header.offset + u64::from(relocation.index) * header.entry_size;
                let word = usize::try_from(view.word()).unwrap_or(8);
                writes.push((entry + view.word(), vec![0; word]));
            }
        }
    }
    let mut entries = RelocationEdit::new(view);
    entries.remove(&dynamic);
    writes.extend(entries.writes());
    Ok(writes)
}
