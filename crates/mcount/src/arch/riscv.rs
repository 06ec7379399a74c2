//! RISC-V: a pair of instructions that the linker may shorten.
//!
//! ```text
//!   a: 00000097     auipc ra, 0              a: R_RISCV_CALL_PLT _mcount
//!   e: 000080e7     jalr  ra                 a: R_RISCV_RELAX
//! ```
//!
//! `auipc` has the upper 20 bits of the distance, and `jalr` has the lower 12. The linker *relaxes* code:
//! if the hook turns out to be near, it replaces the pair by a `jal`, or by a `c.jal` of two bytes, and
//! moves all code after it. A table entry "section plus 24" would then be wrong. So each entry refers to
//! a label of its own at the call. The linker moves labels together with the code.
//!
//! Instructions are little endian and have two or four bytes; the lowest two bits tell.
//!
//! Source: RISC-V ELF psABI, "Relocations", "Linker Relaxation".

use super::decode::{Branch, Decode, Goal, Place, signed};
use super::{
    Arch, Arithmetic, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern, Step, add, set,
    subtract,
};

const R_RISCV_32: u32 = 1;
const R_RISCV_64: u32 = 2;
const R_RISCV_RELATIVE: u32 = 3;
const R_RISCV_CALL: u32 = 18;
const R_RISCV_CALL_PLT: u32 = 19;
const R_RISCV_ADD8: u32 = 33;
const R_RISCV_ADD16: u32 = 34;
const R_RISCV_ADD32: u32 = 35;
const R_RISCV_ADD64: u32 = 36;
const R_RISCV_SUB8: u32 = 37;
const R_RISCV_SUB16: u32 = 38;
const R_RISCV_SUB32: u32 = 39;
const R_RISCV_SUB64: u32 = 40;
const R_RISCV_ALIGN: u32 = 43;
const R_RISCV_RELAX: u32 = 51;
const R_RISCV_SUB6: u32 = 52;
const R_RISCV_SET6: u32 = 53;
const R_RISCV_SET8: u32 = 54;
const R_RISCV_SET16: u32 = 55;
const R_RISCV_SET32: u32 = 56;
const R_RISCV_SET_ULEB128: u32 = 60;
const R_RISCV_SUB_ULEB128: u32 = 61;

const NOP: Instruction = Instruction::words(&[0x0000_0013]);
const C_NOP: Instruction = Instruction::halves(&[0x0001]);

const AUIPC: Pattern = Pattern::word(0, 0x7f, 0x17);
/// A `jalr` that links in `ra`, and one that links in `t0`, the alternate link register.
const JALR_RA: Pattern = Pattern::word(4, 0x7fff, 0x00e7);
const JALR_T0: Pattern = Pattern::word(4, 0x7fff, 0x02e7);

const PAIR: Form = Form {
    relocations: &[R_RISCV_CALL, R_RISCV_CALL_PLT],
    size: 8,
    nop: Nop::Write(&[(0, NOP), (4, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "riscv",
    machine: 243,
    code_step: 2,
    relax_marks: &[R_RISCV_ALIGN, R_RISCV_RELAX],
    hooks: &["_mcount", "mcount"],
    forms: &[
        Form { opcode: &[AUIPC, JALR_RA], ..PAIR },
        Form { opcode: &[AUIPC, JALR_T0], ..PAIR },
    ],
    address_32: Some(R_RISCV_32),
    address_64: Some(R_RISCV_64),
    code: CodeOrder::Little,
    mapping_symbols: true,
    relaxes: true,
    arithmetic: &[
        add(R_RISCV_ADD8, 8),
        add(R_RISCV_ADD16, 16),
        add(R_RISCV_ADD32, 32),
        add(R_RISCV_ADD64, 64),
        subtract(R_RISCV_SUB6, 6),
        subtract(R_RISCV_SUB8, 8),
        subtract(R_RISCV_SUB16, 16),
        subtract(R_RISCV_SUB32, 32),
        subtract(R_RISCV_SUB64, 64),
        set(R_RISCV_SET6, 6),
        set(R_RISCV_SET8, 8),
        set(R_RISCV_SET16, 16),
        set(R_RISCV_SET32, 32),
        Arithmetic { kind: R_RISCV_SET_ULEB128, bits: None, step: Step::Set },
        Arithmetic { kind: R_RISCV_SUB_ULEB128, bits: None, step: Step::Subtract },
    ],
    // A c.jal has two bytes.
    call_size: 2,
    nops: &[NOP, C_NOP],
    lists_nops: true,
    decode: Some(Decode { length, call, stub, anchors: &[], relative: &[R_RISCV_RELATIVE] }),
    ..DEFAULT
};

fn length(place: &Place<'_>) -> u64 {
    if place.half(0).unwrap_or(0) & 3 == 3 { 4 } else { 2 }
}

/// The call at a place: the pair, or what relaxation made of it, which is `jal`, or `c.jal` in 32-bit
/// code.
fn call(place: &Place<'_>) -> Option<Branch> {
    let half = place.half(0)?;
    if half & 3 != 3 {
        let is_c_jal = !place.is_64 && half & 0xe003 == 0x2001;
        return if is_c_jal {
            place.branch(0, 2, Goal::Address(place.address(c_jal(half))))
        } else {
            None
        };
    }
    let word = place.word(0)?;
    match word & 0xfff {
        0x0ef | 0x2ef => place.near(jal(word)),
        // jalr relative to 0, if the linker found that the target is near 0.
        0x0e7 | 0x2e7 if word & 0xf_f000 == 0 => place.branch(
            0,
            4,
            Goal::Address(place.truncate(signed(word >> 20, 12).cast_unsigned())),
        ),
        0x097 | 0x297 | 0x317 => {
            let second = place.word(4)?;
            let register = word >> 7 & 31;
            let is_call = second & 0x707f == 0x67 && second >> 15 & 31 == register;
            let links = matches!(second >> 7 & 31, 1 | 5);
            let distance = i64::from((word & 0xffff_f000).cast_signed()) + signed(second >> 20, 12);
            let target = Goal::Address(place.address(distance));
            if is_call && links { place.branch(0, 8, target) } else { None }
        }
        _ => None,
    }
}

/// The displacement of a `jal`.
fn jal(word: u32) -> i64 {
    let bits = word >> 31 << 20
        | (word >> 12 & 0xff) << 12
        | (word >> 20 & 1) << 11
        | (word >> 21 & 0x3ff) << 1;
    signed(bits, 21)
}

/// The displacement of a `c.jal`.
fn c_jal(half: u32) -> i64 {
    // Bits 2 to 12 of the instruction are these bits of the displacement.
    let places = [5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11];
    let bits = (2..).zip(places).map(|(from, to)| (half >> from & 1) << to);
    signed(bits.sum(), 12)
}

/// Where a PLT entry leads: `auipc t3; l[wd] t3, (t3); jalr t1, t3`.
fn stub(place: &Place<'_>) -> Option<Goal> {
    let (first, second) = (place.word(0)?, place.word(4)?);
    let loads = second & 0xf_ffff == 0xe_2e03 || second & 0xf_ffff == 0xe_3e03;
    let distance = i64::from((first & 0xffff_f000).cast_signed()) + signed(second >> 20, 12);
    (first & 0xfff == 0xe17 && loads).then(|| Goal::Slot(place.address(distance)))
}
