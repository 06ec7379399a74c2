//! microMIPS, the second instruction set of `mips`. It has the same calls, in instructions of 16 and 32
//! bits.
//!
//! The delay slot has 16 bits behind `jals` and 32 bits behind `jal`. So the instruction that pushes the
//! eight bytes for an o32 hook comes in several sizes. An instruction of 32 bits is two halfwords; the
//! upper one comes first in either byte order.
//!
//! Source: MIPS Architecture for Programmers, Volume II-B (MD00594).

use super::decode::{Branch, Goal, Place};
use super::{CALL, Code, CodeMut, Computed, Form, Instruction, Nop, Pattern};

const R_MICROMIPS_26_S1: u32 = 133;
const R_MICROMIPS_HI16: u32 = 134;
const R_MICROMIPS_CALL16: u32 = 142;
const R_MICROMIPS_PC26_S1: u32 = 175;

const NOP: Instruction = Instruction::halves(&[0, 0]);
pub(super) const NOP16: Instruction = Instruction::halves(&[0x0c00]);

/// `addiu $sp, $sp, -8`, which pushes the eight bytes that an o32 hook pops.
const PUSH8: [u32; 2] = [0x33bd, 0xfff8];

/// `jalrc16 $t9` of release 6. With other registers, the same bits may be an older `not16`.
const JALRC16_T9: u32 = 0x472b;

/// How many instructions [`follow`] goes through to find the `jalr`.
const LONGEST: u32 = 8;

const SHORT: Form =
    Form { relocations: &[R_MICROMIPS_26_S1], nop: Nop::Compute(SHORT_NOP), ..CALL };
const SHORT_NOP: Computed = Computed { make: short_nop, made };
pub(super) const JAL: Form = Form { opcode: &[Pattern::half(0, 0xfc00, 0xf400)], ..SHORT };
/// With a delay slot of 16 bits.
pub(super) const JALS: Form = Form { opcode: &[Pattern::half(0, 0xfc00, 0x7400)], ..SHORT };
/// Release 6: no delay slot.
pub(super) const BALC: Form = Form {
    relocations: &[R_MICROMIPS_PC26_S1],
    opcode: &[Pattern::half(0, 0xfc00, 0xb400)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};
pub(super) const LUI: Form = Form {
    relocations: &[R_MICROMIPS_HI16],
    opcode: &[Pattern::half(0, 0xffe0, 0x41a0)],
    follow: Some(follow_lui),
    nop: Nop::Compute(Computed { make: long_nop, made }),
    ..CALL
};
pub(super) const LW: Form = Form {
    relocations: &[R_MICROMIPS_CALL16],
    opcode: &[Pattern::half(0, 0xfc00, 0xfc00)],
    follow: Some(follow_lw),
    ..LUI
};

fn follow_lui(code: Code<'_>, start: u64) -> Option<u64> {
    follow(code, start, code.half(start)? & 31)
}

fn follow_lw(code: Code<'_>, start: u64) -> Option<u64> {
    follow(code, start, code.half(start)? >> 5 & 31)
}

/// Where the `jalr` through `register` ends that soon follows the instruction at `start`.
fn follow(code: Code<'_>, start: u64, register: u32) -> Option<u64> {
    let mut at = start + 4;
    for _ in 0..LONGEST {
        let half = code.half(at)?;
        if half == JALRC16_T9 && register == 25 {
            return Some(at + 2);
        }
        if half & 0xffc0 == 0x45c0 {
            // jalr16, jalrs16
            return (half & 31 == register).then_some(at + 2);
        }
        let size = size(half);
        let is_jalr = size == 4 && half & 0xfc00 == 0 && code.half(at + 2)? & 0xbfff == 0x0f3c;
        if is_jalr {
            return (half & 31 == register).then_some(at + 4);
        }
        at += size;
    }
    None
}

/// The size in bytes of the instruction that begins with `half`. The low bits of its major opcode tell.
pub(super) fn size(half: u32) -> u64 {
    if matches!(half >> 10 & 7, 1..=3) { 2 } else { 4 }
}

/// Makes a short call a NOP, and its delay slot if that pushes.
fn short_nop(code: &mut CodeMut<'_>, start: u64, end: u64) -> Option<()> {
    let slot = (code.as_code().half(end), code.as_code().half(end + 2));
    code.put(start, &NOP)?;
    match slot {
        (Some(high), Some(low)) if [high, low] == PUSH8 => code.put(end, &NOP),
        // addiusp -8, addius5 $sp, -8
        (Some(0x4ffd | 0x4fb0), _) => code.put(end, &NOP16),
        _ => Some(()),
    }
}

/// Makes a long call a NOP: its `jalr`, its first instruction, and what pushes, which is before the
/// sequence, in it, or in the delay slot.
fn long_nop(code: &mut CodeMut<'_>, start: u64, end: u64) -> Option<()> {
    let last = end.checked_sub(2)?;
    let half = code.as_code().half(last)?;
    let is_short = half == JALRC16_T9 || half & 0xffc0 == 0x45c0;
    let mut places = (start.saturating_sub(4)..=end).step_by(2);
    let read = code.as_code();
    let push =
        places.find(|at| read.half(*at) == Some(PUSH8[0]) && read.half(at + 2) == Some(PUSH8[1]));
    code.put(start, &NOP)?;
    if is_short {
        code.put(last, &NOP16)?;
    } else {
        code.put(last.checked_sub(2)?, &NOP)?;
    }
    push.map_or(Some(()), |at| code.put(at, &NOP))
}

/// The size of what shows that a call became a NOP: its first instruction did.
fn made(code: Code<'_>, start: u64) -> Option<u64> {
    NOP.is_at(code, start).then_some(NOP.size())
}

/// The call at a place of a linked image: `jal` or `jals`.
pub(super) fn call(place: &Place<'_>) -> Option<Branch> {
    let (high, low) = (place.half(0)?, place.half(2)?);
    if !matches!(high & 0xfc00, 0xf400 | 0x7400) {
        return None;
    }
    let index = u64::from(high & 0x3ff) << 16 | u64::from(low);
    place.branch(0, 4, Goal::Address(place.address(4) & !0x07ff_ffff | index << 1))
}
