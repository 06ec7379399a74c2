//! A *form* of call: how to recognize one, where it is recorded, and how it becomes a NOP.
//!
//! A relocation type isn't enough to recognize a call. For example, `R_X86_64_GOTPCRELX` occurs on a
//! `call` and on a `mov`. So a form has relocation types, bits that must be around the relocation, and,
//! for calls without a fixed length, a function that follows the instructions. This is the usual call of
//! x86-64:
//!
//! ```text
//! relocations: PC32 or PLT32
//! opcode:      e8, one byte before r_offset
//! recorded:    one byte before r_offset
//! nop:         0f 1f 44 00 00, one byte before r_offset
//! ```
//!
//! The same data says how to recognize a call that became a NOP: the NOP is where it was written, and the
//! rest of the opcode is unchanged. So we recognize every NOP that we write.

use super::{Code, CodeMut, Instruction, Pattern};
use crate::site::Kind;

/// One way of calling the hook: the relocation and the opcode under it.
pub(crate) struct Form {
    /// The types that the relocation to the hook symbol may have. If there are several relocations, it is
    /// the first.
    pub(super) relocations: &'static [u32],
    /// The bits that must be there, all of them.
    pub(super) opcode: &'static [Pattern],
    /// The recorded address minus `r_offset`.
    pub(super) recorded: i8,
    /// The end of the call minus `r_offset`, if its length is fixed.
    pub(super) size: i8,
    /// Follows a sequence without a fixed length to its end. Returns `None` if it isn't a call.
    pub(super) follow: Option<Follow>,
    /// How it becomes a NOP.
    pub(super) nop: Nop,
    /// Which kind of site it is.
    pub(super) kind: Kind,
}

/// From the offset of the relocation to the end of the call.
type Follow = fn(Code<'_>, u64) -> Option<u64>;

/// The defaults, from which a form differs.
pub(super) const CALL: Form = Form {
    relocations: &[],
    opcode: &[],
    recorded: 0,
    size: 4,
    follow: None,
    nop: Nop::None,
    kind: Kind::Call,
};

/// The form of a call that only linkers make, by relaxation.
pub(super) static RELAXED: Form = CALL;

/// Instructions, each at a distance from `r_offset` in bytes.
type Patch = &'static [(i8, Instruction)];

/// How a call becomes a NOP.
pub(crate) enum Nop {
    /// It can't.
    None,
    /// By writing these instructions.
    Write(Patch),
    /// By writing the instructions that go with the name of the hook.
    ByHook(&'static [(&'static str, Patch)]),
    /// By a function, because what to write depends on the instructions that are there.
    Compute(Computed),
}

