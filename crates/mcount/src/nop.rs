//! Turning calls of the hook into instructions that do nothing: here in an object; `late::nop` does
//! it in an image.

use crate::Options;
use crate::arch::CodeMut;
use crate::elf::edit::{Change, Edit};
use crate::elf::{Verb, View};
use crate::error::Result;
use crate::late::{self, Write};
use crate::scan::calls::{self, FoundCall};
use crate::scan::functions::Functions;
use crate::scan::{Target, patchable};
use crate::table;
use object::read::elf::FileHeader;
use std::collections::BTreeSet;

/// Whether a function is one of those, by its name; empty for a call that is in no function.
pub type Select<'a> = &'a dyn Fn(&[u8]) -> bool;

/// What turning calls into NOPs comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nops<T> {
    /// What to write.
    pub change: T,
    /// Sites that became NOPs, or one NOP of several.
    pub made: usize,
    /// Sites that have no NOP of their size.
    pub left: usize,
    /// Calls that the table does not have; they are left alone.
    pub unrecorded: usize,
}

/// How a file is changed: an object by appending, an image in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NopChange {
    /// `None` if there is nothing to do.
    Object(Option<Change>),
    /// Bytes at offsets of the file.
    Image(Vec<Write>),
}

/// [`crate::make_nops`], for each class and byte order.
pub(crate) struct MakeNops<'o> {
    pub(crate) options: &'o Options,
    pub(crate) select: Select<'o>,
}

impl<'d> Verb<'d> for MakeNops<'_> {
    type Output = Nops<NopChange>;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Nops<NopChange>> {
        let is_object = view.file_type() == 1;
        if !is_object {
            let Nops { change, made, left, unrecorded } =
                late::nops(view, self.options, self.select)?;
            return Ok(Nops { change: NopChange::Image(change), made, left, unrecorded });
        }
        let target = Target::new(view)?;
        let functions = Functions::new(&target)?;
        let table = table::read(&target, self.options.table_section.as_bytes())?;
        let listed: BTreeSet<_> = table.iter().filter_map(|entry| entry.place).collect();
        let calls = calls::find(&target, &self.options.hooks)?;
        let unrecorded = calls.iter().filter(|call| !listed.contains(&call.place())).count();
        let is_selected = |(section, offset): (u32, u64)| {
            let function = functions.find(section, offset, 0);
            (self.select)(function.map(|(name, _)| name).unwrap_or_default())
        };
        let selected: Vec<_> = calls
            .into_iter()
            .filter(|call| listed.contains(&call.place()) && is_selected(call.place()))
            .collect();
        let mut edit = Edit::new(view);
        let done = make(&target, &mut edit, &selected)?.len();
        let areas = patchable::areas(&target, &functions)?;
        let areas = areas.into_iter().filter(|area| is_selected((area.section, area.offset)));
        let joined = join(&target, &functions, &mut edit, areas)?;
        let is_changed = done + joined != 0;
        let change = if is_changed { Some(edit.finish()?) } else { None };
        Ok(Nops {
            change: NopChange::Object(change),
            made: done + joined,
            left: selected.len() - done,
            unrecorded,
        })
    }
}

/// Makes areas of short NOPs ones of long NOPs; how many changed.
fn join<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    edit: &mut Edit<'_, '_, Elf>,
    areas: impl Iterator<Item = patchable::Area>,
) -> Result<usize> {
    let mut joined = 0;
    for area in areas.filter(|_| target.arch.joins_nops) {
        let big_endian = target.code(area.section)?.is_big_endian();
        let mut code = CodeMut { bytes: edit.body(area.section)?, big_endian };
        if patchable::join(target, functions, &mut code, area) == Some(true) {
            joined += 1;
        }
    }
    Ok(joined)
}

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
