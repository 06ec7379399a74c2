//! LoongArch: `bl`, and a few longer calls.
//!
//! Compilers emit `bl`, which reaches 128 MiB. In the medium code model, a call is a pair of
//! instructions, `pcaddu18i` and `jirl` through `ra`. Older assemblers had no relocations for these. They
//! computed addresses on a stack of relocations (`R_LARCH_SOP_*`), and modules loaded an absolute address
//! in four instructions.
//!
//! The linker deletes code, as on RISC-V, so each table entry refers to a label of its own. Instructions
//! have four bytes and are little endian.
//!
//! Source: ELF for the LoongArch Architecture, 2.30, "Relocations".

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::{
    Arch, Arithmetic, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern, Step, add,
    subtract,
};

const R_LARCH_32: u32 = 1;
const R_LARCH_64: u32 = 2;
const R_LARCH_RELATIVE: u32 = 3;
const R_LARCH_MARK_LA: u32 = 20;
const R_LARCH_SOP_PUSH_PLT_PCREL: u32 = 29;
const R_LARCH_ADD8: u32 = 47;
const R_LARCH_ADD16: u32 = 48;
const R_LARCH_ADD24: u32 = 49;
const R_LARCH_ADD32: u32 = 50;
const R_LARCH_ADD64: u32 = 51;
const R_LARCH_SUB8: u32 = 52;
const R_LARCH_SUB16: u32 = 53;
const R_LARCH_SUB24: u32 = 54;
const R_LARCH_SUB32: u32 = 55;
const R_LARCH_SUB64: u32 = 56;
const R_LARCH_B26: u32 = 66;
const R_LARCH_PCALA_HI20: u32 = 71;
const R_LARCH_GOT_PC_HI20: u32 = 75;
const R_LARCH_RELAX: u32 = 100;
const R_LARCH_ALIGN: u32 = 102;
const R_LARCH_ADD6: u32 = 105;
const R_LARCH_SUB6: u32 = 106;
const R_LARCH_ADD_ULEB128: u32 = 107;
const R_LARCH_SUB_ULEB128: u32 = 108;
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
    relax_marks: &[R_LARCH_RELAX, R_LARCH_ALIGN],
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
        // pcalau12i, addi.d $ra, $zero, lu32i.d, lu52i.d, ldx.d, jirl: the extreme code model.
        Form {
            relocations: &[R_LARCH_GOT_PC_HI20],
            opcode: &[
                Pattern::word(0, 0xfe00_0000, 0x1a00_0000),
                Pattern::word(4, 0xffc0_03ff, 0x02c0_0001),
                Pattern::word(8, 0xfe00_001f, 0x1600_0001),
                Pattern::word(12, 0xffc0_03ff, 0x0300_0021),
                Pattern::word(16, 0xffff_801f, 0x380c_0001),
                jirl(20),
            ],
            size: 24,
            nop: Nop::Write(&[(0, NOP), (4, NOP), (8, NOP), (12, NOP), (16, NOP), (20, NOP)]),
            ..CALL
        },
        // lu12i.w, ori, lu32i.d, lu52i.d, jirl: an absolute address, as in older modules.
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
            nop: Nop::Write(&[(0, NOP), (16, NOP)]),
            ..CALL
        },
    ],
    address_32: Some(R_LARCH_32),
    address_64: Some(R_LARCH_64),
    code: CodeOrder::Little,
    relaxes: true,
    arithmetic: &[
        add(R_LARCH_ADD6, 6),
        add(R_LARCH_ADD8, 8),
        add(R_LARCH_ADD16, 16),
        add(R_LARCH_ADD24, 24),
        add(R_LARCH_ADD32, 32),
        add(R_LARCH_ADD64, 64),
        subtract(R_LARCH_SUB6, 6),
        subtract(R_LARCH_SUB8, 8),
        subtract(R_LARCH_SUB16, 16),
        subtract(R_LARCH_SUB24, 24),
        subtract(R_LARCH_SUB32, 32),
        subtract(R_LARCH_SUB64, 64),
        Arithmetic { kind: R_LARCH_ADD_ULEB128, bits: None, step: Step::Add },
        Arithmetic { kind: R_LARCH_SUB_ULEB128, bits: None, step: Step::Subtract },
    ],
    nops: &[NOP],
    lists_nops: true,
    decode: Some(Decode { length: four, call, stub, anchors: &[], relative: &[R_LARCH_RELATIVE] }),
    ..DEFAULT
};

/// The call at a place: `bl`, or `pcaddu18i` and `jirl` through the same register.
fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word & 0xfc00_0000 == 0x5400_0000 {
        return place.near(signed((word & 0x3ff) << 16 | word >> 10 & 0xffff, 26) * 4);
    }
    let second = place.word(4)?;
    let is_call = word & 0xfe00_0000 == 0x1e00_0000
        && second & 0xfc00_001f == 0x4c00_0001
        && second >> 5 & 31 == word & 31;
    let distance = (signed(word >> 5, 20) << 18) + signed(second >> 10, 16) * 4;
    let target = Goal::Address(place.address(distance));
    if is_call { place.branch(0, 8, target) } else { None }
}

/// Where a stub leads: a branch, or a PLT entry, `pcaddu12i $t3; ld.[dw] $t3, $t3`.
fn stub(place: &Place<'_>) -> Option<Goal> {
    let (first, second) = (place.word(0)?, place.word(4)?);
    if first & 0xfc00_0000 == 0x5000_0000 {
        let distance = signed((first & 0x3ff) << 16 | first >> 10 & 0xffff, 26) * 4;
        return Some(Goal::Address(place.address(distance)));
    }
    let loads = matches!(second & 0xffc0_03ff, 0x28c0_01ef | 0x2880_01ef);
    let distance = (signed(first >> 5, 20) << 12) + signed(second >> 10, 12);
    (first & 0xfe00_001f == 0x1c00_000f && loads).then(|| Goal::Slot(place.address(distance)))
}
