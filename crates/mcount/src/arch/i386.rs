//! i386: as x86-64, with two differences.
//!
//! Relocations are REL, so the addend is in the code that the relocation changes. And code can't address
//! data relative to itself. So position-independent code keeps the address of the GOT in some register
//! and calls through `*hook@GOT(%reg)`. In an image, we look a few instructions back to see how that
//! register got its value.
//!
//! Source: System V ABI, Intel386 Supplement, 4.5.

use super::x86_64::{NOP5, NOP6, NOPS, RELAXED, decode, nop};
use super::{Arch, CALL, DEFAULT, Form, HookNop, Instruction, Nop, Pattern, Unit};

const R_386_32: u32 = 1;
const R_386_PC32: u32 = 2;
const R_386_GOT32: u32 = 3;
const R_386_PLT32: u32 = 4;
const R_386_GOT32X: u32 = 43;

/// `call *hook@GOT(%reg)`: ModRM mod 2, opcode extension 2, any base except the one that needs a SIB.
const CALL_BASED: &[Pattern] =
    &[Pattern::byte(-2, 0xff), Pattern { at: -1, unit: Unit::Byte, mask: 0xf8, value: 0x90 }];
/// `call *hook@GOT`
const CALL_ABSOLUTE: &[Pattern] = &[Pattern::byte(-2, 0xff), Pattern::byte(-1, 0x15)];

const INDIRECT: Form = Form {
    relocations: &[R_386_GOT32, R_386_GOT32X],
    recorded: -2,
    nop: Nop::Write(&[(-2, NOP6)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "i386",
    machine: 3,
    code_step: 1,
    reads_unaligned: true,
    hooks: &["__fentry__", "mcount"],
    forms: &[
        Form {
            relocations: &[R_386_PC32, R_386_PLT32],
            opcode: &[Pattern::byte(-1, 0xe8)],
            recorded: -1,
            nop: Nop::Write(&[(-1, NOP5)]),
            ..CALL
        },
        RELAXED,
        Form { opcode: CALL_BASED, ..INDIRECT },
        Form { opcode: CALL_ABSOLUTE, ..INDIRECT },
    ],
    address_32: Some(R_386_32),
    nops: NOPS,
    decode_nop: Some(nop::<32>),
    pads: &[Instruction::bytes(&[0xf3, 0x0f, 0x1e, 0xfb])],
    rel_32: true,
    data_bases: &[("_GLOBAL_OFFSET_TABLE_", 0), (".got.plt", 0), (".got", 0)],
    call_size: 5,
    joins_nops: true,
    hook_nop: Some(HookNop { instruction: NOP5, step: 1, anywhere: false }),
    decode: Some(decode::<false>()),
    ..DEFAULT
};
