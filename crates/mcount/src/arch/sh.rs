//! SuperH: the site isn't a call. It is a word of data.
//!
//! ```text
//!   0: d102     mov.l c, r1
//!   2: 4f22     sts.l pr, @-r15
//!   4: c702     mova  10, r0
//!   6: 412b     jmp   @r1
//!   8: 402a     lds   r0, pr
//!   a: 0009     nop
//!   c: 00000000 .long mcount                 c: R_SH_DIR32 mcount
//!  10: 4f26     lds.l @r15+, pr
//! ```
//!
//! An address doesn't fit into an instruction of 16 bits. So it is a word in a pool of literals among the
//! code. The function loads the word and jumps there. The recorded address is that of the word: 0xc.
//!
//! Other words may have the hook's address too. A word is a site if an instruction before it loads it,
//! and a jump through that register follows. To make a NOP of the call, the `jmp` becomes a `bra` over
//! the literals, to where the hook would return.
//!
//! In position-independent code the literal is an offset in the GOT. The relocations are RELA, but GNU ld
//! ignores `r_addend` of a DIR32: the addend is in the section.
//!
//! Sources: SuperH ELF ABI (Renesas), 32-bit relocations; SH-4 Software Manual, `MOV.L @(disp,PC),Rn`.

use super::decode::{Branch, Decode, Goal, Place};
use super::{Arch, CALL, Code, CodeMut, Computed, DEFAULT, Form, Instruction, Nop};
use crate::site::Kind;
use std::ops::Range;

const R_SH_DIR32: u32 = 1;
const R_SH_GOT32: u32 = 160;
const R_SH_RELATIVE: u32 = 165;

const NOP: Instruction = Instruction::halves(&[0x0009]);

/// How many bytes before a literal an instruction can be that loads it.
const REACH: u64 = 4 + 255 * 4;
/// The most instructions from the load to the jump. gcc emits two between them.
const LONGEST: u64 = 8;

pub(super) static ARCH: Arch = Arch {
    name: "sh",
    machine: 42,
    code_step: 2,
    hooks: &["mcount", "_mcount"],
    forms: &[Form {
        relocations: &[R_SH_DIR32, R_SH_GOT32],
        follow: Some(literal),
        nop: Nop::Compute(Computed { make: skip, made: skipped }),
        kind: Kind::Literal,
        ..CALL
    }],
    address_32: Some(R_SH_DIR32),
    addend_in_section: true,
    data_bases: &[("_GLOBAL_OFFSET_TABLE_", 0), (".got.plt", 0), (".got", 0)],
    nops: &[NOP],
    decode: Some(Decode { length: two, call, stub, anchors: &[], relative: &[R_SH_RELATIVE] }),
    ..DEFAULT
};

/// The end of the literal at `offset`, if code before it loads it and jumps there.
fn literal(code: Code<'_>, offset: u64) -> Option<u64> {
    loader(code, offset).map(|_| offset + 4)
}

/// The `jmp` or `jsr` that uses the literal at `offset`.
fn loader(code: Code<'_>, offset: u64) -> Option<u64> {
    if !offset.is_multiple_of(4) {
        return None;
    }
    (1..=REACH / 2).find_map(|step| {
        let at = offset.checked_sub(step * 2)?;
        let load = code.half(at)?;
        // mov.l @(disp,PC),Rn: disp is in words, from the word after the next.
        let loads = load & 0xf000 == 0xd000 && (at & !3) + 4 + u64::from(load & 0xff) * 4 == offset;
        if loads { jump_through(code, at, load >> 8 & 15) } else { None }
    })
}

/// The `jmp` or `jsr` through `register` that soon follows the load at `load`.
fn jump_through(code: Code<'_>, load: u64, register: u32) -> Option<u64> {
    let (jmp, jsr) = (0x402b | register << 8, 0x400b | register << 8);
    (1..=LONGEST).map(|step| load + step * 2).find(|at| {
        let half = code.half(*at);
        half == Some(jmp) || half == Some(jsr)
    })
}

