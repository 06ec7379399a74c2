//! x86-64: a `call` at the start of the function, in one of several forms.
//!
//! The usual form is five bytes: `e8`, and a displacement of 32 bits that has the relocation.
//!
//! ```text
//!   0: e8 00 00 00 00     call __fentry__        1: R_X86_64_PLT32 __fentry__-4
//! ```
//!
//! A table entry is the address of the call, so here it is `r_offset` minus 1. A call through the GOT
//! (`-fPIC`, `-fno-plt`) is `ff 15` and a displacement, so there the distance is 2. In the large code
//! model, a displacement doesn't reach the hook. The compiler loads a 64-bit address into a register
//! instead, and gcc and clang each do that in several ways.
//!
//! There is a NOP of every length, because a NOP can have an operand that it ignores. Assemblers differ
//! in which operand they use. So we decode NOPs and don't compare bytes. We decode the code of images
//! too, from the start of each function: an `e8` can be a call or the middle of another instruction, and
//! only the instructions before it tell.
//!
//! If there is an `endbr64` before the call, it isn't part of the site. x32 is the same processor in
//! ELFCLASS32.
//!
//! Sources: System V ABI, AMD64 Supplement, 4.4; Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 2, "NOP".

use super::decode::{Branch, Decode, Goal, Place};
use super::{
    Arch, CALL, Code, DEFAULT, Form, HookNop, Instruction, Nop, Pattern, SledKind, Sleds, Unit,
};

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_RELATIVE: u32 = 8;
const R_X86_64_GOTPCREL: u32 = 9;
const R_X86_64_32: u32 = 10;
const R_X86_64_PC64: u32 = 24;
const R_X86_64_GOT64: u32 = 27;
const R_X86_64_PLTOFF64: u32 = 31;
const R_X86_64_GOTPCRELX: u32 = 41;

pub(super) const NOP5: Instruction = Instruction::bytes(&[0x0f, 0x1f, 0x44, 0, 0]);
const NOP7: Instruction = Instruction::bytes(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]);
pub(super) const NOP6: Instruction = Instruction::bytes(&[0x66, 0x0f, 0x1f, 0x44, 0, 0]);
const NOP8: Instruction = Instruction::bytes(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);

/// `lea %ds:0(%esi,1), %esi`: a NOP of one instruction for i386 processors older than `0f 1f`. Linux and
/// its own recorder have it in place of a call. In 64-bit code it clears the upper half of %rsi.
const ATOMIC_NOP: &[u8] = &[0x3e, 0x8d, 0x74, 0x26, 0];

