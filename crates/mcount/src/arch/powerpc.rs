//! 32-bit PowerPC: `bl`, whose link register the function saved before.
//!
//! Source: Power Architecture 32-bit ABI Supplement, 4.13.

use super::decode::{Branch, Decode, Place, Target, four, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_PPC_ADDR32: u32 = 1;
const R_PPC_REL24: u32 = 10;
const R_PPC_PLTREL24: u32 = 18;
const R_PPC_RELATIVE: u32 = 22;
const R_PPC_LOCAL24PC: u32 = 23;

pub(super) const NOP: Instruction = Instruction::words(&[0x6000_0000]);

/// A branch with its link bit, relative. Shared with `powerpc64`.
pub(super) const BL: Form = Form {
    opcode: &[Pattern::word(0, 0xfc00_0003, 0x4800_0001)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "powerpc",
    machine: 20,
    hooks: &["_mcount"],
    forms: &[Form { relocations: &[R_PPC_REL24, R_PPC_PLTREL24, R_PPC_LOCAL24PC], ..BL }],
    address_32: Some(R_PPC_ADDR32),
    nops: &[NOP],
    decode: Some(Decode {
        length: four,
        call,
        stub,
        from_functions: false,
        relative: Some(R_PPC_RELATIVE),
    }),
    ..DEFAULT
};

/// `bl`. Shared with `powerpc64`.
pub(super) fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word & 0xfc00_0003 == 0x4800_0001 {
        place.near(signed(word & 0x03ff_fffc, 26))
    } else {
        None
    }
}

/// A branch, or a PLT entry with its slot's address in it: `lis r11; lwz r11; mtctr r11; bctr`.
fn stub(place: &Place<'_>) -> Option<Target> {
    let (first, second) = (place.word(0)?, place.word(4)?);
    if first & 0xfc00_0003 == 0x4800_0000 {
        return Some(Target::Address(place.address(signed(first & 0x03ff_fffc, 26))));
    }
    let low = signed(second & 0xffff, 16);
    let high = u64::from(first << 16);
    match (first >> 16, second >> 16) {
        (0x3d60 | 0x3d80, 0x816b | 0x818c) => {
            Some(Target::Slot(place.truncate(high.wrapping_add_signed(low))))
        }
        // lis r12; addi r12: a veneer.
        (0x3d80, 0x398c) => Some(Target::Address(place.truncate(high.wrapping_add_signed(low)))),
        _ => None,
    }
}
