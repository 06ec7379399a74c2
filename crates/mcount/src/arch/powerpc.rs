//! 32-bit PowerPC: `bl _mcount`, after the function has saved the link register.
//!
//! The relocation is on the instruction, and its address is recorded. The difficult part is in linked
//! images. A `bl` reaches 32 MiB, so linkers add veneers, and there are several kinds of PLT entries. In
//! position-independent code an entry finds its slot relative to r30, which has the address of the GOT.
//!
//! Source: Power Architecture 32-bit ABI Supplement, 4.13.

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_PPC_ADDR32: u32 = 1;
const R_PPC_REL24: u32 = 10;
const R_PPC_PLTREL24: u32 = 18;
const R_PPC_RELATIVE: u32 = 22;
const R_PPC_LOCAL24PC: u32 = 23;
const R_PPC_PLTCALL: u32 = 120;

pub(super) const NOP: Instruction = Instruction::words(&[0x6000_0000]);

/// A relative branch that links. Shared with `powerpc64`.
pub(super) const BL: Form = Form {
    opcode: &[Pattern::word(0, 0xfc00_0003, 0x4800_0001)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

/// `bctrl` at the end of a sequence that loads its target from the PLT (`-mlongcall`). The loads stay.
/// Shared with `powerpc64`.
pub(super) const BCTRL: Form = Form {
    opcode: &[Pattern::word(0, u32::MAX, 0x4e80_0421)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "powerpc",
    machine: 20,
    reads_unaligned: true,
    hooks: &["_mcount"],
    forms: &[
        Form { relocations: &[R_PPC_REL24, R_PPC_PLTREL24, R_PPC_LOCAL24PC], ..BL },
        Form { relocations: &[R_PPC_PLTCALL], ..BCTRL },
    ],
    address_32: Some(R_PPC_ADDR32),
    data_bases: &[("_GLOBAL_OFFSET_TABLE_", 0), (".got", 0)],
    nops: &[NOP],
    decode: Some(Decode { length: four, call, stub, anchors: &[], relative: &[R_PPC_RELATIVE] }),
    ..DEFAULT
};

/// The call at a place: `bl`. Shared with `powerpc64`.
pub(super) fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word & 0xfc00_0003 == 0x4800_0001 {
        place.near(signed(word & 0x03ff_fffc, 26))
    } else {
        None
    }
}

/// Where a stub leads: a branch, or a PLT entry that has the address of its slot, `lis r11; lwz r11;
/// mtctr r11; bctr`. In position-independent code the address is relative to r30; we assume that r30 is
/// the address of the GOT.
fn stub(place: &Place<'_>) -> Option<Goal> {
    let (first, second) = (place.word(0)?, place.word(4)?);
    if first & 0xfc00_0003 == 0x4800_0000 {
        return Some(Goal::Address(place.address(signed(first & 0x03ff_fffc, 26))));
    }
    if (first, second) == (0x7c08_02a6, 0x429f_0005) {
        return relative(place);
    }
    let low = signed(second & 0xffff, 16);
    let high = u64::from(first << 16);
    match (first >> 16, second >> 16) {
        (0x3d60 | 0x3d80, 0x816b | 0x818c) => {
            Some(Goal::Slot(place.truncate(high.wrapping_add_signed(low))))
        }
        // addis r11, r30; lwz r11, r11, or lwz r11, r30 alone.
        (0x3d7e, 0x816b) => {
            let slot = place.data_base.wrapping_add(high).wrapping_add_signed(low);
            Some(Goal::Slot(place.truncate(slot)))
        }
        (0x817e, 0x7d69) => {
            let slot = place.data_base.wrapping_add_signed(signed(first & 0xffff, 16));
            Some(Goal::Slot(place.truncate(slot)))
        }
        // lis r12; addi r12: a veneer.
        (0x3d80, 0x398c) => Some(Goal::Address(place.truncate(high.wrapping_add_signed(low)))),
        _ => None,
    }
}

/// Where a veneer of position-independent code leads: `mflr r0; bcl 20,31,.+4; mflr r12; addis; addi`.
fn relative(place: &Place<'_>) -> Option<Goal> {
    let (third, high, low) = (place.word(8)?, place.word(12)?, place.word(16)?);
    let is_veneer = third == 0x7d88_02a6 && high >> 16 == 0x3d8c && low >> 16 == 0x398c;
    let distance = (signed(high & 0xffff, 16) << 16) + signed(low & 0xffff, 16);
    is_veneer.then(|| Goal::Address(place.address(8 + distance)))
}
