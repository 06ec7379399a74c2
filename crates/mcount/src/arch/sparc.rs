//! SPARC: `call`.
//!
//! ```text
//!   4: 40000000     call _mcount             4: R_SPARC_WDISP30 _mcount
//!   8: 01000000     nop
//! ```
//!
//! Two bits say that the instruction is a call. The other 30 are the distance in words, so a call reaches
//! every address of 32 bits. The instruction after it is in the delay slot and is executed anyway, so
//! the NOP replaces only the call.
//!
//! 64-bit and 32-bit files have the same relocation numbers. In 64-bit files, the upper 24 bits of a
//! relocation's type are data.
//!
//! Sources: SPARC Compliance Definition 2.4, chapter 3; System V ABI, SPARC Supplement, 4.

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::{Arch, CALL, DEFAULT, Form, Instruction, Nop, Pattern};

const R_SPARC_32: u32 = 3;
const R_SPARC_WDISP30: u32 = 7;
const R_SPARC_WPLT30: u32 = 18;
const R_SPARC_UA32: u32 = 23;
const R_SPARC_RELATIVE: u32 = 22;
const R_SPARC_64: u32 = 32;
const R_SPARC_UA64: u32 = 54;

const NOP: Instruction = Instruction::words(&[0x0100_0000]);

const COMMON: Arch = Arch {
    hooks: &["_mcount", "mcount"],
    unaligned_addresses: &[R_SPARC_UA32, R_SPARC_UA64],
    forms: &[Form {
        relocations: &[R_SPARC_WDISP30, R_SPARC_WPLT30],
        opcode: &[Pattern::word(0, 0xc000_0000, 0x4000_0000)],
        nop: Nop::Write(&[(0, NOP)]),
        ..CALL
    }],
    nops: &[NOP],
    decode: Some(Decode { length: four, call, stub, anchors: &[], relative: &[R_SPARC_RELATIVE] }),
    ..DEFAULT
};

pub(super) static ARCH64: Arch =
    Arch { name: "sparc64", machine: 43, address_64: Some(R_SPARC_64), type_mask: 0xff, ..COMMON };

pub(super) static ARCH32: Arch =
    Arch { name: "sparc", machine: 2, address_32: Some(R_SPARC_32), ..COMMON };

/// 32-bit code for 64-bit processors.
pub(super) static ARCH32PLUS: Arch =
    Arch { name: "sparc32plus", machine: 18, address_32: Some(R_SPARC_32), ..COMMON };

fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word >> 30 == 1 { place.near(signed(word, 30) * 4) } else { None }
}

/// Where mold's PLT entries with a GOT slot lead: `mov %o7, %g5; call .+8; ldx [%o7+20], %g1;
/// ldx [%o7+%g1], %g1; jmp %g1`. Other PLT entries have no slot: the loader fills them in.
fn stub(place: &Place<'_>) -> Option<Goal> {
    let words = [place.word(0)?, place.word(4)?, place.word(8)?, place.word(12)?];
    let is_entry = words == [0x8a10_000f, 0x4000_0002, 0xc25b_e014, 0xc25b_c001];
    // The distance has 64 bits. It is short, so the lower half is enough.
    let distance = i64::from(place.word(28)?.cast_signed());
    is_entry.then(|| Goal::Slot(place.address(4 + distance)))
}
