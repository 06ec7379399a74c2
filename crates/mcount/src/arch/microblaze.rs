//! MicroBlaze: `imm` and `brki r16, _mcount`, as gcc calls its hook, or `imm` and a `brlid`.
//!
//! `brki` takes an absolute address, `brlid` a relative one; each needs the `imm` before it for
//! the upper half. Source: MicroBlaze Processor Reference Guide (UG984), chapter 5.

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
    ..DEFAULT
};
