//! NOPs: those that calls become, those that patchable areas consist of, and those that compilers leave
//! in place of calls. Landing pads, which occur among them.

use super::{Arch, Code, CodeMut, Instruction};
use crate::site::Kind;

/// The NOP that a compiler leaves in place of a call of the hook.
#[derive(Clone, Copy)]
pub(crate) struct HookNop {
    pub(super) instruction: Instruction,
    /// Instructions begin at multiples of this many bytes.
    pub(super) step: u64,
    /// Whether nothing else ever has these bits, so that we recognize it anywhere. Otherwise we recognize
    /// it only at the start of a function.
    pub(super) anywhere: bool,
}

impl Arch {
    /// The size in bytes of what a call that was recorded at `offset` became; 0 if it still is a call, or
    /// never was one.
    ///
    /// Other tools make NOPs that are at least as long as a call. We may leave some of the call before
    /// the NOPs.
    pub(crate) fn nop_of_call(&self, code: Code<'_>, offset: u64) -> u64 {
        let mut size = 0;
        while size < self.call_size {
            let Some(nop) = self.nop_at(code, offset.saturating_add(size)) else {
                let made = self.forms.iter().find_map(|form| form.made_nop(code, offset));
                return made.unwrap_or(0);
            };
            size += nop;
        }
        size
    }

    /// The recorded address and the size of what a call became, if its relocation was, or still is, at
    /// `reference`.
    pub(crate) fn nop_of_reference(&self, code: Code<'_>, reference: u64) -> Option<(u64, u64)> {
        let distances = self.forms.iter().map(|form| i64::from(form.recorded));
        let places = distances.filter_map(|distance| reference.checked_add_signed(distance));
        // The one that begins first, because the end of a NOP often is a NOP too.
        places.filter_map(|at| Some((at, self.nop_around(code, at, reference)?))).min()
    }

    /// The size of what a call became, if it was recorded at `recorded` and had its relocation at
    /// `reference`.
    fn nop_around(&self, code: Code<'_>, recorded: u64, reference: u64) -> Option<u64> {
        let made = self.forms.iter().filter_map(|form| form.made_nop(code, recorded)).max();
        let first = self.nop_at(code, recorded);
        let covers = first.is_some_and(|size| recorded.saturating_add(size) > reference);
        let own = Some(self.nop_of_call(code, recorded)).filter(|size| covers && *size != 0);
        made.max(own)
    }

    /// The size in bytes of the NOP at `offset`, if there is one.
    fn nop_at(&self, code: Code<'_>, offset: u64) -> Option<u64> {
        match self.decode_nop {
            Some(decode_nop) => decode_nop(code, offset),
            None => self.nops.iter().find(|nop| nop.is_at(code, offset)).map(Instruction::size),
        }
    }

    /// Fills `size` bytes from `offset` with NOPs, the longest first. `None` if they don't fit; then some
    /// of the code has changed.
    pub(crate) fn fill_with_nops(
        &self,
        code: &mut CodeMut<'_>,
        offset: u64,
        size: u64,
    ) -> Option<()> {
        let end = offset.checked_add(size)?;
        let mut at = offset;
        while at < end {
            let fitting = self.nops.iter().filter(|nop| nop.size() <= end - at);
            let nop = fitting.max_by_key(|nop| nop.size())?;
            code.put(at, nop)?;
            at += nop.size();
        }
        Some(())
    }

    /// The size in bytes of what a linker put after a call that ends at `end`, and that belongs to the
    /// call; 0 if there is nothing.
    pub(crate) fn restore(&self, code: Code<'_>, end: u64) -> u64 {
        self.restores.iter().find(|restore| restore.is_at(code, end)).map_or(0, Instruction::size)
    }

    /// Whether as few NOPs as [`Arch::fill_with_nops`] needs fill the `size` bytes at `offset`.
    pub(crate) fn is_filled(&self, code: Code<'_>, offset: u64, size: u64) -> bool {
        let Some(end) = offset.checked_add(size) else { return false };
        let longest = self.nops.iter().map(Instruction::size).max().unwrap_or(1);
        let mut at = offset;
        for _ in 0..size.div_ceil(longest) {
            let Some(nop) = self.nop_at(code, at) else { return false };
            at += nop;
            if at >= end {
                break;
            }
        }
        at == end
    }

    /// Whether a site of this kind is an area, which may begin before its function.
    pub(crate) fn is_area(&self, kind: Kind) -> bool {
        kind == Kind::Patchable || kind == Kind::Nop && self.lists_nops
    }

    /// The size in bytes of the run of NOPs from `offset` up to the offset `limit`; 0 if there is no NOP.
    pub(crate) fn nop_run(&self, code: Code<'_>, offset: u64, limit: u64) -> u64 {
        let mut at = offset;
        while let Some(size) = self.nop_at(code, at) {
            // It ends inside the code, so this can't overflow.
            if at + size > limit {
                break;
            }
            at += size;
        }
        at - offset
    }

    /// The places in `code` where the compiler left a NOP in place of the call.
    pub(crate) fn hook_nops(
        &self,
        code: Code<'_>,
        functions: impl Iterator<Item = u64>,
    ) -> Vec<u64> {
        let Some(nop) = self.hook_nop else { return Vec::new() };
        if nop.anywhere {
            let places = (0..code.len()).step_by(usize::try_from(nop.step).unwrap_or(1));
            return places.filter(|at| nop.instruction.is_at(code, *at)).collect();
        }
        let entry = functions.map(|start| start + self.pad(code, start));
        entry.filter(|at| nop.instruction.is_at(code, *at)).collect()
    }

    /// The recorded address of the call that the NOP at `offset` means. The NOP takes the place of the
    /// call alone, and what belongs to the call may begin before it, as on s390.
    pub(crate) fn site_of_nop(&self, code: Code<'_>, offset: u64) -> u64 {
        let sites = self.forms.iter().filter_map(|form| form.site_of_nop(code, offset));
        sites.min().unwrap_or(offset)
    }

    /// The size in bytes of what is at `offset` and may be between the NOPs of an area: a landing pad, or a global
    /// entry. 0 if there is none.
    pub(crate) fn pad(&self, code: Code<'_>, offset: u64) -> u64 {
        let pad = self.pads.iter().find(|pad| pad.is_at(code, offset)).map(Instruction::size);
        pad.unwrap_or_else(|| {
            self.global_entry.map_or(0, |global_entry| global_entry(code, offset))
        })
    }

    /// The size in bytes of the global entry at `offset`, if NOPs are after it; otherwise 0.
    pub(crate) fn global_entry_before_nops(&self, code: Code<'_>, offset: u64) -> u64 {
        let size = self.global_entry.map_or(0, |global_entry| global_entry(code, offset));
        let is_nop = size != 0 && self.nop_at(code, offset.saturating_add(size)).is_some();
        if is_nop { size } else { 0 }
    }
}
