//! The sites of a linked image by decoding: all code is read, for calls that reach a hook.

use super::{Finder, Found};
use crate::arch::decode::{Branch, Place};
use crate::site::Source;
use object::read::elf::FileHeader;

/// A part of a section that is code: bytes from the start of the section.
struct Region {
    start: u64,
    end: u64,
    alternate: bool,
    /// Bytes from one place where an instruction may begin to the next; `None` where the
    /// instructions say that.
    step: Option<u64>,
}

impl<Elf: FileHeader> Finder<'_, '_, '_, Elf> {
    /// The sites by decoding all code.
    pub(super) fn by_decoding(&mut self, found: &mut Found) {
        if self.hooks.addresses.is_empty() && self.hooks.slots.is_empty() {
            return;
        }
        for section in 0..self.sections.len() {
            let branches = if self.decode.anchors.is_empty() {
                self.sweep(section)
            } else {
                self.sweep_functions(section)
            };
            for branch in branches {
                self.add(found, section, &branch, Source::Decoding);
            }
        }
    }

    /// Every call of a hook in a section whose instructions can be read from any one on.
    fn sweep(&mut self, section: usize) -> Vec<Branch> {
        let mut branches = Vec::new();
        for region in self.regions(section) {
            let mut at = region.start;
            while at < region.end {
                let Some(code) = self.sections.get(section) else { break };
                let place = Place { alternate: region.alternate, ..self.place(code, at) };
                if let Some(branch) = (self.decode.call)(&place)
                    && self.reaches(branch.target, 0).is_some()
                {
                    branches.push(branch);
                }
                let step = region.step.unwrap_or_else(|| (self.decode.length)(&place));
                at = at.saturating_add(step);
            }
        }
        branches
    }

    /// The parts of a section that are code.
    fn regions(&self, section: usize) -> Vec<Region> {
        let Some(section) = self.sections.get(section) else { return Vec::new() };
        let end = section.code.len();
        let whole = self.place(section, 0).alternate;
        let mut marks = vec![(0, Some(whole))];
        let symbols = self.target.symbols.as_ref().filter(|_| self.target.arch.mapping_symbols);
        for (_, symbol) in symbols.iter().flat_map(|symbols| symbols.iter()) {
            let name = symbols.map(|symbols| symbols.name(&symbol)).unwrap_or_default();
            let mark = match name {
                // $x may have the name of its instruction set: $xrv64i2p1.
                [b'$', b'x', ..] | [b'$', b'a'] | [b'$', b'a', b'.', ..] => Some(false),
                [b'$', b't'] | [b'$', b't', b'.', ..] => Some(true),
                [b'$', b'd'] | [b'$', b'd', b'.', ..] => None,
                _ => continue,
            };
            if symbol.section == Some(section.index) {
                marks.push((symbol.value.wrapping_sub(section.header.address), mark));
            }
        }
        if marks.len() == 1 && self.target.arch.mapping_symbols && self.target.arch.isa_bit {
            // Stripped: each place may be code of either instruction set.
            let region = |alternate, step| Region { start: 0, end, alternate, step: Some(step) };
            return vec![region(false, 4), region(true, 2)];
        }
        // Of several at one place the last is in force.
        marks.sort_by_key(|mark| mark.0);
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([end]);
        let parts = marks.iter().zip(ends);
        let region = |((start, mark), next): (&(u64, Option<bool>), u64)| {
            Some(Region { start: *start, end: next.min(end), alternate: (*mark)?, step: None })
        };
        parts.filter_map(region).collect()
    }

    /// Every call of a hook in a section whose instructions must be read from function starts on:
    /// bytes that would be such a call, of which those at the start of an instruction are.
    fn sweep_functions(&mut self, section: usize) -> Vec<Branch> {
        let mut candidates = Vec::new();
        let Some(code) = self.sections.get(section) else { return Vec::new() };
        let (index, bytes) = (code.index, code.code.from(0));
        for anchor in self.decode.anchors {
            for at in memchr::memmem::find_iter(bytes, anchor) {
                let at = at as u64;
                let Some(code) = self.sections.get(section) else { break };
                if let Some(branch) = (self.decode.call)(&self.place(code, at))
                    && self.reaches(branch.target, 0).is_some()
                {
                    candidates.push((at, branch));
                }
            }
        }
        candidates.sort_unstable_by_key(|candidate| candidate.0);
        candidates.dedup_by_key(|candidate| candidate.0);
        let mut starts = self.functions.starts(index).peekable();
        let Some(code) = self.sections.get(section) else { return Vec::new() };
        let mut branches = Vec::new();
        let mut at = 0;
        for (candidate, branch) in candidates {
            // Go on from the candidate before, if that was in the same function.
            while let Some(start) = starts.next_if(|start| *start <= candidate) {
                at = start;
            }
            while at < candidate {
                at = at.saturating_add((self.decode.length)(&self.place(code, at)));
            }
            if at == candidate {
                branches.push(branch);
            }
        }
        branches
    }
}