/// How a call without a fixed length becomes a NOP, and how we recognize it then.
pub(crate) struct Computed {
    /// Makes it a NOP, given `r_offset` and the end of the call.
    pub(super) make: fn(&mut CodeMut<'_>, u64, u64) -> Option<()>,
    /// The size in bytes of what `make` left at a recorded address.
    pub(super) made: fn(Code<'_>, u64) -> Option<u64>,
}

/// How far from the call [`Computed::make`] may write, in bytes.
const REACH: u64 = 2048;

impl Form {
    /// The call of this form with a relocation of type `kind` at `offset`, if it is one.
    pub(super) fn at(&'static self, code: Code<'_>, kind: u32, offset: u64) -> Option<Call> {
        if !self.relocations.contains(&kind)
            || !self.opcode.iter().all(|pattern| pattern.fits(code, offset))
        {
            return None;
        }
        let end = match self.follow {
            Some(follow) => follow(code, offset)?,
            None => offset.checked_add_signed(self.size.into())?,
        };
        let recorded = offset.checked_add_signed(self.recorded.into())?;
        (end <= code.len()).then_some(Call { recorded, end, form: self })
    }

    /// Whether the instructions of this form are there, with the relocation at `offset`.
    pub(super) fn has_opcode(&self, code: Code<'_>, offset: u64) -> bool {
        if self.opcode.is_empty() {
            return self.follow.is_some_and(|follow| follow(code, offset).is_some());
        }
        self.opcode.iter().all(|pattern| pattern.fits(code, offset))
    }

    /// The size in bytes of the NOP at `recorded` that a call of this form became. It recognizes
    /// everything that [`Call::make_nop`] writes, so that a table never loses an entry by that.
    pub(super) fn made_nop(&self, code: Code<'_>, recorded: u64) -> Option<u64> {
        let offset = recorded.checked_add_signed(-i64::from(self.recorded))?;
        let is_made = match &self.nop {
            Nop::None => false,
            Nop::Write(patch) => self.has(code, offset, patch),
            Nop::ByHook(list) => list.iter().any(|(_, patch)| self.has(code, offset, patch)),
            Nop::Compute(computed) => return (computed.made)(code, recorded),
        };
        let end = offset.checked_add_signed(self.size.into())?;
        if is_made { end.checked_sub(recorded) } else { None }
    }

    /// The recorded address of the call of this form that the NOPs at `offset` were written over.
    pub(super) fn site_of_nop(&self, code: Code<'_>, offset: u64) -> Option<u64> {
        let Nop::Write([(first, _), ..]) = self.nop else { return None };
        let reference = offset.checked_add_signed(-i64::from(*first))?;
        let recorded = reference.checked_add_signed(self.recorded.into())?;
        self.made_nop(code, recorded).map(|_| recorded)
    }

    /// Whether `patch` was written over a call of this form with its relocation at `offset`. Then `patch`
    /// is there, and so is the rest of the call.
    fn has(&self, code: Code<'_>, offset: u64, patch: Patch) -> bool {
        let mut rest = self.opcode.iter().filter(|pattern| !is_overwritten(pattern, patch));
        is_written(patch, code, offset) && rest.all(|pattern| pattern.fits(code, offset))
    }
}

/// Whether all of `patch` is there, for a relocation at `offset`.
fn is_written(patch: Patch, code: Code<'_>, offset: u64) -> bool {
    patch.iter().all(|(at, instruction)| {
        offset.checked_add_signed((*at).into()).is_some_and(|at| instruction.is_at(code, at))
    })
}

/// Whether `patch` changes some of the bits of `pattern`.
fn is_overwritten(pattern: &Pattern, patch: Patch) -> bool {
    patch.iter().any(|(at, instruction)| pattern.overlaps(*at, instruction))
}

/// A call of the hook.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Where the table must lead, in bytes from the start of the section.
    pub(crate) recorded: u64,
    /// Where the call ends. Relocations to the hook before this are part of it.
    pub(crate) end: u64,
    pub(super) form: &'static Form,
}

impl Call {
    /// The kind of site.
    pub(crate) fn kind(&self) -> Kind {
        self.form.kind
    }

    /// Whether only linkers make calls of this form.
    pub(crate) fn is_relaxed(&self) -> bool {
        std::ptr::eq(self.form, &raw const RELAXED)
    }

    /// Makes the call of `hook` with its relocation at `offset` a NOP. `None`, with the code unchanged,
    /// if that isn't possible.
    pub(crate) fn make_nop(&self, code: &mut CodeMut<'_>, offset: u64, hook: &[u8]) -> Option<()> {
        let patch = match self.form.nop {
            Nop::None => return None,
            Nop::Write(patch) => patch,
            Nop::ByHook(list) => list.iter().find(|(name, _)| name.as_bytes() == hook)?.1,
            Nop::Compute(ref computed) => return self.compute(computed, code, offset),
        };
        for (at, instruction) in patch {
            code.put(offset.checked_add_signed((*at).into())?, instruction)?;
        }
        Some(())
    }

