//! PA-RISC: `b,l` with a displacement of 17 or 22 bits. Kernels use patchable entries.
//!
//! Source: Processor-Specific ELF Supplement for PA-RISC 1.5, chapter 4.

use super::decode::{Branch, Decode, Place, four, no_stub, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

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
    nops: &[NOP],
    decode: Some(Decode {
        length: four,
        call,
        stub: no_stub,
        from_functions: false,
        relative: None,
    }),
    ..DEFAULT
};

/// `b,l` with a displacement of 17 or 22 bits, whose parts lie scattered over the instruction.
fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    let (sign, w1, w2) = (word & 1, word >> 16 & 31, word >> 2 & 0x7ff);
    let low = (w2 & 1) << 10 | w2 >> 1;
    let distance = match word & 0xfc00_e000 {
        0xe800_0000 if word >> 21 & 31 == 2 => signed(sign << 16 | w1 << 11 | low, 17),
        0xe800_a000 => {
            let w3 = word >> 21 & 31;
            signed(sign << 21 | w3 << 16 | w1 << 11 | low, 22)
        }
        _ => return None,
    };
    place.near(8 + distance * 4)
}
