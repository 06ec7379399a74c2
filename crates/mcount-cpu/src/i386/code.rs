//! i386: as x86-64 ([`x86_64`]), with other calls of the hook, and with stubs that change no register.
//!
//! An idle site is `a9 rel32`, an armed one `e9 rel32`, and a jump reaches everything, because addresses have 32 bits. What
//! compilers leave there:
//!
//! | option | there |
//! |---|---|
//! | `-fpatchable-function-entry=5` | five bytes of NOPs |
//! | `-pg -mfentry`, not position-independent | `call __fentry__` |
//! | `-pg` | `call mcount`, or in position-independent code of gcc `call *mcount@GOT(%reg)`, after the prologue |
//!
//! A function may have arguments in any of `%eax`, `%ecx` and `%edx` (`regparm`, `fastcall`, and what compilers do of their own where
//! they know all callers). So a stub pushes the address of its record, and changes no register.
//!
//! gcc's `__x86.get_pc_thunk.*` read the address that they return to. They're no hooks, whatever they begin with.

pub use crate::hook::Position;
use crate::x86_64::code as x86_64;
pub use crate::x86_64::code::{
    ALL_STAND, BREAKPOINT, BY_BREAKPOINT, BY_ONE_BYTE, RECORD_STUB, SITE, TOO_SMALL, Unusable,
    behind_trap,
};

/// How far a jump reaches, in both directions: everywhere.
pub const REACH: u64 = 1 << 31;

const ENDBR32: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfb];

/// How many bytes the NOP at the start of `code` has; `None` if there is no NOP.
#[must_use]
pub fn nop_length(code: &[u8]) -> Option<usize> {
    let is_prefix = |byte: &&u8| matches!(byte, 0x66 | 0x2e | 0x3e | 0x26 | 0x36 | 0x64 | 0x65);
    // A prefix of 64-bit code is an instruction here.
    let first = code.iter().find(|byte| !is_prefix(byte))?;
    if *first == 0x48 { None } else { x86_64::nop_length(code) }
}

crate::area::area!("4 behind an `endbr32`.", "whole instructions, at least [`SITE`] of them.");

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's no area of five bytes.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let start = if code.starts_with(&ENDBR32) { ENDBR32.len() } else { 0 };
        let hook = code.get(start..).unwrap_or_default();
        if let Some(length) = call_length(hook) {
            return Ok(Self { start, length, is_call: true });
        }
        let mut length = 0;
        while length < SITE {
            match nop_length(hook.get(length..).unwrap_or_default()) {
                Some(nop) => length += nop,
                None if length == 0 => return Err(Unusable::NotAHook),
                None => return Err(Unusable::TooSmall(length)),
            }
        }
        if is_thunk(hook.get(length..).unwrap_or_default()) {
            return Err(Unusable::NotAHook);
        }
        Ok(Self { start, length, is_call: false })
    }

    /// The bytes that make the area idle: one five-byte NOP, then NOPs that fill it. The result has
    /// `length` bytes in use.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        let Self { start, length, is_call } = *self;
        x86_64::Area { start, length, is_call }.idle()
    }
}

/// The bytes of the call at the start of `code`: direct, alone or after the prefix that a linker leaves, or by a word of the
/// GOT.
fn call_length(code: &[u8]) -> Option<usize> {
    match code {
        [0xe8, _, _, _, _, ..] => Some(SITE),
        [0xff, 0x15 | 0x90..=0x93 | 0x95..=0x97, _, _, _, _, ..] | [0x67, 0xe8, _, _, _, _, ..] => {
            Some(SITE + 1)
        }
        _ => None,
    }
}

/// `mov (%esp), %register; ret`
fn is_thunk(code: &[u8]) -> bool {
    matches!(code, [0x8b, modrm, 0x24, 0xc3, ..] if modrm & 0xc7 == 0x04)
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on. `None`: neither, so the place of the caller's address is unknown.
///
/// At the entry, the caller's address is on top of the stack. After a prologue it's above the saved `%ebp`, or a copy of
/// it is, if the prologue has aligned the stack.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    /// `mov %esp, %ebp`, in both encodings.
    const SETS_UP: [[u8; 2]; 2] = [[0x89, 0xe5], [0x8b, 0xec]];
    if distance == 0 || distance == ENDBR32.len() as u64 && code.starts_with(&ENDBR32) {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    let mut pairs = before.unwrap_or(code).windows(2);
    pairs.any(|pair| SETS_UP.iter().any(|one| one == pair)).then_some(Position::AfterPrologue)
}

/// The armed site at `site`: a jump to `target`.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0xe9, site, target)
}

/// The idle site at `site` that becomes a jump to `target` when its first byte is changed.
#[must_use]
pub fn idle(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0xa9, site, target)
}

/// Is the area at the start of `code`, which has `length` bytes, one instruction? Then no thread can be inside
/// it.
#[must_use]
pub fn is_one_instruction(code: &[u8], length: usize) -> bool {
    match code {
        [0xe9 | 0xa9, ..] => length == SITE,
        _ => call_length(code).or_else(|| nop_length(code)) == Some(length),
    }
}

