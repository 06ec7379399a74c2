//! The sites of an image by the relocations that `ld --emit-relocs` kept.
//!
//! They only say where to look. The linker may have changed the instruction with the relocation, and
//! moved it by a few bytes.

use super::code::CodeSection;
use super::{Finder, Found, FoundSite, overlaps};
use crate::arch::decode::Place;
use crate::elf::Relocations;
use crate::error::Result;
use crate::site::Source;
use object::elf;

/// How far after the start of a call its relocation can be. The longest distance comes first, because an
/// x86 call with a prefix looks like one without.
const TO_REFERENCE: [u64; 4] = [FARTHEST, 2, 1, 0];
const FARTHEST: u64 = 22;

/// How far the instructions of a function were followed, so that we don't follow them from the start of
/// the function for each call.
#[derive(Clone, Copy, Default)]
pub(super) struct Followed {
    section: u32,
    /// Where the function begins, in bytes from the start of the section.
    function: u64,
    /// Where an instruction begins.
    instruction: u64,
}

impl<'d> Finder<'_, '_, 'd> {
    /// Adds the sites by the relocations that `ld --emit-relocs` kept.
    pub(super) fn by_relocations(&mut self, found: &mut Found) -> Result<()> {
        let view = self.target.view;
        let Some(symbols) = &self.target.symbols else { return Ok(()) };
        let named = std::mem::take(&mut self.hooks.symbols);
        let hooks: Vec<_> = named.iter().map(|(index, _)| *index).collect();
        let mut places = Vec::new();
        for (index, header) in (0u32..).zip(view.sections()) {
            let is_kept = header.is_relocations()
                && header.flags & elf::SHF_ALLOC.0 == 0
                && header.link == symbols.section;
            let section = self.code.position(header.info);
            let (Some(section), true) = (section, is_kept) else { continue };
            Relocations::read(view, index, header)?.of_symbols(&hooks, &mut |relocation| {
                if let Ok(at) = hooks.binary_search(&relocation.symbol)
                    && let Some((_, hook)) = named.get(at)
                {
                    places.push(((section, relocation.offset), (relocation.kind, *hook)));
                }
            });
        }
        // If several are at one place, the last one counts.
        places.reverse();
        places.sort_by_key(|(place, _)| *place);
        places.dedup_by_key(|(place, _)| *place);
        for ((section, address), (kind, hook)) in places {
            if !self.relocated_call(found, section, address) {
                self.call_of_object(found, section, address, kind, hook);
            }
        }
        Ok(())
    }

    /// Adds the call that a relocation at `address` is part of. Returns whether there is one.
    fn relocated_call(&mut self, found: &mut Found, section: usize, address: u64) -> bool {
        let Some(code) = self.code.sections.get(section) else { return false };
        let Some(reference) = address.checked_sub(code.header.address) else { return false };
        let mut branches = Vec::new();
        for back in TO_REFERENCE {
            let Some(at) = reference.checked_sub(back) else { continue };
            let place = self.code.place(code, at);
            // It may be of either instruction set. The one in which it calls a hook is right.
            let other = Place { alternate: !place.alternate, ..place };
            let others = if self.target.arch.isa_bit { Some(other) } else { None };
            for place in std::iter::once(place).chain(others) {
                let branch = (self.code.decode.call)(&place);
                let branch = branch.filter(|branch| branch.reference == reference);
                branches.extend(branch.filter(|_| self.is_instruction(code, at)));
            }
        }
        branches.iter().any(|branch| self.add(found, section, branch, Source::Relocations))
    }

    /// Adds the call if it is still the same as in the object.
    fn call_of_object(
        &self,
        found: &mut Found,
        section: usize,
        address: u64,
        kind: u32,
        hook: u32,
    ) {
        let Some(section) = self.code.sections.get(section) else { return };
        let Some(reference) = address.checked_sub(section.header.address) else { return };
        if let Some(call) = self.target.arch.call(section.code, kind, reference) {
            let size = call.end.saturating_sub(call.recorded);
            // If a call has several relocations, the first one is enough.
            if !overlaps(found, section.index, call.recorded, size) {
                let (kind, source) = (call.kind(), Source::Relocations);
                let what = FoundSite { kind, size, hook: Some(hook), source };
                found.insert((section.index, call.recorded), what);
            }
        }
    }

    /// Whether an instruction begins at `at`.
    fn is_instruction(&self, section: &CodeSection<'d>, at: u64) -> bool {
        if self.code.decode.anchors.is_empty() {
            return true;
        }
        let function = self.functions.last_start(section.index, at).unwrap_or(0);
        let followed = self.followed.get();
        let is_on_the_way = (followed.section, followed.function) == (section.index, function)
            && followed.instruction <= at;
        let mut next = if is_on_the_way { followed.instruction } else { function };
        let mut instruction = next;
        while next < at {
            // Relocations are in ascending order, so the next call isn't before this.
            if next.saturating_add(FARTHEST) <= at {
                instruction = next;
            }
            next = next.saturating_add((self.code.decode.length)(&self.code.place(section, next)));
        }
        self.followed.set(Followed { section: section.index, function, instruction });
        next == at
    }
}
