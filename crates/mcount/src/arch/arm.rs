//! Arm, in two instruction sets: `push {lr}` and then `bl __gnu_mcount_nc`.
//!
//! ```text
//!   4: e52de004     push {lr}
//!   8: ebfffffe     bl __gnu_mcount_nc       8: R_ARM_CALL __gnu_mcount_nc
//! ```
//!
//! A `bl` overwrites the link register, so the function saves it first, and the hook pops it. A NOP in
//! place of the call alone would leave a word on the stack, so both become NOPs. If another instruction
//! is between them, the call becomes `pop {lr}`, as in Linux. The older hooks, `mcount` and
//! `_mcount`, don't pop anything.
//!
//! Thumb is the second instruction set. Bit 0 of a function's address says that it is Thumb code; it
//! isn't part of the function's offset in the section. A `bl` may become a `blx` when it is linked,
//! because that is how one instruction set calls the other.
//!
//! Big-endian objects have big-endian instructions. When the linker makes a BE8 image, it reverses the
//! bytes of each instruction and says so in `e_flags`.
//!
//! Source: ELF for the Arm Architecture, 5.6.

use super::decode::{Branch, Decode, Goal, Place, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_ARM_PC24: u32 = 1;
const R_ARM_ABS32: u32 = 2;
const R_ARM_THM_CALL: u32 = 10;
const R_ARM_PLT32: u32 = 27;
const R_ARM_RELATIVE: u32 = 23;
const R_ARM_CALL: u32 = 28;
const EF_ARM_BE8: u32 = 0x0080_0000;

/// `mov r0, r0`, which every Arm processor has. The `nop` instruction came with ARMv6K.
const NOP: Instruction = Instruction::words(&[0xe1a0_0000]);
const THUMB_NOP: Instruction = Instruction::halves(&[0xbf00]);
const THUMB_WIDE_NOP: Instruction = Instruction::halves(&[0xf3af, 0x8000]);
/// `ldr lr, [sp], #4`
const POP_LR: Instruction = Instruction::words(&[0xe49d_e004]);
const THUMB_POP_LR: Instruction = Instruction::halves(&[0xf85d, 0xeb04]);

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

/// The hook that pops, and the two that don't.
const POPS: &str = "__gnu_mcount_nc";
const OLD: &str = "mcount";
const OLDER: &str = "_mcount";

const WITH_PUSH: Form = Form {
    relocations: BLS,
    opcode: &[PUSH_LR, BL],
    nop: Nop::ByHook(&[(POPS, &[(-4, NOP), (0, NOP)]), (OLD, &[(0, NOP)]), (OLDER, &[(0, NOP)])]),
    ..CALL
};

const ALONE: Form = Form {
    relocations: BLS,
    opcode: &[BL],
    nop: Nop::ByHook(&[(POPS, &[(0, POP_LR)]), (OLD, &[(0, NOP)]), (OLDER, &[(0, NOP)])]),
    ..CALL
};

const THUMB_ALONE: Form = Form {
    relocations: &[R_ARM_THM_CALL],
    opcode: &[THUMB_BL, THUMB_BL_LOW],
    nop: Nop::ByHook(&[
        (POPS, &[(0, THUMB_POP_LR)]),
        (OLD, &[(0, THUMB_WIDE_NOP)]),
        (OLDER, &[(0, THUMB_WIDE_NOP)]),
    ]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "arm",
    machine: 40,
    code_step: 2,
    hooks: &["__gnu_mcount_nc", "_mcount", "mcount"],
    forms: &[
        WITH_PUSH,
        Form { opcode: &[STMFD_LR, BL], ..WITH_PUSH },
        Form { opcode: &[PUSH_LR, BLX], ..WITH_PUSH },
        Form { opcode: &[STMFD_LR, BLX], ..WITH_PUSH },
        ALONE,
        Form { opcode: &[BLX], ..ALONE },
        Form {
            opcode: &[THUMB_PUSH_LR, THUMB_BL, THUMB_BL_LOW],
            nop: Nop::ByHook(&[
                (POPS, &[(-2, THUMB_NOP), (0, THUMB_WIDE_NOP)]),
                (OLD, &[(0, THUMB_WIDE_NOP)]),
                (OLDER, &[(0, THUMB_WIDE_NOP)]),
            ]),
            ..THUMB_ALONE
        },
        THUMB_ALONE,
    ],
    address_32: Some(R_ARM_ABS32),
    little_endian_code_flag: EF_ARM_BE8,
    rel_32: true,
    mapping_symbols: true,
    isa_bit: true,
    // `.long function` has the bit. Linux clears it in ftrace_call_adjust.
    entries_have_isa_bit: true,
    nops: &[
        THUMB_WIDE_NOP,
        NOP,
        Instruction::words(&[0xe320_f000]),
        THUMB_NOP,
        Instruction::halves(&[0x46c0]),
    ],
    decode: Some(Decode { length, call, stub, anchors: &[], relative: &[R_ARM_RELATIVE] }),
    ..DEFAULT
};

fn length(place: &Place<'_>) -> u64 {
    let first = place.half(0).unwrap_or(0);
    if place.alternate && first < 0xe800 { 2 } else { 4 }
}

fn call(place: &Place<'_>) -> Option<Branch> {
    if place.alternate {
        return thumb_call(place);
    }
    let word = place.word(0)?;
    match word >> 24 {
        0xeb => place.near(8 + signed(word, 24) * 4),
        0xfa | 0xfb => place.near(8 + signed(word, 24) * 4 + i64::from(word >> 24 & 1) * 2),
        _ => None,
    }
}

/// `bl` and `blx`. Their displacement is in two halves, two of whose bits are under an XOR with the sign.
fn thumb_call(place: &Place<'_>) -> Option<Branch> {
    let (high, low) = (place.half(0)?, place.half(2)?);
    if high & 0xf800 != 0xf000 || low & 0xc000 != 0xc000 {
        return None;
    }
    let sign = high >> 10 & 1;
    let (i1, i2) = (1 ^ low >> 13 & 1 ^ sign, 1 ^ low >> 11 & 1 ^ sign);
    let offset = sign << 24 | i1 << 23 | i2 << 22 | (high & 0x3ff) << 12 | (low & 0x7ff) << 1;
    let to_arm = low & 0x1000 == 0;
    let target = place.address(4 + signed(offset, 25));
    place.branch(0, 4, Goal::Address(if to_arm { target & !3 } else { target }))
}

/// Where a stub leads: a short or long veneer, or a PLT entry, as bfd and lld make them.
fn stub(place: &Place<'_>) -> Option<Goal> {
    if place.alternate {
        // bx pc; nop; and go on as Arm.
        let arm = Place { alternate: false, ..place.skip(4) };
        let switches = place.half(0)? == 0x4778;
        return if switches { stub(&arm) } else { thumb_stub(place) };
    }
    let (first, second) = (place.word(0)?, place.word(4)?);
    match (first, second) {
        (0xe51f_f004, _) => absolute(place, 4), // ldr pc, [pc, #-4]
        (0xe59f_c000, 0xe12f_ff1c) => absolute(place, 8), // ldr ip, [pc]; bx ip
        // ldr ip, [pc, #n]; add ip or pc, ip, pc (in either order): relative to the add.
        (0xe59f_c000 | 0xe59f_c004, 0xe08c_c00f | 0xe08f_c00c | 0xe08f_f00c | 0xe08c_f00f) => {
            let distance = place.data_word(u64::from(first & 0xfff) + 8)?.cast_signed();
            Some(Goal::Address(place.address(12 + i64::from(distance)) & !1))
        }
        _ if first >> 24 == 0xea => Some(Goal::Address(place.address(8 + signed(first, 24) * 4))),
        _ if first & 0xfff0_f000 == 0xe300_c000 => Some(Goal::Address(wide(place)?)),
        _ => plt_entry(place),
    }
}

/// The address in the word `at` bytes on.
fn absolute(place: &Place<'_>, at: u64) -> Option<Goal> {
    Some(Goal::Address(u64::from(place.data_word(at)? & !1)))
}

/// The target of `movw ip, low; movt ip, high`. If `add ip, ip, pc` follows, it is relative to that.
fn wide(place: &Place<'_>) -> Option<u64> {
    let (low, high) = (place.word(0)?, place.word(4)?);
    if high & 0xfff0_f000 != 0xe340_c000 {
        return None;
    }
    let value = immediate(high) << 16 | immediate(low);
    let is_relative = matches!(place.word(8)?, 0xe08c_c00f | 0xe08f_c00c);
    let distance = i64::from(value.cast_signed());
    Some(if is_relative { place.address(16 + distance) } else { u64::from(value) } & !1)
}

/// The 16 bits of a `movw` or `movt`.
fn immediate(word: u32) -> u32 {
    word >> 4 & 0xf000 | word & 0xfff
}

/// The 16 bits of a Thumb `movw` or `movt` that consists of these halves.
fn thumb_immediate(high: u32, low: u32) -> u32 {
    (high & 0xf) << 12 | (high >> 10 & 1) << 11 | (low >> 12 & 7) << 8 | low & 0xff
}

/// Where a Thumb stub leads: `movw ip; movt ip; (add ip, pc;) bx ip`, as lld makes it, or `b.w`.
fn thumb_stub(place: &Place<'_>) -> Option<Goal> {
    let (first, second) = (place.half(0)?, place.half(2)?);
    if first & 0xf800 == 0xf000 && second & 0xd000 == 0x9000 {
        let sign = first >> 10 & 1;
        let (i1, i2) = (1 ^ second >> 13 & 1 ^ sign, 1 ^ second >> 11 & 1 ^ sign);
        let offset =
            sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3ff) << 12 | (second & 0x7ff) << 1;
        return Some(Goal::Address(place.address(4 + signed(offset, 25))));
    }
    // ldr.w pc, the word after it
    if (first, second) == (0xf85f, 0xf000) {
        return Some(Goal::Address(u64::from(place.data_word(4)? & !1)));
    }
    let (third, fourth) = (place.half(4)?, place.half(6)?);
    // movw ip, and movt ip.
    let sets_low = first & 0xfbf0 == 0xf240 && second & 0x8f00 == 0x0c00;
    let sets_high = third & 0xfbf0 == 0xf2c0 && fourth & 0x8f00 == 0x0c00;
    if !sets_low || !sets_high {
        return None;
    }
    let value = thumb_immediate(third, fourth) << 16 | thumb_immediate(first, second);
    let is_relative = place.half(8)? == 0x44fc;
    let distance = i64::from(value.cast_signed());
    let target = if is_relative { place.address(12 + distance) } else { u64::from(value) };
    Some(Goal::Address(target & !1))
}

/// Where a PLT entry leads: `add ip, pc, #a; add ip, ip, #b; (add ip, ip, #c;) ldr pc, [ip, #d]!`
fn plt_entry(place: &Place<'_>) -> Option<Goal> {
    if place.word(0)? & 0xffff_f000 != 0xe28f_c000 {
        return None;
    }
    let mut slot = place.address(8);
    for at in (0..16).step_by(4) {
        let word = place.word(at)?;
        let rotated = (word & 0xff).rotate_right((word >> 8 & 0xf) * 2);
        match word >> 12 {
            0xe_28fc | 0xe_28cc => slot = slot.wrapping_add(rotated.into()),
            0xe_5bcf => {
                return Some(Goal::Slot(
                    place.truncate(slot.wrapping_add(u64::from(word & 0xfff))),
                ));
            }
            _ => return None,
        }
    }
    None
}
