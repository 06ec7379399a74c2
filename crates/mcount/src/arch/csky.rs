//! C-SKY: `jsri` through a literal, or `bsr` once the linker (or assembler) found it near.
//!
//! The literal of a `jsri` has a relocation of its own to the hook; that is no site. The hook
//! pops the link register that a `push` before the call saved, so both become NOPs.
//! Instructions are made of halfwords, the upper one first in either byte order.
//! Source: C-SKY CPU ABI Standard V2, chapter 4.

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
    ..DEFAULT
};
