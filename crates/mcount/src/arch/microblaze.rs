//! MicroBlaze: gcc calls the hook by a software break, `brki`.
//!
//! An instruction has room for a number of 16 bits. If that isn't enough, an `imm` before it has the
//! upper 16 bits, and one relocation on the `imm` is for both. gcc calls the hook by `imm; brki r16,
//! _mcount`, with an absolute address. An ordinary call is `imm; brlid`, with a relative one. Both are
//! sites.
//!
//! Source: MicroBlaze Processor Reference Guide (UG984), chapter 5.

use super::decode::{Branch, Decode, Goal, Place, four, no_stub, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_MICROBLAZE_32: u32 = 1;
const R_MICROBLAZE_64_PCREL: u32 = 3;
const R_MICROBLAZE_64: u32 = 5;

/// `or r0, r0, r0`
const NOP: Instruction = Instruction::words(&[0x8000_0000]);
const IMM: Pattern = Pattern::word(0, 0xffff_0000, 0xb000_0000);

const PAIR: Form = Form { size: 8, nop: Nop::Write(&[(0, NOP), (4, NOP)]), ..CALL };

pub(super) static ARCH: Arch = Arch {
    name: "microblaze",
    machine: 189,
    hooks: &["_mcount"],
    forms: &[
        Form {
            relocations: &[R_MICROBLAZE_64],
            opcode: &[IMM, Pattern::word(4, 0xffff_0000, 0xba0c_0000)],
            ..PAIR
        },
        Form {
            relocations: &[R_MICROBLAZE_64_PCREL],
            opcode: &[IMM, Pattern::word(4, 0xfc1f_0000, 0xb814_0000)],
            ..PAIR
        },
    ],
    address_32: Some(R_MICROBLAZE_32),
    nops: &[NOP],
    decode: Some(Decode { length: four, call, stub: no_stub, anchors: &[], relative: &[] }),
    ..DEFAULT
};

/// The call at a place: `brlid` or `brki r16`, with an `imm` before it, or without if the linker deleted
/// that.
fn call(place: &Place<'_>) -> Option<Branch> {
    let first = place.word(0)?;
    let has_imm = first & 0xffff_0000 == 0xb000_0000;
    let (at, jump) = if has_imm { (4, place.word(4)?) } else { (0, first) };
    let high = if has_imm { first << 16 } else { 0 };
    let value = if has_imm {
        i64::from((high | jump & 0xffff).cast_signed())
    } else {
        signed(jump & 0xffff, 16)
    };
    let target = if jump & 0xfc1f_0000 == 0xb814_0000 {
        place.skip(at).address(value)
    } else if jump & 0xffff_0000 == 0xba0c_0000 {
        place.truncate(value.cast_unsigned())
    } else {
        return None;
    };
    place.branch(0, at + 4, Goal::Address(target))
}
