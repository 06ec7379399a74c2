//! Hooks that are NOPs already: nothing but a table that leads to them tells them from padding.

use super::Target;
use crate::error::Result;
use crate::table::Entry;
use object::read::elf::FileHeader;

/// The places among `entries` where a NOP as long as a call stands.
///
/// # Errors
///
/// An entry leads to a section that cannot be read.
pub(crate) fn recorded<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    entries: &[Entry],
) -> Result<Vec<(u32, u64)>> {
    let mut found = Vec::new();
    for place in entries.iter().filter_map(|entry| entry.place) {
        if size(target, place)? != 0 {
            found.push(place);
        }
    }
    Ok(found)
}

/// Bytes of the NOP at `place` that a call became; 0 if there is none.
pub(crate) fn size<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    (section, offset): (u32, u64),
) -> Result<u64> {
    if !target.view.section(section)?.is_code() {
        return Ok(0);
    }
    let code = target.code(section)?;
    let limit = offset.saturating_add(target.arch.call_size);
    let run = target.arch.nop_run(code, offset, code.len().min(limit));
    Ok(if run == target.arch.call_size { run } else { 0 })
}
