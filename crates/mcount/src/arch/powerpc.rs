//! 32-bit PowerPC: `bl`, whose link register the function saved before.
//!
//! Source: Power Architecture 32-bit ABI Supplement, 4.13.

use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_PPC_ADDR32: u32 = 1;
const R_PPC_REL24: u32 = 10;
const R_PPC_PLTREL24: u32 = 18;
const R_PPC_LOCAL24PC: u32 = 23;

pub(super) const NOP: Instruction = Instruction::words(&[0x6000_0000]);

/// A branch with its link bit, relative. Shared with `powerpc64`.
pub(super) const BL: Form = Form {
    opcode: &[Pattern::word(0, 0xfc00_0003, 0x4800_0001)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "powerpc",
    machine: 20,
    hooks: &["_mcount"],
    forms: &[Form { relocations: &[R_PPC_REL24, R_PPC_PLTREL24, R_PPC_LOCAL24PC], ..BL }],
    address_32: Some(R_PPC_ADDR32),
    nops: &[NOP],
    ..DEFAULT
};