    /// Makes the call a NOP by a function. If we couldn't recognize the result, it stays a call.
    fn compute(&self, computed: &Computed, code: &mut CodeMut<'_>, offset: u64) -> Option<()> {
        let start = usize::try_from(self.recorded.saturating_sub(REACH)).ok()?;
        let end = usize::try_from(self.end.saturating_add(REACH)).ok()?.min(code.bytes.len());
        let before = code.bytes.get(start..end)?.to_vec();
        let made = (computed.make)(code, offset, self.end);
        let known = made.and_then(|()| (computed.made)(code.as_code(), self.recorded));
        if known.is_none() {
            code.bytes.get_mut(start..end)?.copy_from_slice(&before);
        }
        known.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ALL, Arch, Unit};
    use super::*;

    /// Where the relocation is in the code of these tests.
    const AT: u64 = 64;

    /// A call of `form` among bytes that are all `background`.
    fn call(form: &Form, background: u8, big_endian: bool) -> Vec<u8> {
        let mut bytes = vec![background; 128];
        for pattern in form.opcode {
            let at = AT.checked_add_signed(pattern.at.into()).unwrap();
            let code = Code { bytes: &bytes, big_endian };
            let old = code.get(pattern.unit, at).unwrap();
            let new = old & !pattern.mask | pattern.value;
            let size = match pattern.unit {
                Unit::Byte => 1,
                Unit::Half => 2,
                Unit::Word => 4,
            };
            let mut unit = new.to_be_bytes()[4 - size..].to_vec();
            if !big_endian {
                unit.reverse();
            }
            let at = usize::try_from(at).unwrap();
            bytes[at..at + size].copy_from_slice(&unit);
        }
        bytes
    }

    /// Makes a NOP of a call of `form`, of each hook: it must be known again.
    fn judge(arch: &Arch, form: &'static Form, background: u8, big_endian: bool) -> usize {
        let mut made = 0;
        for hook in arch.hooks {
            let mut bytes = call(form, background, big_endian);
            let recorded = AT.checked_add_signed(form.recorded.into()).unwrap();
            let end = AT.checked_add_signed(form.size.into()).unwrap();
            let mut code = CodeMut { bytes: &mut bytes, big_endian };
            let call = Call { recorded, end, form };
            if call.make_nop(&mut code, AT, hook.as_bytes()).is_some() {
                let what = format!("{}, form at {recorded}, {background:#x}", arch.name);
                assert_eq!(form.made_nop(code.as_code(), recorded), Some(end - recorded), "{what}");
                assert_ne!(arch.nop_of_call(code.as_code(), recorded), 0, "{what}");
                made += 1;
            }
        }
        made
    }

    /// Of every processor, in each byte order, whatever the bits are that an instruction leaves open.
    /// Calls of no fixed length are in `tests/matrix`.
    #[test]
    fn every_form_is_known_again_once_it_is_a_nop() {
        for arch in ALL {
            let mut made = 0;
            for form in arch.forms.iter().filter(|form| form.follow.is_none()) {
                if !matches!(form.nop, Nop::Write(_) | Nop::ByHook(_)) {
                    continue;
                }
                for background in [0, 0x55, 0xaa, 0xff] {
                    made += judge(arch, form, background, false);
                    made += judge(arch, form, background, true);
                }
            }
            assert!(made != 0 || arch.name == "sh", "{}: nothing was tested", arch.name);
        }
    }

    /// A call that is still one is no NOP.
    #[test]
    fn no_form_is_taken_for_a_nop() {
        for arch in ALL {
            for form in arch.forms.iter().filter(|form| !form.opcode.is_empty()) {
                for big_endian in [false, true] {
                    let bytes = call(form, 0x55, big_endian);
                    let code = Code { bytes: &bytes, big_endian };
                    let recorded = AT.checked_add_signed(form.recorded.into()).unwrap();
                    assert_eq!(arch.nop_of_call(code, recorded), 0, "{}", arch.name);
                }
            }
        }
    }
}
