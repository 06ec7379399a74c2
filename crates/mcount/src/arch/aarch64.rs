//! AArch64: `bl`. Instructions are little endian, whatever the data is. Kernels use patchable
//! entries; user programs `-pg`.
//!
//! Source: ELF for the Arm 64-bit Architecture, 5.7; `BTI` landing pads: Arm ARM, C6.2.

use super::{Arch, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern};

const R_AARCH64_P32_ABS32: u32 = 1;
const R_AARCH64_P32_CALL26: u32 = 21;
const R_AARCH64_ABS64: u32 = 257;
const R_AARCH64_CALL26: u32 = 283;

const NOP: Instruction = Instruction::words(&[0xd503_201f]);

const BL: Form = Form {
    opcode: &[Pattern::word(0, 0xfc00_0000, 0x9400_0000)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

const COMMON: Arch = Arch {
    machine: 183,
    hooks: &["_mcount"],
    code: CodeOrder::Little,
    nops: &[NOP],
    pads: &[
        Instruction::words(&[0xd503_245f]), // bti c
        Instruction::words(&[0xd503_249f]), // bti j
        Instruction::words(&[0xd503_24df]), // bti jc
    ],
    ..DEFAULT
};

pub(super) static ARCH: Arch = Arch {
    name: "aarch64",
    forms: &[Form { relocations: &[R_AARCH64_CALL26], ..BL }],
    address_64: Some(R_AARCH64_ABS64),
    ..COMMON
};

/// The ILP32 ABI: ELFCLASS32, with relocation numbers of its own.
pub(super) static ILP32: Arch = Arch {
    name: "aarch64_ilp32",
    forms: &[Form { relocations: &[R_AARCH64_P32_CALL26], ..BL }],
    address_32: Some(R_AARCH64_P32_ABS32),
    ..COMMON
};
