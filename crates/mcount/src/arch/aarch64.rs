//! AArch64: one instruction, `bl _mcount`, somewhere in the prologue.
//!
//! ```text
//!  14: aa1e03e0     mov x0, x30
//!  18: 94000000     bl _mcount              18: R_AARCH64_CALL26 _mcount
//! ```
//!
//! This is the easiest processor: every instruction has four bytes, and instructions are little endian
//! even if data is big endian. Kernels don't use `-pg`. They use patchable entries of two or four NOPs,
//! before or after a landing pad (`bti c`), or on both sides of it.
//!
//! The ILP32 ABI is the same machine in ELFCLASS32, with relocation numbers of its own.
//!
//! Sources: ELF for the Arm 64-bit Architecture, 5.7; landing pads: Arm ARM, C6.2.

use super::decode::{Branch, Decode, Goal, Place, four, signed};
use super::{
    Arch, CALL, Code, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern, SledKind, Sleds,
};

const R_AARCH64_P32_ABS32: u32 = 1;
const R_AARCH64_P32_CALL26: u32 = 21;
const R_AARCH64_ABS64: u32 = 257;
const R_AARCH64_PREL64: u32 = 260;
const R_AARCH64_CALL26: u32 = 283;
const R_AARCH64_P32_RELATIVE: u32 = 183;
const R_AARCH64_RELATIVE: u32 = 1027;

const NOP: Instruction = Instruction::words(&[0xd503_201f]);

const BL: Form = Form {
    opcode: &[Pattern::word(0, 0xfc00_0000, 0x9400_0000)],
    nop: Nop::Write(&[(0, NOP)]),
    ..CALL
};

const COMMON: Arch = Arch {
    machine: 183,
    hooks: &["_mcount"],
    code: CodeOrder::Little,
    reads_unaligned: true,
    mapping_symbols: true,
    nops: &[NOP],
    lists_nops: true,
    pads: &[
        Instruction::words(&[0xd503_245f]), // bti c
        Instruction::words(&[0xd503_249f]), // bti j
        Instruction::words(&[0xd503_24df]), // bti jc
    ],
    decode: Some(Decode {
        length: four,
        call,
        stub,
        anchors: &[],
        relative: &[R_AARCH64_RELATIVE, R_AARCH64_P32_RELATIVE],
    }),
    ..DEFAULT
};

pub(super) static ARCH: Arch = Arch {
    name: "aarch64",
    forms: &[Form { relocations: &[R_AARCH64_CALL26], ..BL }],
    address_64: Some(R_AARCH64_ABS64),
    sleds: Some(Sleds { relocations: &[R_AARCH64_PREL64, R_AARCH64_ABS64], size: sled }),
    ..COMMON
};

/// The ILP32 ABI.
pub(super) static ILP32: Arch = Arch {
    name: "aarch64_ilp32",
    forms: &[Form { relocations: &[R_AARCH64_P32_CALL26], ..BL }],
    address_32: Some(R_AARCH64_P32_ABS32),
    ..COMMON
};

/// The size in bytes of a sled: a branch over seven NOPs. Those of events have what calls the runtime behind their branch.
fn sled(code: Code<'_>, offset: u64, kind: SledKind) -> Option<u64> {
    /// `b .+32`
    const OVER_NOPS: u32 = 0x1400_0008;
    /// The most instructions of an event.
    const MOST: u32 = 16;
    let branch = code.word(offset)?;
    if [SledKind::Event, SledKind::TypedEvent].contains(&kind) {
        let words = branch.checked_sub(0x1400_0000)?;
        return (2..=MOST).contains(&words).then_some(u64::from(words) * 4);
    }
    let end = offset.checked_add(32)?;
    let is_sled = branch == OVER_NOPS && ARCH.nop_run(code, offset + 4, end) == 28;
    is_sled.then_some(32)
}

fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word & 0xfc00_0000 == 0x9400_0000 { place.near(signed(word, 26) * 4) } else { None }
}

/// Where a stub leads: a branch, a veneer (`adrp`, `add`, `br`, or a load of a word after it), or a PLT
/// entry (`adrp`, `ldr`, `add`, `br`).
fn stub(place: &Place<'_>) -> Option<Goal> {
    let is_pad = place.word(0)? & 0xffff_ff3f == 0xd503_241f;
    let place = if is_pad { place.skip(4) } else { *place };
    let first = place.word(0)?;
    if first & 0xfc00_0000 == 0x1400_0000 {
        return Some(Goal::Address(place.address(signed(first, 26) * 4)));
    }
    // ldr x16, word; (adr x17, .; add x16, x16, x17;) br x16. The word is an address, or a distance from
    // the adr.
    if first & 0xff00_001f == 0x5800_0010 {
        let word = place.skip(u64::try_from(signed(first >> 5, 19) * 4).ok()?);
        let (first, second) = (u64::from(word.data_word(0)?), u64::from(word.data_word(4)?));
        let value = if word.big_endian_data { first << 32 | second } else { second << 32 | first };
        let is_relative = place.word(4)? == 0x1000_0011;
        let base = if is_relative { place.address(4) } else { 0 };
        return Some(Goal::Address(base.wrapping_add(value)));
    }
    // adrp x16, page
    if first & 0x9f00_001f != 0x9000_0010 {
        return None;
    }
    let pages = signed((first >> 5 & 0x7_ffff) << 2 | first >> 29 & 3, 21);
    let page = (place.address(0) & !0xfff).wrapping_add_signed(pages << 12);
    let second = place.word(4)?;
    let low = u64::from(second >> 10 & 0xfff);
    if second & 0xffc0_03ff == 0x9100_0210 {
        return Some(Goal::Address(page.wrapping_add(low))); // add x16, x16, #low
    }
    (second & 0xffc0_03ff == 0xf940_0211).then(|| Goal::Slot(page.wrapping_add(low * 8)))
}
