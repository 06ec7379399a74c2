//! Hooks that are NOPs already: a table that leads to them tells them from padding. Without one,
//! some processors' NOPs are known by their bits, and that is taken for a site only if asked for.

use super::Target;
use super::functions::Functions;
use crate::error::Result;
use object::read::elf::FileHeader;
use std::collections::BTreeSet;

/// Those of `places`, which entries lead to, where a NOP as long as a call stands.
///
/// # Errors
///
/// One is in a section that cannot be read.
pub(crate) fn recorded<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    places: impl Iterator<Item = (u32, u64)>,
) -> Result<Vec<(u32, u64)>> {
    let mut found = Vec::new();
    for place in places {
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
    Ok(target.arch.nop_of_call(target.code(section)?, offset))
}

/// Every place where the compiler left a NOP in place of a call, in section order, then offset
/// order. A relocation there makes it something else: a branch that is filled in later.
///
/// # Errors
///
/// Relocations of code are malformed.
pub(crate) fn decoded<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
) -> Result<Vec<(u32, u64)>> {
    let mut found = Vec::new();
    for (section, header) in (0u32..).zip(target.view.sections()) {
        if header.is_code() {
            let places = target.arch.hook_nops(target.code(section)?, functions.starts(section));
            found.extend(places.into_iter().map(|offset| (section, offset)));
        }
    }
    if !found.is_empty() {
        let relocated = relocated(target)?;
        let size = target.arch.call_size;
        let is_free = |place: &(u32, u64)| {
            relocated.range((place.0, place.1)..(place.0, place.1 + size)).next().is_none()
        };
        found.retain(is_free);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The places in code that have relocations.
fn relocated<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> Result<BTreeSet<(u32, u64)>> {
    let mut places = BTreeSet::new();
    for (index, header, section) in target.code_relocations()? {
        let list = target.relocations(index, &header)?;
        places.extend(list.iter().map(|relocation| (section, relocation.offset)));
    }
    Ok(places)
}
