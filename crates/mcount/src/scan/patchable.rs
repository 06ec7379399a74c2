//! Patchable entries: areas of NOPs at the start of functions, listed by the compiler in
//! `__patchable_function_entries`.
//!
//! With `-fpatchable-function-entry=5,2`, two of the five NOPs are before the function's symbol. If there
//! is a landing pad, it is at the symbol, between the NOPs:
//!
//! ```text
//!   e: 90 90           nop; nop             the list has 0xe
//!  10: f3 0f 1e fa     endbr64              f:
//!  14: 90 90 90        nop; nop; nop
//! ```
//!
//! The list says where an area begins. Its length must be read from the code. The sections of the list
//! are linked to those of the code (`SHF_LINK_ORDER`) and are in the COMDAT groups of the functions.
//!
//! Sources: GCC manual, "-fpatchable-function-entry"; gABI, `SHF_LINK_ORDER`.

use super::Target;
use super::functions::FunctionIndex;
use crate::arch::CodeMut;
use crate::elf::{Section, loaded};
use crate::error::Result;
use crate::site::TABLE_SECTION;
use object::elf as constants;

pub(crate) use crate::site::PATCHABLE_SECTION as SECTION;

/// The prefixes of the symbols of padding. They have the type and size of a function. objtool makes the first
/// ones; clang makes the others with kCFI, where a hash is behind NOPs or before them.
const NAMES_OF_PADDING: [&[u8]; 2] = [b"__pfx_", b"__cfi_"];

/// Sections that may be a compiler's list of patchable entries by another name: `-fpatchable-function-entry=N,M,SECTION` of
/// clang. They are linked to code, and written to when they're loaded.
pub(crate) fn other_lists(target: &Target<'_, '_>) -> Vec<(u32, Section)> {
    const FLAGS: u64 =
        constants::SHF_ALLOC.0 | constants::SHF_WRITE.0 | constants::SHF_LINK_ORDER.0;
    let view = target.view;
    let is_known =
        |index| [TABLE_SECTION, SECTION].iter().any(|name| view.is_called(index, name.as_bytes()));
    // Where functions have descriptors, it's linked to these.
    let descriptors = |link| {
        let name = target.arch.descriptors;
        name.is_some_and(|name| view.is_called(link, name))
    };
    let is_of_code = |section: &Section| {
        view.section(section.link).is_ok_and(|code| code.is_code()) || descriptors(section.link)
    };
    let all = (0u32..).zip(view.sections()).filter(|(index, section)| {
        section.flags & FLAGS == FLAGS
            && section.has_bytes()
            && !section.is_code()
            && is_of_code(section)
            && !is_known(*index)
    });
    all.map(|(index, section)| (index, *section)).collect()
}

/// The lists of patchable entries of an image that have other names. Linkers keep the flags of their sections.
pub(crate) fn other_lists_of_image(target: &Target<'_, '_>) -> Vec<(u32, Section)> {
    let view = target.view;
    let is_nop = |word: &u64| {
        let address = target.address_of_hook(target.arch.listed(*word));
        let section = view.section_at(address).filter(|(_, section)| section.is_code());
        section.is_some_and(|(index, section)| {
            let code = target.code(index).ok();
            let at = address.wrapping_sub(section.address);
            code.is_some_and(|code| target.arch.nop_run(code, at, code.len()) != 0)
        })
    };
    let leads_to_nops = |(_, list): &(u32, Section)| {
        let words = loaded::words(view, list.address, list.size / view.word(), &target.loader);
        !words.is_empty() && words.iter().all(is_nop)
    };
    other_lists(target).into_iter().filter(leads_to_nops).collect()
}

/// One area of NOPs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    /// The section of the function.
    pub(crate) section: u32,
    /// Where the area begins, in bytes from the start of the section.
    pub(crate) offset: u64,
    /// The size of its NOPs in bytes. If it is 0, the entry isn't a site.
    pub(crate) size: u64,
}

