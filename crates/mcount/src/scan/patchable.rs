//! Patchable entries: areas of NOPs at the start of functions, listed by the compiler in
//! `__patchable_function_entries`.
//!
//! With `-fpatchable-function-entry=5,2` the first two NOPs stand before the function's symbol and the
//! other three behind it. If there is a landing pad, it comes right at the symbol, and so it parts the
//! area:
//!
//! ```text
//!   e: 90 90           nop; nop             the list has 0xe
//!  10: f3 0f 1e fa     endbr64              f:
//!  14: 90 90 90        nop; nop; nop
//! ```
//!
//! The list says where an area begins. How long it is, the code says.
//!
//! Sources: GCC manual, "-fpatchable-function-entry"; the sections are ordered by link (gABI,
//! `SHF_LINK_ORDER`) and join the COMDAT group of their function.

use super::Target;
use super::functions::Functions;
use crate::arch::CodeMut;
use crate::error::Result;
use object::read::elf::FileHeader;

pub(crate) use crate::site::PATCHABLE_SECTION as SECTION;

/// One area of NOPs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    /// The section of the function.
    pub(crate) section: u32,
    /// Where the area begins, in bytes from the start of the section.
    pub(crate) offset: u64,
    /// Bytes of NOPs; 0 if there are none, and the entry is no site.
    pub(crate) size: u64,
}

/// The areas at `places`, where the compiler's lists lead, in section order, then offset order.
///
/// # Errors
///
/// A place is in a section that cannot be read.
pub(crate) fn areas<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    mut places: Vec<(u32, u64)>,
) -> Result<Vec<Area>> {
    places.sort_unstable();
    places.dedup();
    let mut areas = Vec::with_capacity(places.len());
    for (index, (section, offset)) in places.iter().copied().enumerate() {
        let next = places.get(index + 1).filter(|next| next.0 == section).map(|next| next.1);
        let size = size(target, functions, section, offset, next)?;
        areas.push(Area { section, offset, size });
    }
    Ok(areas)
}

/// Bytes of NOPs at `offset`: up to the next area, around a landing pad at the function's start.
pub(crate) fn size<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    section: u32,
    offset: u64,
    next: Option<u64>,
) -> Result<u64> {
    let code = target.code(section)?;
    let limit = next.unwrap_or(code.len());
    let before = target.arch.nop_run(code, offset, limit);
    let end = offset + before;
    // With =N,M the first M NOPs stand before the function, whose landing pad parts the area.
    let pad = target.arch.pad(code, end);
    if pad == 0 || before != 0 && !may_start(functions, section, end) {
        return Ok(before);
    }
    Ok(before + target.arch.nop_run(code, end + pad, limit))
}

/// Whether a function starts at `offset` of `section`, or may: in a stripped file nothing tells.
fn may_start(functions: &Functions<'_>, section: u32, offset: u64) -> bool {
    !functions.are_all || functions.next_start(section, offset.saturating_sub(1)) == Some(offset)
}

/// Makes the short NOPs of `area` long ones, on processors where that matters: a running program can
/// only be patched safely where one instruction is replaced. Whether that changed anything.
///
/// A function may begin inside its area, and a landing pad stand there: no NOP goes over either. `None`,
/// with the code unchanged, where no symbol says whose the area is.
pub(crate) fn join<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    code: &mut CodeMut<'_>,
    area: Area,
) -> Option<bool> {
    let arch = target.arch;
    if !arch.joins_nops {
        return Some(false);
    }
    let before = arch.nop_run(code.as_code(), area.offset, area.offset.checked_add(area.size)?);
    let end = area.offset + before;
    let pad = arch.pad(code.as_code(), end);
    let mut changed = false;
    for (start, size) in [(area.offset, before), (end + pad, area.size.checked_sub(before)?)] {
        for part in functions.parts(area.section, start, size)? {
            let length = part.end - part.start;
            let is_long = arch.is_filled(code.as_code(), part.start, length);
            arch.fill_with_nops(code, part.start, length)?;
            changed |= !is_long;
        }
    }
    Some(changed)
}
