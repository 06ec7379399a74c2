//! Turning calls of the hook into instructions that do nothing, in an object.

use crate::arch::CodeMut;
use crate::elf::edit::Edit;
use crate::error::Result;
use crate::scan::Target;
use crate::scan::calls::FoundCall;
use object::read::elf::FileHeader;
use std::collections::BTreeSet;

/// Makes NOPs of `calls`, which are in section order, and `R_*_NONE` of their relocations.
///
/// The places of those that could be; a call in a form that has no NOP of its size is left alone.
///
/// # Errors
///
/// The relocations of the code are malformed.
pub(crate) fn make<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    edit: &mut Edit<'_, '_, Elf>,
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
        done.extend(
            calls.iter().filter(|call| call.call.make_nop(&mut code, call.reference).is_some()),
        );
        if done.len() != before {
            *edit.body(section)? = bytes;
        }
    }
    clear_relocations(target, edit, &done)?;
    Ok(done.iter().map(FoundCall::place).collect())
}

/// Makes every relocation to the hook inside `calls` an `R_*_NONE`.
fn clear_relocations<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    edit: &mut Edit<'_, '_, Elf>,
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
        target.relocations(index, &header)?.of_symbols(&hooks, |relocation| {
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
