//! PA-RISC: `b,l _mcount, rp`, with a displacement in pieces.
//!
//! ```text
//!  18: e8400000     b,l _mcount, rp         18: R_PARISC_PCREL17F _mcount
//!  1c: 08000240     nop
//! ```
//!
//! The 17 or 22 bits of a displacement are scattered over the instruction, and the sign comes last. Half
//! of this file puts such bits together. The linker's stubs are short sequences that build an address
//! from 21 upper bits and 11 or 17 lower ones.
//!
//! User programs call `_mcount`. Kernels use patchable entries, most of whose NOPs are before the
//! function.
//!
//! Source: Processor-Specific ELF Supplement for PA-RISC 1.5, chapter 4.

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const DT_PLTGOT: u64 = 3;
const R_PARISC_DIR32: u32 = 1;
const R_PARISC_PCREL17F: u32 = 12;
const R_PARISC_PCREL22F: u32 = 74;
const R_PARISC_DIR64: u32 = 80;

const NOP: Instruction = Instruction::words(&[0x0800_0240]);

pub(super) static ARCH: Arch = Arch {
    name: "parisc",
    machine: 15,
    hooks: &["_mcount"],
    forms: &[
        Form {
            relocations: &[R_PARISC_PCREL17F],
            // b,l target, %rp: the link register is in bits 21 to 25.
            opcode: &[Pattern::word(0, 0xffe0_e000, 0xe840_0000)],
            nop: Nop::Write(&[(0, NOP)]),
            ..CALL
        },
        Form {
            relocations: &[R_PARISC_PCREL22F],
            opcode: &[Pattern::word(0, 0xfc00_e000, 0xe800_a000)],
            nop: Nop::Write(&[(0, NOP)]),
            ..CALL
        },
    ],
    address_32: Some(R_PARISC_DIR32),
    address_64: Some(R_PARISC_DIR64),
    data_base_tag: Some(DT_PLTGOT),
    data_bases: &[("$global$", 0), ("_GLOBAL_OFFSET_TABLE_", 0), (".got", 0)],
    nops: &[NOP],
    decode: Some(Decode {
        length: four,
        call,
        stub,
        anchors: &[],
        // Without a symbol it adds the load address.
        relative: &[R_PARISC_DIR32],
    }),
    ..DEFAULT
};

/// The call at a place: `b,l` with a displacement of 17 or 22 bits.
fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    let distance = match word & 0xfc00_e000 {
        0xe800_0000 if word >> 21 & 31 == 2 => short(word),
        0xe800_a000 => {
            let (w1, w3) = (word >> 16 & 31, word >> 21 & 31);
            signed((word & 1) << 21 | w3 << 16 | w1 << 11 | low(word), 22)
        }
        _ => return None,
    };
    place.near(8 + distance * 4)
}

/// The 17-bit displacement of a branch, in words.
fn short(word: u32) -> i64 {
    signed((word & 1) << 16 | (word >> 16 & 31) << 11 | low(word), 17)
}

/// The lowest eleven bits of a displacement.
fn low(word: u32) -> u32 {
    (word >> 2 & 1) << 10 | word >> 3 & 0x3ff
}

/// The value of the 21 bits of an `ldil` or `addil`.
fn upper(word: u32) -> i64 {
    let bits = (word & 1) << 20
        | (word & 0xffe) << 8
        | (word & 0xc000) >> 7
        | (word & 0x1f_0000) >> 14
        | (word & 0x3000) >> 12;
    signed(bits, 21) << 11
}

/// Whether an instruction is the `be` of a stub.
fn is_be(word: u32) -> bool {
    word & 0xffe0_e000 == 0xe020_2000
}

/// Where a stub leads: a branch that reaches further (`ldil; be`, or relative: `b,l; addil; be`), or a
/// load of what the PLT has for a function (`addil; ldo %r22`).
fn stub(place: &Place<'_>) -> Option<Goal> {
    let (first, second) = (place.word(0)?, place.word(4)?);
    match first & 0xffe0_0000 {
        0x2020_0000 if is_be(second) => {
            let target = (upper(first) + short(second) * 4).cast_unsigned();
            Some(Goal::Address(place.truncate(target)))
        }
        0xe820_0000 => {
            let third = place.word(8)?;
            let relative = second & 0xffe0_0000 == 0x2820_0000 && is_be(third);
            let distance = 8 + upper(second) + short(third) * 4;
            relative.then(|| Goal::Address(place.address(distance)))
        }
        // Relative to %r19, or to %dp.
        0x2a60_0000 | 0x2b60_0000 if second & 0xffff_0000 == 0x3436_0000 => {
            let distance = i64::from(second >> 1 & 0x1fff) - i64::from(second & 1) * 0x2000;
            let slot = place.data_base.wrapping_add_signed(upper(first) + distance);
            Some(Goal::Slot(place.truncate(slot)))
        }
        _ => None,
    }
}
