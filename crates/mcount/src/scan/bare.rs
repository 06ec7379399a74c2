//! The table of an image that has lost its symbols, such as the kernel inside a `vmlinuz`.
//!
//! Nothing names the bounds of the table or the hook. But a long run of ascending words that all lead to
//! calls of the same address can hardly be anything else. We only read such tables. Whatever changes a
//! file needs names.

use super::{Target, nops};
use crate::arch::Code;
use crate::arch::decode::{Decode, Goal, Place};
use crate::elf::loaded::Changes;
use crate::elf::{Section, addresses, loaded};
use std::collections::BTreeMap;

/// The fewest entries that a table must have. A few pointers to functions look the same.
const FEWEST: usize = 64;

/// The sites by the entries. Nothing, if the image has symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bare {
    /// The address and size in bytes of the table.
    pub(crate) range: Option<(u64, u64)>,
    /// The address that its entries call, if they are calls.
    pub(crate) hook: Option<u64>,
}

/// The code of a site.
enum Hook {
    /// A call of this address.
    Called(u64),
    /// NOPs as long as a call.
    Nops,
}

/// A run of ascending words that all lead to calls of one address, or to NOPs as long as a call.
#[derive(Clone, Copy, Default)]
struct Ascent {
    start: usize,
    length: usize,
    last: u64,
    hook: Option<u64>,
}

impl Bare {
    /// The longest such run in the data of `target`, if that is an image without symbols.
    pub(crate) fn find(target: &Target<'_, '_>) -> Self {
        let symbols = target.symbols.as_ref();
        if symbols.is_some_and(|symbols| symbols.iter().any(|(_, s)| s.section.is_some())) {
            return Self::default();
        }
        Self::search(target).unwrap_or_default()
    }

    fn search(target: &Target<'_, '_>) -> Option<Self> {
        let view = target.view;
        let search = Search::new(target)?;
        // Don't look at more bytes than the file has, even if sections overlap.
        let mut left = view.data.len() as u64;
        let mut best: Option<(usize, Self)> = None;
        for section in view.sections().filter(|s| s.is_loaded() && s.has_bytes() && !s.is_code()) {
            left = left.checked_sub(section.size)?;
            let Some(run) = search.longest(section) else { continue };
            if best.as_ref().is_none_or(|(length, _)| run.length > *length) {
                let address = section.address.wrapping_add(run.start as u64 * view.word());
                let size = run.length as u64 * view.word();
                best = Some((run.length, Self { range: Some((address, size)), hook: run.hook }));
            }
        }
        best.map(|(_, bare)| bare)
    }
}

/// The search for the table of an image.
struct Search<'t, 'v, 'd> {
    target: &'t Target<'v, 'd>,
    decode: Decode,
    /// The sections of code, by address.
    code: BTreeMap<u64, (u32, Section, Code<'d>)>,
    /// What loading does to words.
    changes: Changes,
}

impl<'t, 'v, 'd> Search<'t, 'v, 'd> {
    fn new(target: &'t Target<'v, 'd>) -> Option<Self> {
        let view = target.view;
        let mut code = BTreeMap::new();
        for (index, section) in (0u32..).zip(view.sections()).filter(|(_, s)| s.is_code()) {
            code.insert(section.address, (index, *section, target.code(index).ok()?));
        }
        let changes = Changes::read(view, &target.loader);
        Some(Self { target, decode: target.arch.decode?, code, changes })
    }

    /// The longest run of words in `section`, if it is long enough.
    fn longest(&self, section: &Section) -> Option<Ascent> {
        let word = self.target.view.word();
        let words = loaded::in_file(self.target.view, section.address, section.size / word);
        let (mut best, mut run) = (Ascent::default(), Ascent::default());
        let places = addresses(section.address, word);
        for (at, (place, in_file)) in places.zip(words).enumerate() {
            let word = self.changes.word(place, || Some(in_file)).unwrap_or(in_file);
            let hook = match self.at(word) {
                Some(Hook::Called(address)) => Some(address),
                Some(Hook::Nops) => None,
                None => {
                    run = Ascent::default();
                    continue;
                }
            };
            let agrees = hook.is_none() || run.hook.is_none() || hook == run.hook;
            if run.length == 0 || word <= run.last || !agrees {
                run = Ascent { start: at, ..Ascent::default() };
            }
            run = Ascent { length: run.length + 1, last: word, hook: run.hook.or(hook), ..run };
            if run.length > best.length {
                best = run;
            }
        }
        (best.length >= FEWEST).then_some(best)
    }

    /// The hook at `address`, or `None` if there is no site.
    fn at(&self, address: u64) -> Option<Hook> {
        let (_, (index, section, code)) = self.code.range(..=address).next_back()?;
        let at = Some(address - section.address).filter(|at| *at < section.size)?;
        let view = self.target.view;
        let place = Place {
            code: *code,
            base: section.address,
            at,
            alternate: view.flags() & self.target.arch.alternate_code_flag != 0,
            data_base: 0,
            is_64: view.is_64(),
            big_endian_data: view.is_big_endian(),
        };
        match (self.decode.call)(&place).map(|branch| branch.target) {
            Some(Goal::Address(goal)) => Some(Hook::Called(goal)),
            None if nops::size(self.target, (*index, at)).ok()? != 0 => Some(Hook::Nops),
            Some(Goal::Slot(_)) | None => None,
        }
    }
}
