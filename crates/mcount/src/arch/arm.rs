//! Arm, both instruction sets: `push {lr}; bl __gnu_mcount_nc`, or a bare `bl` of the older hooks.
//!
//! The hook pops what `push {lr}` pushed, so both instructions go when the call becomes NOPs.
//! A BE8 file says in `e_flags` that its instructions are little endian; an object from the
//! assembler is big endian throughout. Bit 0 of a function symbol's value means Thumb.
//! Source: ELF for the Arm Architecture, 5.6.

use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_ARM_PC24: u32 = 1;
const R_ARM_ABS32: u32 = 2;
const R_ARM_THM_CALL: u32 = 10;
const R_ARM_PLT32: u32 = 27;
const R_ARM_CALL: u32 = 28;
const EF_ARM_BE8: u32 = 0x0080_0000;

/// `mov r0, r0`: the NOP of every Arm processor; the architected one came with ARMv6K.
const NOP: Instruction = Instruction::words(&[0xe1a0_0000]);
const THUMB_NOP: Instruction = Instruction::halves(&[0xbf00]);
const THUMB_WIDE_NOP: Instruction = Instruction::halves(&[0xf3af, 0x8000]);

/// `push {lr}`, the instruction before the call, as `str lr, [sp, #-4]!` and as `stmfd sp!, {lr}`.
const PUSH_LR: Pattern = Pattern::word(-4, u32::MAX, 0xe52d_e004);
const STMFD_LR: Pattern = Pattern::word(-4, u32::MAX, 0xe92d_4000);
const BL: Pattern = Pattern::word(0, 0xff00_0000, 0xeb00_0000);
/// `blx label` with its H bit: a call from Arm to Thumb code.
const BLX: Pattern = Pattern::word(0, 0xfe00_0000, 0xfa00_0000);

const THUMB_PUSH_LR: Pattern = Pattern::half(-2, 0xffff, 0xb500);
/// `bl`, and `blx` to Arm code, in two halves.
const THUMB_BL: Pattern = Pattern::half(0, 0xf800, 0xf000);
const THUMB_BL_LOW: Pattern = Pattern::half(2, 0xc000, 0xc000);

const BLS: &[u32] = &[R_ARM_PC24, R_ARM_PLT32, R_ARM_CALL];

const WITH_PUSH: Form = Form {
    relocations: BLS,
    opcode: &[PUSH_LR, BL],
    nop: Nop::Write(&[(-4, NOP), (0, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "arm",
    machine: 40,
    hooks: &["__gnu_mcount_nc", "_mcount", "mcount"],
    forms: &[
        WITH_PUSH,
        Form { opcode: &[STMFD_LR, BL], ..WITH_PUSH },
        Form { relocations: BLS, opcode: &[BL], ..CALL },
        Form { relocations: BLS, opcode: &[BLX], ..CALL },
        Form {
            relocations: &[R_ARM_THM_CALL],
            opcode: &[THUMB_PUSH_LR, THUMB_BL, THUMB_BL_LOW],
            nop: Nop::Write(&[(-2, THUMB_NOP), (0, THUMB_WIDE_NOP)]),
            ..CALL
        },
        Form { relocations: &[R_ARM_THM_CALL], opcode: &[THUMB_BL, THUMB_BL_LOW], ..CALL },
    ],
    address_32: Some(R_ARM_ABS32),
    little_endian_code_flag: EF_ARM_BE8,
    isa_bit: true,
    nops: &[
        THUMB_WIDE_NOP,
        NOP,
        Instruction::words(&[0xe320_f000]),
        THUMB_NOP,
        Instruction::halves(&[0x46c0]),
    ],
    ..DEFAULT
};
