//! C-SKY: `jsri` through a literal, or `bsr` if the hook is near.
//!
//! A `jsri` loads the address of its target from a word after the function. That word also has a
//! relocation to the hook, but it isn't a site. The assembler or the linker may replace the `jsri` by a
//! `bsr` with the same relocation.
//!
//! A `push lr` before the call saves the link register, and the hook pops it. So both become NOPs. A call
//! without its `push` can't become one. Instructions consist of halfwords; the upper one comes first in
//! either byte order.
//!
//! Source: C-SKY CPU ABI Standard V2, chapter 4.

use super::decode::{Branch, Decode, Goal, Place, no_stub, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_CKCORE_ADDR32: u32 = 1;
const R_CKCORE_PCREL_IMM26BY2: u32 = 19;
const R_CKCORE_PCREL_JSR_IMM26BY2: u32 = 40;

const NOP: Instruction = Instruction::halves(&[0xc400, 0x4820]);
const NOP16: Instruction = Instruction::halves(&[0x6c03]);
const NOP_BOTH: Nop = Nop::Write(&[(-2, NOP16), (0, NOP)]);

/// `push lr`
const PUSH_LR: Pattern = Pattern::half(-2, 0xffff, 0x14d0);
const JSRI: Pattern = Pattern::half(0, 0xffff, 0xeae0);
const BSR: Pattern = Pattern::half(0, 0xfc00, 0xe000);

pub(super) static ARCH: Arch = Arch {
    name: "csky",
    machine: 252,
    code_step: 2,
    hooks: &["_mcount"],
    forms: &[
        Form {
            relocations: &[R_CKCORE_PCREL_JSR_IMM26BY2],
            opcode: &[PUSH_LR, JSRI],
            nop: NOP_BOTH,
            ..CALL
        },
        Form { relocations: &[R_CKCORE_PCREL_JSR_IMM26BY2], opcode: &[JSRI], ..CALL },
        Form {
            relocations: &[R_CKCORE_PCREL_JSR_IMM26BY2, R_CKCORE_PCREL_IMM26BY2],
            opcode: &[PUSH_LR, BSR],
            nop: NOP_BOTH,
            ..CALL
        },
        Form {
            relocations: &[R_CKCORE_PCREL_JSR_IMM26BY2, R_CKCORE_PCREL_IMM26BY2],
            opcode: &[BSR],
            ..CALL
        },
    ],
    address_32: Some(R_CKCORE_ADDR32),
    nops: &[NOP, NOP16],
    decode: Some(Decode { length, call, stub: no_stub, anchors: &[], relative: &[] }),
    ..DEFAULT
};

fn length(place: &Place<'_>) -> u64 {
    if place.half(0).unwrap_or(0) & 0xc000 == 0xc000 { 4 } else { 2 }
}

/// The call at a place: `bsr`, or `jsri` with its literal.
fn call(place: &Place<'_>) -> Option<Branch> {
    let (high, low) = (place.half(0)?, place.half(2)?);
    if high & 0xfc00 == 0xe000 {
        return place.near(signed((high & 0x3ff) << 16 | low, 26) * 2);
    }
    if high != 0xeae0 {
        return None;
    }
    let literal = (place.address(0) + u64::from(low) * 4) & !3;
    let target = place.code.word(literal.checked_sub(place.base)?)?;
    place.branch(0, 4, Goal::Address(target.into()))
}
