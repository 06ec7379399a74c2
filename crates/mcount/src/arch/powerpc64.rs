//! 64-bit PowerPC: `bl`, in both ABIs.
//!
//! In ELFv1, a function's symbol is that of its descriptor in `.opd`. If there is a symbol with a dot
//! before the name, it is that of the code. With `-mprofile-kernel`, the call is among the first
//! instructions of the global entry.
//!
//! Code finds its data by the TOC pointer, r2, and every library has its own TOC. So when a call leaves
//! its library through a stub, the stub stores r2 on the stack, and the linker turns the NOP after the
//! call into a load that restores r2. Without the call, that load would read a slot that was never
//! written. So both become NOPs together.
//!
//! In ELFv2, a function that needs its TOC begins by finding it, at its global entry. Calls from the same module
//! have the right TOC and enter behind that, at the local entry, where a patchable area is. clang's list has the
//! global entry nevertheless (llvm-project 163706), so whoever reads that list has to look for the NOPs.
//!
//! Sources: 64-bit PowerPC ELF ABI Supplement 1.9, 3.2.5; Power ELFv2 ABI, 3.5.

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::powerpc::{self, BCTRL, BL, NOP};
use super::{Arch, Code, DEFAULT, Form, Instruction};

const R_PPC64_REL24: u32 = 10;
const R_PPC64_RELATIVE: u32 = 22;
const R_PPC64_ADDR64: u32 = 38;
const R_PPC64_REL24_NOTOC: u32 = 116;
const R_PPC64_PLTCALL: u32 = 120;
const R_PPC64_PLTCALL_NOTOC: u32 = 122;

pub(super) static ARCH: Arch = Arch {
    name: "powerpc64",
    machine: 21,
    reads_unaligned: true,
    hooks: &["_mcount", "._mcount"],
    forms: &[
        Form { relocations: &[R_PPC64_REL24, R_PPC64_REL24_NOTOC], ..BL },
        Form { relocations: &[R_PPC64_PLTCALL, R_PPC64_PLTCALL_NOTOC], ..BCTRL },
    ],
    address_64: Some(R_PPC64_ADDR64),
    descriptors: Some(b".opd"),
    data_bases: &[(".TOC.", 0), (".got", 0x8000)],
    local_entry: true,
    global_entry: Some(global_entry),
    nops: &[NOP],
    // ld r2,24(r1) in ELFv2 and ld r2,40(r1) in ELFv1 restore the TOC pointer that the stub stored.
    restores: &[Instruction::words(&[0xe841_0018]), Instruction::words(&[0xe841_0028])],
    decode: Some(Decode { length: four, call, stub, anchors: &[], relative: &[R_PPC64_RELATIVE] }),
    ..DEFAULT
};

/// The two instructions that find the TOC by the function's own address in r12, or where it is in memory, in the
/// small and medium models and in the large one. Linkers put an absolute address into programs that aren't PIE.
fn global_entry(code: Code<'_>, offset: u64) -> u64 {
    let next = offset.checked_add(4).and_then(|at| code.word(at));
    let (Some(first), Some(second)) = (code.word(offset), next) else { return 0 };
    let is_setup = match (first >> 16, second >> 16) {
        // addis r2, r12 or lis r2; addi r2, r2
        (0x3c4c | 0x3c40, 0x3842) => true,
        // ld r2, r12; add r2, r2, r12
        (0xe84c, _) => first.trailing_zeros() >= 2 && second == 0x7c42_6214,
        _ => false,
    };
    if is_setup { 8 } else { 0 }
}

/// The distance in an instruction that loads eight bytes, such as `ld`.
fn low(word: u32) -> i64 {
    signed(word & 0xfffc, 16)
}

/// The distance in an `addis`.
fn high(word: u32) -> i64 {
    signed(word & 0xffff, 16) << 16
}

/// The call at a place: `bl`, or `bctrl` behind instructions that load its target from the PLT
/// (`-mlongcall`).
fn call(place: &Place<'_>) -> Option<Branch> {
    if place.word(0)? != 0x4e80_0421 {
        return powerpc::call(place);
    }
    let before = Place { at: place.at.checked_sub(12)?, ..*place };
    let (first, second) = (before.word(0)?, before.word(4)?);
    let upper = match (first >> 16, second >> 16) {
        // nop; ld r12, r2
        (0x6000, 0xe982) => 0,
        // addis r12, r2; ld r12, r12
        (0x3d82, 0xe98c) => high(first),
        // pld r12, relative to itself
        (0x0410..=0x0413, 0xe580) => {
            let distance = signed(first & 0x3_ffff, 18) << 16 | i64::from(second & 0xffff);
            return place.branch(0, 4, Goal::Slot(before.address(distance)));
        }
        _ => return None,
    };
    let slot = place.data_base.wrapping_add_signed(upper + low(second));
    let moves = before.word(8)? == 0x7d89_03a6;
    if moves { place.branch(0, 4, Goal::Slot(slot)) } else { None }
}

/// Where a stub leads: a branch, or a load of the target through the TOC, `(std r2;) addis r12, r2; ld
/// r12`, or relative to itself, `pld r12`.
fn stub(place: &Place<'_>) -> Option<Goal> {
    let saves_toc = place.word(0)? >> 16 == 0xf841;
    let place = if saves_toc { place.skip(4) } else { *place };
    let (first, second) = (place.word(0)?, place.word(4)?);
    if first & 0xfc00_0003 == 0x4800_0000 {
        return Some(Goal::Address(place.address(signed(first & 0x03ff_fffc, 26))));
    }
    match (first >> 16, second >> 16) {
        (0x3d82, 0xe98c) | (0x3d62, 0xe98b) => {
            Some(Goal::Slot(place.data_base.wrapping_add_signed(high(first) + low(second))))
        }
        (0x0410..=0x0413, 0xe580) => {
            let distance = signed(first & 0x3_ffff, 18) << 16 | i64::from(second & 0xffff);
            Some(Goal::Slot(place.address(distance)))
        }
        (0xe982, _) => Some(Goal::Slot(place.data_base.wrapping_add_signed(low(first)))),
        // addis r12, r2; addi r12, r12: a veneer.
        (0x3d82, 0x398c) => {
            let distance = high(first) + signed(second & 0xffff, 16);
            Some(Goal::Address(place.data_base.wrapping_add_signed(distance)))
        }
        _ => None,
    }
}