/// The NOPs that we write: those that the processors' manuals recommend.
pub(super) const NOPS: &[Instruction] = &[
    Instruction::bytes(&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
    Instruction::bytes(&[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
    NOP8,
    NOP7,
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

/// gcc's way of doing the same: it has `lea 1b(%rip), %r10; add %r11, %r10` in between, and then uses
/// `%r11`.
const OPCODE_CALL_LARGE_GCC: &[Pattern] = &[
    Pattern::byte(-22, 0x49),
    Pattern::byte(-21, 0xbb),
    Pattern::byte(-12, 0x4c),
    Pattern::byte(-11, 0x8d),
    Pattern::byte(-10, 0x15),
    Pattern::byte(-5, 0x4d),
    Pattern::byte(-4, 0x01),
    Pattern::byte(-3, 0xda),
    Pattern::byte(-2, 0x49),
    Pattern::byte(-1, 0xbb),
    Pattern::byte(8, 0x4d),
    Pattern::byte(9, 0x01),
    Pattern::byte(10, 0xda),
    Pattern::byte(11, 0x41),
    Pattern::byte(12, 0xff),
    Pattern::byte(13, 0xd2),
];

/// `movabs $hook, %rax; call *%rax`, from clang.
const OPCODE_CALL_LARGE_CLANG: &[Pattern] = &[
    Pattern::byte(-2, 0x48),
    Pattern::byte(-1, 0xb8),
    Pattern::byte(8, 0xff),
    Pattern::byte(9, 0xd0),
];

/// `movabs $hook@GOT, %rax; call *(%r14,%rax)`: clang's large PIC model, if the GOT's address is in one
/// of the upper eight registers. The pattern after this one is for the lower eight.
const OPCODE_CALL_LARGE_GOT: &[Pattern] = &[
    Pattern::byte(-2, 0x48),
    Pattern::byte(-1, 0xb8),
    Pattern::byte(8, 0x41),
    Pattern::byte(9, 0xff),
    Pattern::byte(10, 0x14),
    Pattern { at: 11, unit: Unit::Byte, mask: 0xf8, value: 0 },
];

const OPCODE_CALL_LARGE_GOT_LOW: &[Pattern] = &[
    Pattern::byte(-2, 0x48),
    Pattern::byte(-1, 0xb8),
    Pattern::byte(8, 0xff),
    Pattern::byte(9, 0x14),
    Pattern { at: 10, unit: Unit::Byte, mask: 0xf8, value: 0 },
];

/// `addr32 call`, which a linker makes of a call through the GOT. It never has a relocation in an object.
pub(super) const RELAXED: Form = Form {
    opcode: &[Pattern::byte(-2, 0x67), Pattern::byte(-1, 0xe8)],
    recorded: -2,
    nop: Nop::Write(&[(-2, NOP6)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "x86_64",
    machine: 62,
    code_step: 1,
    reads_unaligned: true,
    hooks: &["__fentry__", "mcount"],
    forms: &[
        Form {
            relocations: &[R_X86_64_PC32, R_X86_64_PLT32],
            opcode: OPCODE_CALL,
            recorded: -1,
            nop: Nop::Write(&[(-1, NOP5)]),
            ..CALL
        },
        RELAXED,
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
            relocations: &[R_X86_64_64],
            opcode: OPCODE_CALL_LARGE_CLANG,
            recorded: -2,
            size: 10,
            nop: Nop::Write(&[(-2, NOP5), (3, NOP7)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_GOT64],
            opcode: OPCODE_CALL_LARGE_GOT,
            recorded: -2,
            size: 12,
            nop: Nop::Write(&[(-2, NOP6), (4, NOP8)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_GOT64],
            opcode: OPCODE_CALL_LARGE_GOT_LOW,
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
            // The first movabs stays, because it has a relocation. Changing %r11 is harmless at a hook.
            nop: Nop::Write(&[(-2, NOP8), (6, NOP8)]),
            ..CALL
        },
        Form {
            relocations: &[R_X86_64_PLTOFF64],
            opcode: OPCODE_CALL_LARGE_GCC,
            recorded: -22,
            size: 14,
            nop: Nop::Write(&[(-2, NOP8), (6, NOP8)]),
            ..CALL
        },
    ],
    address_32: Some(R_X86_64_32),
    address_64: Some(R_X86_64_64),
    nops: NOPS,
    decode_nop: Some(nop::<64>),
    pads: &[Instruction::bytes(&[0xf3, 0x0f, 0x1e, 0xfa])],
    data_bases: &[("_GLOBAL_OFFSET_TABLE_", 0), (".got.plt", 0), (".got", 0)],
    call_size: 5,
    joins_nops: true,
    sleds: Some(Sleds {
        relocations: &[R_X86_64_PC64, R_X86_64_64, R_X86_64_PC32, R_X86_64_32],
        size: sled,
    }),
    hook_nop: Some(HookNop { instruction: NOP5, step: 1, anywhere: false }),
    decode: Some(decode::<true>()),
    ..DEFAULT
};

/// How to decode both x86 processors. `WIDE` is 64-bit code.
pub(super) const fn decode<const WIDE: bool>() -> Decode {
    Decode {
        length: length::<WIDE>,
        call: call::<WIDE>,
        stub: stub::<WIDE>,
        anchors: if WIDE {
            &[&[0xe8], &[0x67, 0xe8], &[0xff, 0x15], &[0x49, 0xba], &[0x49, 0xbb], &[0x48, 0xb8]]
        } else {
            &[&[0xe8], &[0x67, 0xe8], &[0xff]]
        },
        // R_386_RELATIVE has the same number.
        relative: &[R_X86_64_RELATIVE],
    }
}

/// The size in bytes of a sled. Those of events have what calls the runtime behind their jump.
fn sled(code: Code<'_>, offset: u64, kind: SledKind) -> Option<u64> {
    let (instruction, size) = match (kind, code.from(offset)) {
        (SledKind::Entry | SledKind::TailCall, [0xeb, 0x09, ..]) => (2, 11),
        (SledKind::Exit, [0xc3, ..]) => (1, 11),
        (SledKind::Exit, [0xc2, _, _, ..]) => (3, 13),
        (SledKind::Event, [0xeb, 0x0f, ..]) => return Some(17),
        (SledKind::TypedEvent, [0xeb, 0x14, ..]) => return Some(22),
        _ => return None,
    };
    let end = offset.checked_add(size)?;
    let nops = ARCH.nop_run(code, offset + instruction, end);
    (instruction + nops == size).then_some(size)
}

/// The size of the NOP at an offset. A NOP is what the processor's manual calls one: `0f 1f /0` with any
/// operand, or `90`, behind any prefixes that don't make it something else. GNU as uses operands without
/// a displacement, or with 0. LLVM uses 8 or 512.
pub(super) fn nop<const BITS: u32>(code: Code<'_>, at: u64) -> Option<u64> {
    let bytes = code.from(at);
    if BITS == 32 && bytes.starts_with(ATOMIC_NOP) {
        return Some(ATOMIC_NOP.len() as u64);
    }
    if bytes.first() == Some(&0x90) {
        return Some(1);
    }
    // Decoding is slow, and most code isn't a NOP. Any other NOP begins with 0f or a prefix.
    let may_be = matches!(
        bytes.first()?,
        0x0f | 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3
    );
    if !may_be {
        return None;
    }
    let mut decoder = iced_x86::Decoder::new(BITS, bytes, iced_x86::DecoderOptions::NONE);
    let instruction = decoder.decode();
    let is_nop = instruction.mnemonic() == iced_x86::Mnemonic::Nop;
    is_nop.then_some(instruction.len() as u64)
}

fn length<const WIDE: bool>(place: &Place<'_>) -> u64 {
    let bytes = place.code.from(place.at);
    if let [0, 0, ..] = bytes {
        // This is padding. As code it would be an `add` that nobody writes.
        let end = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        return end as u64;
    }
    let bits = if WIDE { 64 } else { 32 };
    let mut decoder = iced_x86::Decoder::new(bits, bytes, iced_x86::DecoderOptions::NONE);
    let mut instruction = iced_x86::Instruction::default();
    decoder.decode_out(&mut instruction);
    // Skip a byte that begins no instruction.
    (instruction.len() as u64).max(1)
}

/// The call at a place: `call`, alone or after the prefix that relaxation leaves, or a call through the
/// GOT.
fn call<const WIDE: bool>(place: &Place<'_>) -> Option<Branch> {
    let (first, second) = (place.byte(0)?, place.byte(1)?);
    match (first, second) {
        (0xe8, _) => place.branch(1, 5, Goal::Address(relative(place, 1)?)),
        (0x67, 0xe8) => place.branch(2, 6, Goal::Address(relative(place, 2)?)),
        (0xff, 0x15) if WIDE => place.branch(2, 6, Goal::Slot(relative(place, 2)?)),
        (0xff, 0x15) => {
            let slot = displacement(place, 2)?.cast_unsigned();
            place.branch(2, 6, Goal::Slot(place.truncate(slot)))
        }
        (0xff, 0x90..=0x97) if !WIDE && second != 0x94 => {
            let base = got(place, second & 7).unwrap_or(place.data_base);
            let slot = base.wrapping_add_signed(displacement(place, 2)?);
            place.branch(2, 6, Goal::Slot(place.truncate(slot)))
        }
        (0x49, 0xba | 0xbb) | (0x48, 0xb8) if WIDE => large_call(place),
        _ => None,
    }
}

/// The displacement of 32 bits, `at` bytes on.
fn displacement(place: &Place<'_>, at: u64) -> Option<i64> {
    place.code.little_word(place.at + at).map(|word| i64::from(word.cast_signed()))
}

/// The address that this displacement leads to. It ends the instruction, and is relative to its end.
fn relative(place: &Place<'_>, at: u64) -> Option<u64> {
    Some(place.skip(at + 4).address(displacement(place, at)?))
}

/// How many bytes back [`got`] looks for where a register got the GOT's address.
const GOT_REACH: u64 = 64;

/// The address that `call thunk; add $distance, %reg`, shortly before `place`, puts into `register`.
fn got(place: &Place<'_>, register: u32) -> Option<u64> {
    (6..=GOT_REACH).find_map(|back| {
        let at = place.at.checked_sub(back)?;
        let before = Place { at, ..*place };
        let is_add = before.byte(0)? == 0x81 && before.byte(1)? == 0xc0 | register;
        let call = Place { at: at.checked_sub(5)?, ..*place };
        let distance = place.code.little_word(at + 2)?.cast_signed();
        (is_add && call.byte(0)? == 0xe8).then(|| before.address(distance.into()))
    })
}

/// The call of the large code model at a place. The target is an absolute address, the sum of two
/// distances, or in a slot at an offset in the GOT.
fn large_call(place: &Place<'_>) -> Option<Branch> {
    let first = number(place, 2)?;
    if has(place, OPCODE_CALL_LARGE, 2) {
        return place.branch(2, 13, Goal::Address(first));
    }
    if has(place, OPCODE_CALL_LARGE_GCC, 22) {
        let target = place.address(0).wrapping_add(first).wrapping_add(number(place, 22)?);
        return place.branch(22, 36, Goal::Address(target));
    }
    if has(place, OPCODE_CALL_LARGE_CLANG, 2) {
        return place.branch(2, 12, Goal::Address(first));
    }
    let slot = Goal::Slot(place.data_base.wrapping_add(first));
    if has(place, OPCODE_CALL_LARGE_GOT, 2) {
        return place.branch(2, 14, slot);
    }
    if has(place, OPCODE_CALL_LARGE_GOT_LOW, 2) {
        return place.branch(2, 13, slot);
    }
    None
}

/// The 64-bit number `at` bytes on.
fn number(place: &Place<'_>, at: u64) -> Option<u64> {
    let bytes = place.code.from(place.at.checked_add(at)?);
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Whether the bytes `form` are around the relocation that was `reference` bytes on.
fn has(place: &Place<'_>, form: &[Pattern], reference: u64) -> bool {
    form.iter().all(|pattern| pattern.fits(place.code, place.at + reference))
}

/// Where a stub leads: a jump, or a PLT entry, which is `jmp *slot`, perhaps after a landing pad or a
/// `bnd` prefix.
fn stub<const WIDE: bool>(place: &Place<'_>) -> Option<Goal> {
    let is_pad = place.code.little_word(place.at)? & 0xfeff_ffff == 0xfa1e_0ff3;
    let mut place = if is_pad { place.skip(4) } else { *place };
    if place.byte(0)? == 0xf2 {
        place = place.skip(1);
    }
    // mold first puts the number of the entry into %r11d or %ecx.
    match (place.byte(0)?, place.byte(1)?) {
        (0x41, 0xbb) if WIDE && is_pad => place = place.skip(6),
        (0xb9, _) if !WIDE && is_pad => place = place.skip(5),
        _ => {}
    }
    let place = &place;
    Some(match (place.byte(0)?, place.byte(1)?) {
        (0xe9, _) => Goal::Address(relative(place, 1)?),
        (0xff, 0x25) if WIDE => Goal::Slot(relative(place, 2)?),
        (0xff, 0x25) => Goal::Slot(place.truncate(displacement(place, 2)?.cast_unsigned())),
        (0xff, 0xa3) => {
            let slot = place.data_base.wrapping_add_signed(displacement(place, 2)?);
            Goal::Slot(place.truncate(slot))
        }
        _ => return None,
    })
}