/// The areas at `places`, where the compiler's lists lead, in section order, then offset order.
///
/// # Errors
///
/// A section can't be read.
pub(crate) fn areas(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
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

/// The size in bytes of the NOPs at `offset`, up to the offset `next`, without a landing pad among them.
pub(crate) fn size(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    section: u32,
    offset: u64,
    next: Option<u64>,
) -> Result<u64> {
    let code = target.code(section)?;
    let limit = next.unwrap_or(code.len());
    let before = target.arch.nop_run(code, offset, limit);
    let end = offset + before;
    // With =N,M the first M NOPs are before the function, and its landing pad is between the NOPs.
    let pad = target.arch.pad(code, end);
    if pad == 0 || before != 0 && !may_start(functions, section, end) {
        return Ok(before);
    }
    Ok(before + target.arch.nop_run(code, end + pad, limit))
}

/// Whether the area of `size` bytes at `offset` is padding: the function begins where it ends, as with `=N,N`, so no call
/// comes by. If the function's hook is a NOP, the run of NOPs doesn't end there; `is_site` says whether another
/// site is at an offset of the section. Without symbols, nothing is padding. The area may have a symbol of
/// its own: objtool gives all padding of a kernel names that begin with `__pfx_`.
pub(crate) fn is_padding(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    (section, offset): (u32, u64),
    size: u64,
    is_site: &dyn Fn(u64) -> bool,
) -> Result<bool> {
    if target.arch.areas_are_before {
        return Ok(false);
    }
    let code = target.code(section)?;
    let end = offset + target.arch.nop_run(code, offset, offset.saturating_add(size));
    let is_start = functions.last_start(section, offset) == Some(offset);
    if is_start && !is_name_of_padding(functions, (section, offset)) {
        return Ok(false);
    }
    let next = functions.next_start(section, offset);
    let Some(start) = next.filter(|start| *start <= end) else {
        // A weak function that another object overrides has no symbol any more, but it still has its hook.
        let is_nameless = functions.is_uncovered(section, offset, size) && size == end - offset;
        return Ok(is_nameless && (is_site(end) || is_site(end + target.arch.pad(code, end))));
    };
    // The name says it, even if the function begins with a NOP of its own, which a static key has.
    if is_start {
        return Ok(true);
    }
    let behind_pad = start + target.arch.pad(code, start);
    Ok(start == end && size == end - offset || is_site(start) || is_site(behind_pad))
}

/// Whether what begins at a place is padding before a function, by its name.
pub(crate) fn is_name_of_padding(functions: &FunctionIndex<'_>, place: (u32, u64)) -> bool {
    let own = functions.find(place.0, place.1, 0).filter(|(_, start)| *start == place.1);
    own.is_some_and(|(name, _)| NAMES_OF_PADDING.iter().any(|start| name.starts_with(start)))
}

/// Whether the compiler's list leads to padding at a place, where no site is. `is_site` is as in [`is_padding`].
pub(crate) fn leads_to_padding(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    (section, offset): (u32, u64),
    is_site: &dyn Fn(u64) -> bool,
) -> bool {
    let Ok(code) = target.code(section) else { return false };
    let size = target.arch.nop_run(code, offset, code.len());
    size != 0 && is_padding(target, functions, (section, offset), size, is_site).unwrap_or(false)
}

/// Whether a function may start at `offset` of `section`. In a stripped file, it may start anywhere.
fn may_start(functions: &FunctionIndex<'_>, section: u32, offset: u64) -> bool {
    !functions.are_all || functions.next_start(section, offset.saturating_sub(1)) == Some(offset)
}

/// Makes long NOPs of the short NOPs of `area`, on processors where that matters: a running program can
/// only be patched safely if one instruction is replaced. Returns whether anything changed.
///
/// A function may begin inside its area, and a landing pad may be there. No NOP reaches over either.
/// Returns `None`, with the code unchanged, if no symbol says which function the area belongs to.
pub(crate) fn join(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
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
