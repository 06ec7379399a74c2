//! LoongArch: `bl`, a medium-model pair through `ra`, and the long forms of older toolchains.
//!
//! The linker relaxes, so each table entry is a label. Instructions are little endian.
//! Source: ELF for the LoongArch Architecture, 2.30, "Relocations".

use super::{Arch, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern};

const R_LARCH_32: u32 = 1;
const R_LARCH_64: u32 = 2;
const R_LARCH_MARK_LA: u32 = 20;
const R_LARCH_SOP_PUSH_PLT_PCREL: u32 = 29;
const R_LARCH_B26: u32 = 66;
const R_LARCH_PCALA_HI20: u32 = 71;
const R_LARCH_CALL36: u32 = 110;

const NOP: Instruction = Instruction::words(&[0x0340_0000]);

const BL: Form = Form {
    relocations: &[R_LARCH_B26, R_LARCH_SOP_PUSH_PLT_PCREL],
    opcode: &[Pattern::word(0, 0xfc00_0000, 0x5400_0000)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};
/// `jirl $ra, $rj, imm`
const fn jirl(at: i8) -> Pattern {
    Pattern::word(at, 0xfc00_001f, 0x4c00_0001)
}
const PAIR: Form = Form { size: 8, nop: Nop::Write(&[(0, NOP), (4, NOP)]), ..CALL };

pub(super) static ARCH: Arch = Arch {
    name: "loongarch",
    machine: 258,
    hooks: &["_mcount"],
    forms: &[
        BL,
        Form {
            relocations: &[R_LARCH_CALL36],
            opcode: &[Pattern::word(0, 0xfe00_0000, 0x1e00_0000), jirl(4)], // pcaddu18i
            ..PAIR
        },
        Form {
            relocations: &[R_LARCH_PCALA_HI20],
            opcode: &[Pattern::word(0, 0xfe00_0000, 0x1a00_0000), jirl(4)], // pcalau12i
            ..PAIR
        },
        // lu12i.w, ori, lu32i.d, lu52i.d, jirl: an absolute address, as modules had it.
        Form {
            relocations: &[R_LARCH_MARK_LA],
            opcode: &[
                Pattern::word(0, 0xfe00_0000, 0x1400_0000),
                Pattern::word(4, 0xffc0_0000, 0x0380_0000),
                Pattern::word(8, 0xfe00_0000, 0x1600_0000),
                Pattern::word(12, 0xffc0_0000, 0x0300_0000),
                jirl(16),
            ],
            size: 20,
            nop: Nop::Write(&[(16, NOP)]),
            ..CALL
        },
    ],
    address_32: Some(R_LARCH_32),
    address_64: Some(R_LARCH_64),
    code: CodeOrder::Little,
    relaxes: true,
    nops: &[NOP],
    ..DEFAULT
};
