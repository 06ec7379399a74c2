//! The forms of a call of the hook: which relocation and opcode it has, where it is recorded, and
//! how it becomes a NOP.

use super::{Code, CodeMut, Instruction, Pattern};
use crate::site::Kind;

/// One way of calling the hook: the relocation and the opcode under it.
pub(crate) struct Form {
    /// The types that the (first) relocation to the hook symbol may have.
    pub(super) relocations: &'static [u32],
    /// What must be there. All of it.
    pub(super) opcode: &'static [Pattern],
    /// The recorded address minus `r_offset`.
    pub(super) recorded: i8,
    /// The end of the call minus `r_offset`, where its length is fixed.
    pub(super) size: i8,
    /// Follows a sequence whose length is not fixed: its end, or `None` if it is no call.
    pub(super) follow: Option<Follow>,
    /// How it is turned into something that does nothing.
    pub(super) nop: Nop,
    /// The kind of site that it is.
    pub(super) kind: Kind,
}

/// Follows the instructions from the relocation at an offset to the end of the call.
type Follow = fn(Code<'_>, u64) -> Option<u64>;

/// Values that a form overrides where they differ.
pub(super) const CALL: Form = Form {
    relocations: &[],
    opcode: &[],
    recorded: 0,
    size: 4,
    follow: None,
    nop: Nop::None,
    kind: Kind::Call,
};

/// A call whose form only the linker makes, by relaxation.
pub(super) static RELAXED: Form = CALL;

/// Instructions at bytes from `r_offset`.
type Patch = &'static [(i8, Instruction)];

/// How a call becomes a NOP.
pub(crate) enum Nop {
    /// It cannot, in this form.
    None,
    /// By writing these instructions.
    Write(Patch),
    /// The same where it depends on the hook: the first of these names decides.
    ByHook(&'static [(&'static str, Patch)]),
    /// By a function of `r_offset` and the end of the call.
    Compute(fn(&mut CodeMut<'_>, u64, u64) -> Option<()>),
}

impl Form {
    pub(super) fn at(&'static self, code: Code<'_>, kind: u32, offset: u64) -> Option<Call> {
        let fits = |pattern: &Pattern| pattern.fits(code, offset);
        if !self.relocations.contains(&kind) || !self.opcode.iter().all(fits) {
            return None;
        }
        let end = match self.follow {
            Some(follow) => follow(code, offset)?,
            None => offset.checked_add_signed(self.size.into())?,
        };
        let recorded = offset.checked_add_signed(self.recorded.into())?;
        (end <= code.len()).then_some(Call { recorded, end, form: self })
    }
}

/// A call of the hook that was found in code.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Where the table must point: bytes from the start of the section.
    pub(crate) recorded: u64,
    /// Where the call ends: relocations to the hook before this are part of it.
    pub(crate) end: u64,
    pub(super) form: &'static Form,
}

impl Call {
    /// The kind of site.
    pub(crate) fn kind(&self) -> Kind {
        self.form.kind
    }

    /// Only a linker makes this form.
    pub(crate) fn is_relaxed(&self) -> bool {
        std::ptr::eq(self.form, &raw const RELAXED)
    }

    /// Makes the call of `hook` at `offset` (its relocation's) do nothing.
    ///
    /// `None`, with the code unchanged, where that is not possible.
    pub(crate) fn make_nop(&self, code: &mut CodeMut<'_>, offset: u64, hook: &[u8]) -> Option<()> {
        let patch = match self.form.nop {
            Nop::None => return None,
            Nop::Write(patch) => patch,
            Nop::ByHook(list) => list.iter().find(|(name, _)| name.as_bytes() == hook)?.1,
            Nop::Compute(compute) => return compute(code, offset, self.end),
        };
        for (at, instruction) in patch {
            code.put(offset.checked_add_signed((*at).into())?, instruction)?;
        }
        Some(())
    }
}
