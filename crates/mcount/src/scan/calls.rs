//! The calls of the hook in an object, by their relocations.
//!
//! An object may have millions of other relocations, so the order of the questions matters. Is the name
//! of a hook in the string table at all? Which symbols have it? Which relocations refer to these symbols?
//! Only then do we look at code.

use super::Target;
use crate::arch::{Call, Code};
use crate::elf::{Relocation, Symbols, find_all};
use crate::error::{Error, ErrorKind, Result};
use std::hint::black_box;

/// gcc puts this symbol into an object that only has LTO bytecode.
const SLIM_LTO: &[u8] = b"__gnu_lto_slim\0";

/// A call of the hook in a section of an object.
#[derive(Clone, Copy)]
pub(crate) struct FoundCall {
    /// The section that holds the call.
    pub(crate) section: u32,
    /// Index of the hook symbol.
    pub(crate) hook: u32,
    /// The offset of the call's first relocation.
    pub(crate) reference: u64,
    /// What `arch` says about it.
    pub(crate) call: Call,
}

impl FoundCall {
    /// Its place in the order of a table.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.section, self.call.recorded)
    }
}

/// The indices of the hook symbols in `symbols`, in ascending order. Hooks are those of the processor,
/// and those called `extra`.
///
/// This searches the string table first, because most objects don't have the name at all.
pub(crate) fn hooks(target: &Target<'_, '_>, symbols: &Symbols<'_>, extra: &[String]) -> Vec<u32> {
    let strings = symbols.strings();
    let known = target.arch.hooks.iter().copied();
    let mut names = Vec::new();
    for name in known.chain(extra.iter().map(String::as_str)) {
        let with_nul = [name.as_bytes(), &[0]].concat();
        // A name may be the tail of another: `mcount` inside `_mcount`.
        let places = find_all(strings, &with_nul).into_iter();
        names.extend(places.filter_map(|at| u32::try_from(at).ok()));
    }
    names.sort_unstable();
    match names.as_slice() {
        [] => Vec::new(),
        [one] => matching(symbols, &|name| name == *one),
        _ => matching(symbols, &|name| names.binary_search(&name).is_ok()),
    }
}

fn matching(symbols: &Symbols<'_>, wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
    symbols.names().filter(|(_, name)| wanted(*name)).map(|(index, _)| index).collect()
}

/// The calls of an object, in section order, then offset order.
#[derive(Default)]
pub(crate) struct Calls {
    /// The calls of which more than the place is needed.
    pub(crate) whole: Vec<FoundCall>,
    /// The places of the others. There may be many, and filling memory takes time.
    pub(crate) places: Vec<(u32, u64)>,
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.places.is_empty()
    }

    fn sort(&mut self) {
        if !self.whole.is_sorted_by_key(FoundCall::place) {
            self.whole.sort_by_key(FoundCall::place);
        }
        self.whole.dedup_by_key(|call| call.place());
        if !self.places.is_sorted() {
            self.places.sort_unstable();
        }
        self.places.dedup();
    }
}

/// Every call of a hook in `target`, in section order, then offset order.
///
/// # Errors
///
/// Relocations of code are malformed or outside their section, or the file only has LTO bytecode.
pub(crate) fn find(target: &Target<'_, '_>, extra: &[String]) -> Result<Vec<FoundCall>> {
    Ok(find_by(target, extra, &|_| false)?.whole)
}

/// The same. `is_place_enough` says for which sections only the places of calls are needed.
pub(crate) fn find_by(
    target: &Target<'_, '_>,
    extra: &[String],
    is_place_enough: &dyn Fn(u32) -> bool,
) -> Result<Calls> {
    let mut found = Calls::default();
    let sections = target.code_relocations()?;
    let Some(symbols) = &target.symbols else { return Ok(found) };
    let hooks = hooks(target, symbols, extra);
    if hooks.is_empty() {
        let is_slim = sections.is_empty() && !find_all(symbols.strings(), SLIM_LTO).is_empty();
        return if is_slim { Err(Error::new(ErrorKind::SlimLto)) } else { Ok(found) };
    }
    for (index, header, section) in sections {
        let relocations = target.relocations(index, &header)?;
        let only_places = is_place_enough(section);
        let mut calls = SectionCalls::new(target, section, only_places)?;
        let before = (found.whole.len(), found.places.len());
        let greatest =
            relocations.of_symbols(&hooks, &mut |reference| calls.add(reference, &mut found));
        calls.look(&mut found);
        if greatest >= symbols.count() {
            let kind = ErrorKind::Malformed("symbol index out of range");
            return Err(target.view.section_error(index, kind));
        }
        if !calls.is_ascending {
            found.whole.truncate(before.0);
            found.places.truncate(before.1);
            let mut references = Vec::new();
            relocations.of_symbols(&hooks, &mut |reference| references.push(reference));
            references.sort_by_key(|reference| reference.offset);
            calls = SectionCalls::new(target, section, only_places)?;
            for reference in references {
                calls.add(reference, &mut found);
            }
            calls.look(&mut found);
        }
        if let Some(offset) = calls.outside {
            let kind = ErrorKind::Malformed("a relocation lies outside its section");
            return Err(target.view.offset_error(index, offset, kind));
        }
    }
    found.sort();
    Ok(found)
}

/// How many references to collect before looking at their code.
const BLOCK: usize = 64;

/// Collects the calls of a section from its references to the hook, which come in offset order.
///
/// The code of each call is in a cache line that nothing has touched yet. So we ask for the lines of many
/// calls at once. One by one, we would wait for each.
struct SectionCalls<'t, 'v, 'd> {
    target: &'t Target<'v, 'd>,
    section: u32,
    only_places: bool,
    code: Code<'d>,
    last: u64,
    /// Where the last call ends.
    end: u64,
    /// Whether the references came in offset order. Those of all assemblers and linkers do.
    is_ascending: bool,
    /// The offset of a reference after the end of the section.
    outside: Option<u64>,
    waiting: Vec<Relocation>,
}

impl<'t, 'v, 'd> SectionCalls<'t, 'v, 'd> {
    fn new(target: &'t Target<'v, 'd>, section: u32, only_places: bool) -> Result<Self> {
        let code = target.code(section)?;
        Ok(Self {
            target,
            section,
            only_places,
            code,
            last: 0,
            end: 0,
            is_ascending: true,
            outside: None,
            waiting: Vec::new(),
        })
    }

    fn add(&mut self, reference: Relocation, found: &mut Calls) {
        self.waiting.push(reference);
        if self.waiting.len() == BLOCK {
            self.look(found);
        }
    }

    /// Looks at the code of the references that were collected.
    fn look(&mut self, found: &mut Calls) {
        let waiting = std::mem::take(&mut self.waiting);
        let first = waiting.iter().filter_map(|reference| self.code.from(reference.offset).first());
        black_box(first.fold(0, |sum, byte| sum ^ byte));
        for reference in &waiting {
            self.look_at(reference, found);
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    fn look_at(&mut self, reference: &Relocation, found: &mut Calls) {
        self.is_ascending &= reference.offset >= self.last;
        self.last = reference.offset;
        if reference.offset >= self.code.len() {
            self.outside = self.outside.or(Some(reference.offset));
            return;
        }
        // Another relocation of the same call.
        if reference.offset < self.end {
            return;
        }
        if let Some(call) = self.target.arch.call(self.code, reference.kind, reference.offset) {
            self.end = call.end;
            if self.only_places {
                found.places.push((self.section, call.recorded));
                return;
            }
            found.whole.push(FoundCall {
                section: self.section,
                hook: reference.symbol,
                reference: reference.offset,
                call,
            });
        }
    }
}
