//! The sites of a linked image.
//!
//! The relocations that led to the calls are gone, unless the linker was told to keep them. So [`Finder`]
//! first finds the hooks, by their symbols, and what leads to them: PLT entries, veneers, words that
//! the loader fills. Then it finds the calls, in a file for each way: by kept relocations, by
//! decoding all code, and by the compiler's list of patchable entries.

mod code;
mod decoding;
mod hooks;
mod patchable_entries;
mod relocations;

use self::code::{CodeSection, ImageCode, Layout};
use self::hooks::{Hooks, find_data_base};
use self::relocations::Followed;
use super::functions::FunctionIndex;
use super::{Target, nops, patchable};
use crate::arch::Call;
use crate::arch::decode::{Branch, Goal};
use crate::elf::loaded::{self, Changes};
use crate::error::{Error, ErrorKind, Result};
use crate::helpers::Helpers;
use crate::site::{Kind, Source};
use foldhash::HashMap;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A site in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundSite {
    pub(crate) kind: Kind,
    /// The number of bytes from the site to the end of the call or of the NOPs.
    pub(crate) size: u64,
    /// The position of the hook's name in [`Hooks::names`].
    pub(crate) hook: Option<u32>,
    pub(crate) source: Source,
}

/// A call in an image, and where its relocation was.
pub(crate) struct CallAt {
    pub(crate) call: Call,
    /// Where its relocation was, in bytes from the start of the section.
    pub(crate) reference: u64,
}

/// The sites of an image by section and offset.
pub(crate) type Found = BTreeMap<(u32, u64), FoundSite>;

/// The work on one image.
pub(crate) struct Finder<'t, 'v, 'd> {
    target: &'t Target<'v, 'd>,
    functions: &'t FunctionIndex<'d>,
    code: ImageCode<'d>,
    pub(crate) hooks: Hooks,
    helpers: Helpers,
    /// Each call that was found, if they are kept.
    calls: Option<HashMap<(u32, u64), Branch>>,
    /// The hooks that calls reach, as far as we know.
    known: HashMap<Goal, Option<u32>>,
    /// What loading does to words. Read when it is first needed.
    changes: Option<Changes>,
    /// How far the instructions of a function were followed.
    followed: Cell<Followed>,
}

impl<'t, 'v, 'd> Finder<'t, 'v, 'd> {
    /// # Errors
    ///
    /// We can't decode the processor's code, or the image is malformed.
    pub(crate) fn new(
        target: &'t Target<'v, 'd>,
        functions: &'t FunctionIndex<'d>,
        extra: &[String],
        helpers: Helpers,
    ) -> Result<Self> {
        let decode = target.arch.decode.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported("no decoder for images of this processor"))
        })?;
        let mut sections = Vec::new();
        for (index, header) in (0u32..).zip(target.view.sections()) {
            if header.is_code() {
                sections.push(CodeSection { index, header: *header, code: target.code(index)? });
            }
        }
        let names = target.arch.hooks.iter().copied().chain(extra.iter().map(String::as_str));
        let names = names.map(Arc::from).collect();
        let hooks = Hooks { names, ..Hooks::default() };
        let known = HashMap::default();
        let view = target.view;
        let layout = Layout {
            alternate: view.flags() & target.arch.alternate_code_flag != 0,
            data_base: find_data_base(target),
            is_64: view.is_64(),
            big_endian_data: view.is_big_endian(),
        };
        let mut finder = Self {
            target,
            functions,
            code: ImageCode::new(decode, layout, target.arch.isa_bit, sections),
            hooks,
            helpers,
            known,
            calls: None,
            changes: None,
            followed: Cell::default(),
        };
        finder.find_hooks()?;
        Ok(finder)
    }

    /// Every site of the image.
    ///
    /// # Errors
    ///
    /// Relocations or lists are malformed.
    pub(crate) fn find(&mut self) -> Result<Found> {
        let mut found = Found::new();
        self.by_relocations(&mut found)?;
        // Decode too: a linker that redirects a call to a stub may also redirect its relocation.
        self.by_decoding(&mut found);
        self.by_patchable_entries(&mut found)?;
        Ok(found)
    }

    /// The addresses in the table of the image, in ascending order. `range` is its address and size in
    /// bytes.
    pub(crate) fn table(&self, range: Option<(u64, u64)>) -> Vec<u64> {
        let view = self.target.view;
        let Some((address, size)) = range else { return Vec::new() };
        let words = loaded::words(view, address, size / view.word(), &self.target.loader);
        let place = |word: &u64| self.target.address_of_hook(self.target.arch.entry(*word));
        let mut entries: Vec<_> = words.iter().map(place).collect();
        entries.sort_unstable();
        entries
    }

    /// Adds the NOPs that calls became and that the image's own table leads to. Nothing else tells them
    /// from padding. `table` has the addresses, in ascending order. Where the compiler leaves NOPs only as patchable entries,
    /// a site is all of them, before its function too.
    pub(crate) fn by_table(&self, table: &[u64], found: &mut Found) -> Result<()> {
        let following = table.iter().skip(1).map(Some).chain([None]);
        for (address, next) in table.iter().zip(following).filter(|(at, _)| **at != 0) {
            let Some(section) = self.code.section_of(*address) else { continue };
            let place = (section.index, address - section.header.address);
            if found.contains_key(&place) {
                continue;
            }
            let mut size = nops::size(self.target, place)?;
            if size != 0 && self.target.arch.lists_nops {
                let next = next.map(|next| next - section.header.address);
                let next = next.filter(|next| *next < section.header.size);
                let area = patchable::size(self.target, self.functions, place.0, place.1, next)?;
                size = size.max(area);
            }
            if size != 0 {
                let source = Source::Table;
                found.insert(place, FoundSite { kind: Kind::Nop, size, hook: None, source });
            }
        }
        Ok(())
    }

    /// Adds the call `branch`, if it reaches a hook. Returns whether it does.
    fn add(&mut self, found: &mut Found, section: usize, branch: &Branch, source: Source) -> bool {
        let Some(hook) = self.reaches(branch.target) else { return false };
        let Some(section) = self.code.sections.get(section) else { return false };
        let call = self.target.arch.decoded(section.code, branch);
        let Call { recorded, end, .. } = call;
        let size = end.saturating_sub(recorded);
        // What relocations told is better than what decoding tells afterwards.
        if overlaps(found, section.index, recorded, size) {
            return true;
        }
        if let Some(calls) = &mut self.calls {
            calls.insert((section.index, recorded), *branch);
        }
        let what = FoundSite { kind: call.kind(), size, hook: Some(hook), source };
        found.insert((section.index, recorded), what);
        true
    }

    /// Makes [`Finder::find`] keep the calls, for [`Finder::call_at`].
    pub(crate) fn keep_calls(&mut self) {
        self.calls = Some(HashMap::default());
    }

    /// The call that was found at `offset` of `section`, if calls are kept.
    pub(crate) fn call_at(&self, section: u32, offset: u64) -> Option<CallAt> {
        let branch = self.calls.as_ref()?.get(&(section, offset))?;
        let code = self.code.sections.get(self.code.position(section)?)?.code;
        let call = self.target.arch.decoded(code, branch);
        Some(CallAt { call, reference: branch.reference })
    }
}

/// Whether a known site has bytes in common with these.
fn overlaps(found: &Found, section: u32, offset: u64, size: u64) -> bool {
    let before = found.range((section, 0)..(section, offset.saturating_add(size)));
    before.last().is_some_and(|((_, start), site)| start.saturating_add(site.size) > offset)
}
