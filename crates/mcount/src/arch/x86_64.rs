//! x86-64: `call` with a displacement, `call` through the GOT, and the large code model's call
//! through a register. x32 is the same machine in ELFCLASS32.
//!
//! The relocation is on the displacement, so the recorded address lies before it. `endbr64` may
//! stand before the call and is not part of it. Source: System V ABI, AMD64 Supplement, 4.4.

use super::{Arch, CALL, DEFAULT, Form, HookNop, Instruction, Nop, Pattern};

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_GOTPCREL: u32 = 9;
const R_X86_64_32: u32 = 10;
const R_X86_64_PLTOFF64: u32 = 31;
const R_X86_64_GOTPCRELX: u32 = 41;

pub(super) const NOP5: Instruction = Instruction::bytes(&[0x0f, 0x1f, 0x44, 0, 0]);
pub(super) const NOP6: Instruction = Instruction::bytes(&[0x66, 0x0f, 0x1f, 0x44, 0, 0]);
const NOP8: Instruction = Instruction::bytes(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);

/// The NOPs that compilers and assemblers emit; also those of `i386`, but for the short forms.
pub(super) const NOPS: &[Instruction] = &[
    Instruction::bytes(&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
    Instruction::bytes(&[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
    NOP8,
    Instruction::bytes(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]),
    NOP6,
    NOP5,
    Instruction::bytes(&[0x0f, 0x1f, 0x40, 0]),
    Instruction::bytes(&[0x0f, 0x1f, 0]),
    Instruction::bytes(&[0x66, 0x90]),
    Instruction::bytes(&[0x90]),
];

const OPCODE_CALL: &[Pattern] = &[Pattern::byte(-1, 0xe8)];
/// `call *hook@GOTPCREL(%rip)`
const OPCODE_CALL_GOT: &[Pattern] = &[Pattern::byte(-2, 0xff), Pattern::byte(-1, 0x15)];
/// `movabs $hook, %r10; call *%r10`
const OPCODE_CALL_LARGE: &[Pattern] = &[
    Pattern::byte(-2, 0x49),
    Pattern::byte(-1, 0xba),
    Pattern::byte(8, 0x41),
    Pattern::byte(9, 0xff),
    Pattern::byte(10, 0xd2),
];
/// `movabs $_GLOBAL_OFFSET_TABLE_-1b, %r11; movabs $hook@PLTOFF, %r10; add %r11, %r10; call *%r10`
const OPCODE_CALL_LARGE_PIC: &[Pattern] = &[
    Pattern::byte(-12, 0x49),
    Pattern::byte(-11, 0xbb),
    Pattern::byte(-2, 0x49),
    Pattern::byte(-1, 0xba),
    Pattern::byte(8, 0x4c),
    Pattern::byte(9, 0x01),
    Pattern::byte(10, 0xda),
    Pattern::byte(11, 0x41),
    Pattern::byte(12, 0xff),
    Pattern::byte(13, 0xd2),
];

pub(super) static ARCH: Arch = Arch {
    name: "x86_64",
    machine: 62,
    hooks: &["__fentry__", "mcount"],
    forms: &[
        Form {
            relocations: &[R_X86_64_PC32, R_X86_64_PLT32],
            opcode: OPCODE_CALL,
            recorded: -1,
            nop: Nop::Write(&[(-1, NOP5)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX],
            opcode: OPCODE_CALL_GOT,
            recorded: -2,
            nop: Nop::Write(&[(-2, NOP6)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_64],
            opcode: OPCODE_CALL_LARGE,
            recorded: -2,
            size: 11,
            nop: Nop::Write(&[(-2, NOP5), (3, NOP8)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_PLTOFF64],
            opcode: OPCODE_CALL_LARGE_PIC,
            recorded: -12,
            size: 14,
            // The first movabs stays, for its own relocation; %r11 is free at a hook.
            nop: Nop::Write(&[(-2, NOP8), (6, NOP8)]),
            ..CALL
        },
    ],
    address_32: Some(R_X86_64_32),
    address_64: Some(R_X86_64_64),
    nops: NOPS,
    pads: &[Instruction::bytes(&[0xf3, 0x0f, 0x1e, 0xfa])],
    call_size: 5,
    hook_nop: Some(HookNop { instruction: NOP5, step: 1, anywhere: false }),
    ..DEFAULT
};
