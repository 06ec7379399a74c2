//! MIPS, all ABIs: `jal`, the long calls through a register, and PIC calls through the GOT.
//!
//! A call that goes through a register has one to four relocations to the hook. It is one site,
//! at the first instruction of the sequence: from the relocation that can only begin one, the
//! register is followed to the `jalr` that jumps through it. o32 hooks pop eight bytes that
//! the delay slot pushed, so the delay slot goes with the call when that becomes NOPs.
//! Sources: System V ABI, MIPS RISC Processor Supplement, 4; MIPS 64-bit ELF Object File
//! Specification, 2.9 (three relocation types packed in one word).

use super::{Arch, CALL, Code, CodeMut, DEFAULT, Form, Instruction, Nop, Pattern, micromips};

const R_MIPS_32: u32 = 2;
const R_MIPS_26: u32 = 4;
const R_MIPS_HI16: u32 = 5;
const R_MIPS_CALL16: u32 = 11;
const R_MIPS_64: u32 = 18;
const R_MIPS_GOT_DISP: u32 = 19;
const R_MIPS_HIGHEST: u32 = 29;
const R_MIPS_CALL_HI16: u32 = 30;
const R_MIPS_PC26_S2: u32 = 61;

const NOP: Instruction = Instruction::words(&[0]);

/// `addiu $sp, $sp, -8`: the o32 delay slot.
const PUSH8: u32 = 0x27bd_fff8;

/// Instructions between the first of a long call and its `jalr`; gcc needs at most eight.
const LONGEST: u64 = 24;

const JAL: Pattern = Pattern::word(0, 0xfc00_0000, 0x0c00_0000);

/// The first instruction of a sequence through a register, and what the walk from it needs.
const LONG: Form = Form { follow: Some(follow), nop: Nop::Compute(long_nop), ..CALL };
const LUI: Pattern = Pattern::word(0, 0xffe0_0000, 0x3c00_0000);
const LW: Pattern = Pattern::word(0, 0xfc00_0000, 0x8c00_0000);
const LD: Pattern = Pattern::word(0, 0xfc00_0003, 0xdc00_0000);

pub(super) static ARCH: Arch = Arch {
    name: "mips",
    machine: 8,
    hooks: &["_mcount"],
    forms: &[
        Form {
            relocations: &[R_MIPS_26],
            opcode: &[JAL, Pattern::word(4, u32::MAX, PUSH8)],
            size: 8,
            nop: Nop::Write(&[(0, NOP), (4, NOP)]),
            ..CALL
        },
        Form { relocations: &[R_MIPS_26], opcode: &[JAL], nop: Nop::Write(&[(0, NOP)]), ..CALL },
        Form {
            relocations: &[R_MIPS_PC26_S2],
            opcode: &[Pattern::word(0, 0xfc00_0000, 0xe800_0000)], // balc
            nop: Nop::Write(&[(0, NOP)]),
            ..CALL
        },
        Form {
            relocations: &[R_MIPS_HIGHEST, R_MIPS_HI16, R_MIPS_CALL_HI16],
            opcode: &[LUI],
            ..LONG
        },
        Form { relocations: &[R_MIPS_CALL16, R_MIPS_GOT_DISP], opcode: &[LW], ..LONG },
        Form { relocations: &[R_MIPS_CALL16, R_MIPS_GOT_DISP], opcode: &[LD], ..LONG },
        micromips::JAL,
        micromips::JALS,
        micromips::LUI,
        micromips::LW,
    ],
    address_32: Some(R_MIPS_32),
    address_64: Some(R_MIPS_64),
    type_mask: 0xff,
    isa_bit: true,
    nops: &[NOP, micromips::NOP16],
    ..DEFAULT
};

/// Follows the register that the instruction at `start` sets to the `jalr` that calls through it.
///
/// Every instruction that computes from a register that holds a part of the address passes the
/// part on; any other write ends it. The `n64` sequence builds the halves in two registers.
fn follow(code: Code<'_>, start: u64) -> Option<u64> {
    let mut live = 1u32 << target(code.word(start)?)?;
    let mut at = start;
    for _ in 0..LONGEST {
        at += 4;
        let word = code.word(at)?;
        if let Some(register) = jalr_register(word) {
            return (live >> register & 1 != 0).then_some(at + 4);
        }
        if is_branch(word) {
            return None;
        }
        if let Some(register) = target(word) {
            let part = sources(word).into_iter().flatten().any(|source| live >> source & 1 != 0);
            live = if part { live | 1 << register } else { live & !(1 << register) };
        }
        if live == 0 {
            return None;
        }
    }
    None
}

/// `jalr $link, $rs` with link in `$ra` (or, long ago, `$at`): the register jumped through.
fn jalr_register(word: u32) -> Option<u32> {
    (word & 0xfc1f_07ff == 0x0000_0009 && word >> 11 & 31 != 0).then_some(word >> 21 & 31)
}

fn is_branch(word: u32) -> bool {
    let opcode = word >> 26;
    let is_jr = word & 0xfc00_003f == 8;
    matches!(opcode, 1..=7 | 0x14..=0x17 | 0x32 | 0x3a) || is_jr
}

/// The general register that an instruction of the kinds in a long call writes.
fn target(word: u32) -> Option<u32> {
    let register = match word >> 26 {
        0 => word >> 11 & 31, // three registers, shifts
        0x08..=0x0f | 0x18 | 0x19 | 0x20..=0x27 | 0x37 => word >> 16 & 31, // immediates, loads
        _ => return None,
    };
    (register != 0).then_some(register)
}

/// The general registers that it computes from. A load's base counts: `lw $25, %call_lo($1)`.
fn sources(word: u32) -> [Option<u32>; 2] {
    let (rs, rt) = (word >> 21 & 31, word >> 16 & 31);
    match word >> 26 {
        0 => [Some(rs), Some(rt)],
        0x0f => [None, None], // lui
        _ => [Some(rs), None],
    }
}

/// The `jalr` becomes a NOP, and with it what pushes the bytes that the hook would have popped: in
/// the delay slot, before the `jalr`, or before the sequence.
fn long_nop(code: &mut CodeMut<'_>, start: u64, end: u64) -> Option<()> {
    let mut places = (start.saturating_sub(4)..=end).step_by(4);
    let push = places.find(|at| code.as_code().word(*at) == Some(PUSH8));
    code.put(end.checked_sub(4)?, &NOP)?;
    push.map_or(Some(()), |at| code.put(at, &NOP))
}