/// Makes the `jmp` a `bra` to where the hook would return. That is right after the literals; the `mova`
/// puts its address into `r0`.
fn skip(code: &mut CodeMut<'_>, start: u64, _: u64) -> Option<()> {
    let jump = loader(code.as_code(), start)?;
    if code.as_code().half(jump)? & 0xf0ff != 0x402b {
        return None;
    }
    let mut before = (1..=LONGEST).filter_map(|step| jump.checked_sub(step * 2));
    let resume = before.find_map(|at| {
        let half = code.as_code().half(at)?;
        (half & 0xff00 == 0xc700).then_some((at & !3) + 4 + u64::from(half & 0xff) * 4)
    })?;
    let distance = resume.checked_sub(jump + 4)? / 2;
    if !resumes(code.as_code(), resume) || distance > 0x7ff {
        return None;
    }
    let bra = 0xa000 | u32::try_from(distance).ok()?;
    code.put_half(jump, bra)
}

/// Whether `at` is where a call returns: `lds.l @r15+,pr`.
fn resumes(code: Code<'_>, at: u64) -> bool {
    code.half(at) == Some(0x4f26)
}

fn two(_: &Place<'_>) -> u64 {
    2
}

/// The call that begins at a place: a load of a literal, and a jump to it or to the address at that
/// offset in the GOT.
fn call(place: &Place<'_>) -> Option<Branch> {
    let load = place.half(0)?;
    if load & 0xf000 != 0xd000 {
        return None;
    }
    let register = load >> 8 & 15;
    let jump = jump_through(place.code, place.at, register)?;
    let (literal, value) = loaded(place)?;
    let between = place.at + 2..jump;
    // mov.l @Rn,Rn: a PLT entry.
    if has(place.code, between.clone(), 0x6002 | register << 8 | register << 4) {
        return None;
    }
    // mov.l @(r0,Rn),Rn: an offset in the GOT.
    let target = if has(place.code, between, 0x000e | register << 8 | register << 4) {
        Goal::Slot(place.truncate(place.data_base.wrapping_add(value)))
    } else {
        Goal::Address(value)
    };
    let end = literal + 4;
    Some(Branch { start: literal, reference: literal, end, target })
}

/// Whether one of these instructions is `wanted`.
fn has(code: Code<'_>, range: Range<u64>, wanted: u32) -> bool {
    range.step_by(2).any(|at| code.half(at) == Some(wanted))
}

/// The place and value of the literal that the `mov.l @(disp,PC),Rn` at a place loads.
fn loaded(place: &Place<'_>) -> Option<(u64, u64)> {
    let literal = (place.at & !3) + 4 + u64::from(place.half(0)? & 0xff) * 4;
    Some((literal, place.code.word(literal)?.into()))
}

/// Where a PLT entry leads. It loads the address of its slot, or in position-independent code its
/// distance from the GOT in `r12`, and then the slot.
fn stub(place: &Place<'_>) -> Option<Goal> {
    if place.half(0)? & 0xff00 != 0xd000 {
        return None;
    }
    let (_, value) = loaded(place)?;
    match place.half(2)? {
        // mov.l @r0,r0
        0x6002 => Some(Goal::Slot(value)),
        // mov.l @(r0,r12),r0
        0x00ce => Some(Goal::Slot(place.truncate(place.data_base.wrapping_add(value)))),
        _ => None,
    }
}

/// The size of the literal at `at`, if a `bra` shortly before it jumps over it, as [`skip`] makes it.
fn skipped(code: Code<'_>, at: u64) -> Option<u64> {
    let end = at.checked_add(4)?;
    let jumps = (2..=4).filter_map(|step| at.checked_sub(step * 2));
    let mut resumed = jumps.filter_map(|jump| {
        let half = code.half(jump).filter(|half| half & 0xf800 == 0xa000)?;
        Some(jump + 4 + u64::from(half & 0x7ff) * 2)
    });
    resumed.any(|resume| resume >= end && resumes(code, resume)).then_some(4)
}