/// A stub: it pushes the address of a site's record and jumps to the address that the record has `enter` bytes behind
/// its start. `None` if the record is no address.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> Option<[u8; RECORD_STUB]> {
    let place = u32::try_from(record).ok()?;
    let parts: [&[u8]; 4] =
        [&[0x68], &place.to_le_bytes(), &[0xff, 0x25], &(place + u32::from(enter)).to_le_bytes()];
    let mut bytes = [0xcc; RECORD_STUB];
    for (room, byte) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
        *room = *byte;
    }
    Some(bytes)
}

/// An instruction of one byte and a distance, which wraps around as addresses do. `None` if one of the two is no address.
fn branch(opcode: u8, from: u64, to: u64) -> Option<[u8; SITE]> {
    let (from, to) = (u32::try_from(from).ok()?, u32::try_from(to).ok()?);
    let behind = from.wrapping_add(5);
    let [a, b, c, d] = to.wrapping_sub(behind).to_le_bytes();
    Some([opcode, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const THUNK: [u8; 4] = [0x8b, 0x1c, 0x24, 0xc3];

    #[test]
    fn areas_of_all_compilers() {
        let area = |start, length, is_call| Ok(Area { start, length, is_call });
        let table: &[(&[&[u8]], _)] = &[
            (&[&[0x90; 5], &[0x53]], area(0, 5, false)),
            (&[&[0x66, 0x90, 0x66, 0x90, 0x90, 0x53]], area(0, 5, false)),
            (&[&ENDBR32, &[0x0f, 0x1f, 0x44, 0, 8], &[0x53]], area(4, 5, false)),
            (&[&[0xe8, 1, 2, 3, 4]], area(0, 5, true)),
            (&[&[0x67, 0xe8, 1, 2, 3, 4]], area(0, 6, true)),
            (&[&[0xff, 0x93, 0xf0, 0xff, 0xff, 0xff]], area(0, 6, true)),
            (&[&[0xff, 0x15, 1, 2, 3, 4]], area(0, 6, true)),
            // A call by a place on the stack has a byte more.
            (&[&[0xff, 0x94, 0x24, 1, 2, 3, 4]], Err(Unusable::NotAHook)),
            (&[&[0xe8, 1, 2, 3]], Err(Unusable::NotAHook)),
            (&[&[0x90; 4], &[0x53]], Err(Unusable::TooSmall(4))),
            // dec %eax; nop
            (&[&[0x48, 0x90, 0x90, 0x90, 0x90, 0x90]], Err(Unusable::NotAHook)),
            (&[&[0x90; 5], &THUNK], Err(Unusable::NotAHook)),
            (&[&THUNK], Err(Unusable::NotAHook)),
            (&[], Err(Unusable::NotAHook)),
        ];
        for (code, expected) in table {
            assert_eq!(Area::find(&code.concat()), *expected, "{code:02x?}");
        }
    }

    #[test]
    fn a_jump_reaches_everything() {
        for (from, to) in [(0x0804_9000, 0xffff_0000), (0xf7f0_0000, 0x1_0000), (0, 5)] {
            let bytes = armed(from, to).unwrap();
            let distance = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            let reached = (u32::try_from(from).unwrap().wrapping_add(5)).wrapping_add(distance);
            assert_eq!(u64::from(reached), to);
            assert_eq!(idle(from, to).unwrap()[1..], bytes[1..]);
        }
        assert_eq!(armed(1 << 32, 0), None);
    }

    #[test]
    fn a_hook_behind_a_prologue_needs_a_frame_pointer() {
        let with = [0x55, 0x89, 0xe5, 0x53, 0xe8, 0, 0, 0, 0];
        assert_eq!(position(&with, 4), Some(Position::AfterPrologue));
        assert_eq!(position(&[0x53, 0xe8, 0, 0, 0, 0, 0x89, 0xe5], 1), None);
        assert_eq!(position(&ENDBR32, 4), Some(Position::Entry));
        assert_eq!(position(&[0x53; 8], 4), None);
    }

    #[test]
    fn what_is_one_instruction() {
        assert!(is_one_instruction(&[0xff, 0x93, 0, 0, 0, 0], 6));
        assert!(is_one_instruction(&armed(0, 9).unwrap(), 5));
        assert!(is_one_instruction(&[0x0f, 0x1f, 0x44, 0, 0], 5));
        assert!(!is_one_instruction(&[0x90; 5], 5));
    }

    #[test]
    fn a_stub_has_two_addresses() {
        let stub = record_stub(0x1122_3344, 8).unwrap();
        assert_eq!(stub[..5], [0x68, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(stub[5..11], [0xff, 0x25, 0x4c, 0x33, 0x22, 0x11]);
        assert_eq!(record_stub(1 << 32, 8), None);
    }
}
