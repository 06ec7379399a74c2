//! s390: with `-pg`, a site is a block of instructions, and the call is in the middle of it.
//!
//! ```text
//!   0: e3 e0 f0 08 00 24     stg   %r14,8(%r15)
//!   6: c0 e5 00 00 00 00     brasl %r14,_mcount          8: R_390_PLT32DBL _mcount+2
//!   c: e3 e0 f0 08 00 04     lg    %r14,8(%r15)
//! ```
//!
//! The function saves its return address, calls the hook, and loads the address again. The recorded
//! address is that of the first instruction, here 0, so that a tracer can branch over the whole block.
//! Older compilers put a `larl` in the middle, and 31-bit code has a shorter store, `st`. With `-mfentry`
//! nothing is saved, and the site is just `brasl %r0`. The relocation is the same in all cases, so the
//! bytes before it decide: the recorded address is between 2 and 14 bytes before the relocation.
//!
//! Distances are in halfwords. That is what DBL means in the names of relocations.
//!
//! Source: S/390 ELF ABI Supplement, chapter 2.

use super::decode::{Branch, Decode, Goal, Place};
use super::{Arch, CALL, DEFAULT, Form, HookNop, Instruction, Nop, Pattern};

const R_390_32: u32 = 4;
const R_390_RELATIVE: u32 = 12;
const R_390_PC32DBL: u32 = 19;
const R_390_PLT32DBL: u32 = 20;
const R_390_64: u32 = 22;

/// `brcl 0, .`: never branches.
const NOP6: Instruction = Instruction::halves(&[0xc004, 0, 0]);
const NOP_CALL: Nop = Nop::Write(&[(-2, NOP6)]);

const BRASL_R0: Pattern = Pattern::half(-2, 0xffff, 0xc005);
const BRASL_R14: Pattern = Pattern::half(-2, 0xffff, 0xc0e5);
/// A `larl` of six bytes between the store and the call.
const LARL: Pattern = Pattern::half(-8, 0xff0f, 0xc000);

const STG: &[Pattern] = &[BRASL_R14, first(-8, 0xe3e0), second(-8, 0xf008), third(-8, 0x0024)];
const STG_LARL: &[Pattern] =
    &[BRASL_R14, LARL, first(-14, 0xe3e0), second(-14, 0xf008), third(-14, 0x0024)];
/// `st %r14,4(%r15)`, four bytes.
const ST: &[Pattern] = &[BRASL_R14, first(-6, 0x50e0), second(-6, 0xf004)];
const ST_LARL: &[Pattern] = &[BRASL_R14, LARL, first(-12, 0x50e0), second(-12, 0xf004)];

const fn first(at: i8, value: u32) -> Pattern {
    Pattern::half(at, 0xffff, value)
}

const fn second(at: i8, value: u32) -> Pattern {
    Pattern::half(at + 2, 0xffff, value)
}

const fn third(at: i8, value: u32) -> Pattern {
    Pattern::half(at + 4, 0xffff, value)
}

const BRASL: Form =
    Form { relocations: &[R_390_PC32DBL, R_390_PLT32DBL], recorded: -2, nop: NOP_CALL, ..CALL };

pub(super) static ARCH: Arch = Arch {
    name: "s390",
    machine: 22,
    code_step: 2,
    reads_unaligned: true,
    hooks: &["__fentry__", "_mcount", "mcount"],
    // Longer blocks come first, because the first form that fits decides.
    forms: &[
        Form { opcode: &[BRASL_R0], ..BRASL },
        Form { opcode: STG_LARL, recorded: -14, ..BRASL },
        Form { opcode: STG, recorded: -8, ..BRASL },
        Form { opcode: ST_LARL, recorded: -12, ..BRASL },
        Form { opcode: ST, recorded: -6, ..BRASL },
        Form { opcode: &[BRASL_R14], ..BRASL },
    ],
    address_32: Some(R_390_32),
    address_64: Some(R_390_64),
    nops: &[
        NOP6,
        Instruction::halves(&[0x4700, 0]),
        Instruction::halves(&[0x0707]),
        Instruction::halves(&[0x0700]),
    ],
    call_size: 6,
    // A branch to itself that is never taken. Jump labels have a distance or a relocation.
    hook_nop: Some(HookNop { instruction: NOP6, step: 2, anywhere: true }),
    decode: Some(Decode { length, call, stub, anchors: &[], relative: &[R_390_RELATIVE] }),
    ..DEFAULT
};

fn length(place: &Place<'_>) -> u64 {
    match place.byte(0).unwrap_or(0) >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

fn call(place: &Place<'_>) -> Option<Branch> {
    if place.half(0)? & 0xff0f != 0xc005 {
        return None;
    }
    let distance = i64::from(place.word(2)?.cast_signed()) * 2;
    place.branch(2, 6, Goal::Address(place.address(distance)))
}

/// Where a stub leads: a jump, or a PLT entry, `larl %r1; lg %r1,0(%r1)` (`l` in 31-bit code).
fn stub(place: &Place<'_>) -> Option<Goal> {
    let distance = i64::from(place.word(2)?.cast_signed()) * 2;
    match (place.half(0)?, place.half(6)?) {
        (0xc0f4, _) => Some(Goal::Address(place.address(distance))),
        (0xc010, 0xe310 | 0x5810) => Some(Goal::Slot(place.address(distance))),
        _ => None,
    }
}
