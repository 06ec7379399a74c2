//! The calls of the hook in an object, by their relocations.
//!
//! Most objects of a kernel have some, and a few have millions of other relocations. So the order
//! of questions matters. Is the name of a hook in the string table at all? Which symbols have it?
//! Which relocations refer to those? Only then does anybody look at code.

use super::Target;
use crate::arch::{Call, Code};
use crate::elf::{Relocation, Symbols, find_all};
use crate::error::{Error, ErrorKind, Result};
use object::read::elf::FileHeader;
use std::hint::black_box;

/// gcc puts this symbol into an object that holds LTO bytecode and nothing else.
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
    /// What `arch` says of it.
    pub(crate) call: Call,
}

impl FoundCall {
    /// Its place in the order of a table.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.section, self.call.recorded)
    }
}

/// The indices of the hook symbols in `symbols`, ascending: the processor's and those called
/// `extra`.
///
/// The string table is searched first: an object without the name in it has no such symbol.
pub(crate) fn hooks<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    symbols: &Symbols<'_, Elf>,
    extra: &[String],
) -> Vec<u32> {
    let strings = symbols.strings();
    let known = target.arch.hooks.iter().copied();
    let mut names = Vec::new();
    for name in known.chain(extra.iter().map(String::as_str)) {
        let mut with_nul = name.as_bytes().to_vec();
        with_nul.push(0);
        // A name may be the tail of another: `mcount` inside `_mcount`.
        let places = find_all(strings, &with_nul).into_iter();
        names.extend(places.filter_map(|at| u32::try_from(at).ok()));
    }
    names.sort_unstable();
    match names.as_slice() {
        [] => Vec::new(),
        [one] => matching(symbols, |name| name == *one),
        _ => matching(symbols, |name| names.binary_search(&name).is_ok()),
    }
}

fn matching<Elf: FileHeader>(symbols: &Symbols<'_, Elf>, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    symbols.names().filter(|(_, name)| wanted(*name)).map(|(index, _)| index).collect()
}

/// The calls of an object, in section order, then offset order.
#[derive(Default)]
pub(crate) struct Calls {
    /// Those of sections of whose calls more than the place is wanted.
    pub(crate) whole: Vec<FoundCall>,
    /// The places of the others. There may be many, and each costs the time to fill memory.
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
/// Relocations of code are malformed or lie outside their section, or the file is slim LTO.
pub(crate) fn find<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    extra: &[String],
) -> Result<Vec<FoundCall>> {
    Ok(find_by(target, extra, |_| false)?.whole)
}

/// The same, where `is_place_enough` says of a section whether the places of its calls are all that
/// is wanted.
pub(crate) fn find_by<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    extra: &[String],
    is_place_enough: impl Fn(u32) -> bool,
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
        let greatest = relocations.of_symbols(&hooks, |reference| calls.add(reference, &mut found));
        calls.look(&mut found);
        if greatest >= symbols.count() {
            let kind = ErrorKind::Malformed("symbol index out of range");
            return Err(target.view.section_error(index, kind));
        }
        if !calls.is_ascending {
            found.whole.truncate(before.0);
            found.places.truncate(before.1);
            let mut references = Vec::new();
            relocations.of_symbols(&hooks, |reference| references.push(reference));
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

/// References whose code is touched before the first of them is looked at.
const BLOCK: usize = 64;

/// Collects the calls of one section from the references to the hook in it, in offset order.
///
/// The code of each call is in a cache line of its own that nothing has touched before. So the lines
/// of many are asked for at once; one by one, each would be waited for.
struct SectionCalls<'t, 'v, 'd, Elf: FileHeader> {
    target: &'t Target<'v, 'd, Elf>,
    section: u32,
    only_places: bool,
    code: Code<'d>,
    last: u64,
    /// Where the last call ends.
    end: u64,
    /// The references came in offset order, as those of all assemblers and linkers do.
    is_ascending: bool,
    /// The offset of a reference beyond the end of the section.
    outside: Option<u64>,
    waiting: Vec<Relocation>,
}

impl<'t, 'v, 'd, Elf: FileHeader> SectionCalls<'t, 'v, 'd, Elf> {
    fn new(target: &'t Target<'v, 'd, Elf>, section: u32, only_places: bool) -> Result<Self> {
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

    /// Looks at the references that wait.
    fn look(&mut self, found: &mut Calls) {
        let waiting = std::mem::take(&mut self.waiting);
        let first = |reference: &Relocation| self.code.from(reference.offset).first().copied();
        black_box(waiting.iter().filter_map(first).fold(0, |sum, byte| sum ^ byte));
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
        // The rest of a call that has several relocations.
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
