//! MIPS, all ABIs. A short call is one `jal`. A long call is several instructions, scattered among
//! others, and this file is mostly about those.
//!
//! With `-pg -mlong-calls`, gcc calls the hook like this:
//!
//! ```text
//!   c: 3c030000     lui   v1, 0              c: R_MIPS_HI16 _mcount
//!  10: 24630000     addiu v1, v1, 0         10: R_MIPS_LO16 _mcount
//!  14: 03e00825     move  at, ra
//!  18: 0060f809     jalr  v1
//!  1c: 27bdfff8     addiu sp, sp, -8
//! ```
//!
//! Two relocations name the hook, and neither is on the call. Worse, code that only takes the hook's
//! address begins with the same two instructions and relocations. To tell a call from that, we follow
//! the register.
//!
//! 1. A sequence begins with `R_MIPS_HI16` on a `lui` ([`LONG`]).
//! 2. [`follow`] starts there with one *live* register: v1, which holds a part of the address.
//! 3. `addiu v1, v1, 0` computes from a live register, so its result is live; that is v1 again. If an
//!    instruction overwrote v1 with something else, v1 would be dead.
//! 4. `move at, ra` neither reads nor writes a live register.
//! 5. `jalr v1` jumps through a live register. So this is a call. It is recorded where the sequence
//!    begins, at 0xc.
//!
//! If there is a branch before the `jalr`, or if no register is live any more, this isn't a call. In the
//! n64 ABI, code builds a 64-bit address from four parts in two registers, so two registers can be live.
//! Position-independent code loads the address from the GOT, so its first instruction is a `lw` or `ld`.
//!
//! This is the same call as a NOP ([`long_nop`]):
//!
//! ```text
//!   c: 00000000     nop
//!  10: 24630000     addiu v1, v1, 0
//!  14: 03e00825     move  at, ra
//!  18: 00000000     nop
//!  1c: 00000000     nop
//! ```
//!
//! Three instructions became NOPs. The `jalr` is the call itself. The `addiu sp, sp, -8` after it is in
//! the delay slot, so it runs before the hook does. It pushes eight bytes, which the o32 hook pops. Without
//! the hook, no instruction would pop them. (It may also be before the sequence, or within it.) The `lui`
//! becomes a NOP so that we can recognize the sequence later.
//!
//! Linked images have no relocations. There, [`register_call`] computes what the instructions put into the
//! registers. When it gets to the `jalr`, it knows where the call leads.
//!
//! Sources: System V ABI, MIPS RISC Processor Supplement, 4; MIPS 64-bit ELF Object File
//! Specification, 2.9 (three relocation types packed in one word).

use super::decode::{Branch, Decode, Goal, Place, signed};
use super::{
    Arch, CALL, Code, CodeMut, Computed, DEFAULT, Form, Instruction, Nop, Pattern, micromips,
};

const R_MIPS_32: u32 = 2;
const R_MIPS_REL32: u32 = 3;
/// The relocation with which the loader stores an address, in each class.
const RELATIVE: &[u32] = &[R_MIPS_REL32, R_MIPS_REL32 | R_MIPS_64 << 8];
const R_MIPS_26: u32 = 4;
const R_MIPS_HI16: u32 = 5;
const R_MIPS_GOT16: u32 = 9;
const R_MIPS_CALL16: u32 = 11;
const R_MIPS_64: u32 = 18;
const R_MIPS_GOT_DISP: u32 = 19;
const R_MIPS_HIGHEST: u32 = 29;
const R_MIPS_CALL_HI16: u32 = 30;
const R_MIPS_PC26_S2: u32 = 61;

const DT_MIPS_LOCAL_GOTNO: u64 = 0x7000_000a;
const DT_MIPS_GOTSYM: u64 = 0x7000_0013;
const EF_MIPS_MICROMIPS: u32 = 0x0200_0000;

const NOP: Instruction = Instruction::words(&[0]);

/// `addiu $sp, $sp, -8`: the o32 delay slot.
const PUSH8: u32 = 0x27bd_fff8;

/// How many instructions [`follow`] goes through to find the `jalr`. gcc needs at most eight.
const LONGEST: u64 = 24;

const JAL: Pattern = Pattern::word(0, 0xfc00_0000, 0x0c00_0000);

/// What all calls through a register have in common.
const LONG: Form = Form { follow: Some(follow), nop: Nop::Compute(LONG_NOP), ..CALL };
const LONG_NOP: Computed = Computed { make: long_nop, made: long_made };
/// Loads of the address from the GOT. The last two occur elsewhere too; `follow` decides.
const GOT: &[u32] = &[R_MIPS_CALL16, R_MIPS_GOT16, R_MIPS_GOT_DISP];
const LUI: Pattern = Pattern::word(0, 0xffe0_0000, 0x3c00_0000);
const LW: Pattern = Pattern::word(0, 0xfc00_0000, 0x8c00_0000);
const LD: Pattern = Pattern::word(0, 0xfc00_0003, 0xdc00_0000);

pub(super) static ARCH: Arch = Arch {
    name: "mips",
    machine: 8,
    code_step: 2,
    hooks: &["_mcount"],
    forms: &[
        Form {
            relocations: &[R_MIPS_26],
            opcode: &[JAL, Pattern::word(4, u32::MAX, PUSH8)],
            size: 8,
            nop: Nop::Write(&[(0, NOP), (4, NOP)]),
            ..CALL
        },
        Form { relocations: &[R_MIPS_26], opcode: &[JAL], nop: Nop::Write(&[(0, NOP)]), ..CALL },
        Form {
            relocations: &[R_MIPS_PC26_S2],
            opcode: &[Pattern::word(0, 0xfc00_0000, 0xe800_0000)], // balc
            nop: Nop::Write(&[(0, NOP)]),
            ..CALL
        },
        Form {
            relocations: &[R_MIPS_HIGHEST, R_MIPS_HI16, R_MIPS_CALL_HI16],
            opcode: &[LUI],
            ..LONG
        },
        Form { relocations: GOT, opcode: &[LW], ..LONG },
        Form { relocations: GOT, opcode: &[LD], ..LONG },
        micromips::JAL,
        micromips::JALS,
        micromips::BALC,
        micromips::LUI,
        micromips::LW,
    ],
    address_32: Some(R_MIPS_32),
    address_64: Some(R_MIPS_64),
    type_mask: 0xff,
    rel_32: true,
    data_bases: &[("_gp", 0), (".got", 0x7ff0)],
    got_tags: Some((DT_MIPS_LOCAL_GOTNO, DT_MIPS_GOTSYM)),
    alternate_code_flag: EF_MIPS_MICROMIPS,
    isa_bit: true,
    loaded_addresses: RELATIVE,
    nops: &[NOP, micromips::NOP16],
    decode: Some(Decode { length, call, stub, anchors: &[], relative: RELATIVE }),
    areas_are_before: true,
    ..DEFAULT
};

/// Follows the address that the instruction at `start` begins to build, to the `jalr` that jumps there.
/// Returns where that ends, or `None` if this is no call.
///
/// `live` has a bit for each register that holds a part of the address.
fn follow(code: Code<'_>, start: u64) -> Option<u64> {
    let mut live = 1u32 << target(code.word(start)?)?;
    let mut at = start;
    for _ in 0..LONGEST {
        at += 4;
        let word = code.word(at)?;
        if let Some(register) = jalr_register(word) {
            return (live >> register & 1 != 0).then_some(at + 4);
        }
        if is_branch(word) {
            return None;
        }
        if let Some(register) = target(word) {
            let part = sources(word).into_iter().flatten().any(|source| live >> source & 1 != 0);
            live = if part { live | 1 << register } else { live & !(1 << register) };
        }
        if live == 0 {
            return None;
        }
    }
    None
}

/// The register that a `jalr` jumps through, if it links: into `$ra`, or as compilers did long ago, into
/// `$at`.
fn jalr_register(word: u32) -> Option<u32> {
    (word & 0xfc1f_07ff == 0x0000_0009 && word >> 11 & 31 != 0).then_some(word >> 21 & 31)
}

fn is_branch(word: u32) -> bool {
    let opcode = word >> 26;
    let is_jr = word & 0xfc00_003f == 8;
    matches!(opcode, 1..=7 | 0x14..=0x17 | 0x32 | 0x3a) || is_jr
}

/// The general register that an instruction of the kinds in a long call writes.
fn target(word: u32) -> Option<u32> {
    let register = match word >> 26 {
        0 => word >> 11 & 31, // three registers, shifts
        0x08..=0x0f | 0x18 | 0x19 | 0x20..=0x27 | 0x37 => word >> 16 & 31, // immediates, loads
        _ => return None,
    };
    (register != 0).then_some(register)
}

/// The general registers that an instruction computes from. A load computes from its base:
/// `lw $25, %call_lo($1)`.
fn sources(word: u32) -> [Option<u32>; 2] {
    let (rs, rt) = (word >> 21 & 31, word >> 16 & 31);
    match word >> 26 {
        0 => [Some(rs), Some(rt)],
        0x0f => [None, None], // lui
        _ => [Some(rs), None],
    }
}

/// Makes a long call a NOP: its `jalr`, its first instruction, and whatever pushes the bytes that the
/// hook would have popped.
fn long_nop(code: &mut CodeMut<'_>, start: u64, end: u64) -> Option<()> {
    let mut places = (start.saturating_sub(4)..=end).step_by(4);
    let push = places.find(|at| code.as_code().word(*at) == Some(PUSH8));
    // Loads through the register that the first instruction would have set must go too (`-mxgot`).
    let register = target(code.as_code().word(start)?)?;
    code.put(start, &NOP)?;
    for at in (start + 4..end).step_by(4) {
        let word = code.as_code().word(at)?;
        if matches!(word >> 26, 0x23 | 0x37) && word >> 21 & 31 == register {
            code.put(at, &NOP)?;
        }
    }
    code.put(end.checked_sub(4)?, &NOP)?;
    push.map_or(Some(()), |at| code.put(at, &NOP))
}

/// The size in bytes of the NOP at `start`, if there is one. A long call that became a NOP begins with it.
fn long_made(code: Code<'_>, start: u64) -> Option<u64> {
    NOP.is_at(code, start).then_some(NOP.size())
}

fn length(place: &Place<'_>) -> u64 {
    if place.alternate { micromips::size(place.half(0).unwrap_or(0)) } else { 4 }
}

/// The call that begins at `place`: `jal`, `bal`, or the first instruction of a call through a register.
fn call(place: &Place<'_>) -> Option<Branch> {
    if place.alternate {
        return micromips::call(place);
    }
    let word = place.word(0)?;
    match word >> 26 {
        3 => {
            let target = place.address(4) & !0x0fff_ffff | u64::from(word & 0x03ff_ffff) << 2;
            place.branch(0, 4, Goal::Address(target))
        }
        // If a load of $t9 comes before it, the linker made this `bal` of a `jalr`, and the call begins
        // at the load.
        1 if word >> 16 == BAL && !is_loaded(place) => place.near(bal(word)),
        0x0f if word & 0x03e0_0000 == 0 && word >> 16 & 31 != GP => register_call(place),
        0x23 | 0x37 if word >> 16 & 31 == T9 => register_call(place),
        _ => None,
    }
}

const T9: u32 = 25;
const GP: u32 = 28;
const JR_RA: u32 = 0x03e0_0008;
/// The upper half of a `bal`.
const BAL: u32 = 0x0411;

fn bal(word: u32) -> i64 {
    4 + signed(word & 0xffff, 16) * 4
}

/// Whether the `bal` at `place` has a load of `$t9` before it.
fn is_loaded(place: &Place<'_>) -> bool {
    let mut before = (1..=LONGEST).map_while(|back| {
        place.code.word(place.at.checked_sub(back * 4)?).filter(|word| !is_jump(*word))
    });
    let load = before.find(|word| target(*word) == Some(T9));
    load.is_some_and(|word| matches!(word >> 26, 0x23 | 0x37))
}

fn is_jump(word: u32) -> bool {
    is_branch(word) || jalr_register(word).is_some()
}

/// The contents of a register, as far as they are known while a call is followed.
#[derive(Clone, Copy)]
struct Register {
    value: Goal,
    /// Whether the value was computed from that of the first instruction of the call.
    is_ours: bool,
}

/// The call through a register that begins at `place`. Computes what the processor would, up to the
/// `jalr`, or to the `bal` that a linker made of it.
fn register_call(place: &Place<'_>) -> Option<Branch> {
    let mut registers = [None; 32];
    let gp = Register { value: Goal::Address(place.data_base), is_ours: false };
    *registers.get_mut(GP as usize)? = Some(gp);
    let first = place.word(0)?;
    let base = first >> 21 & 31;
    if first >> 26 != 0x0f && is_gp(place, base) {
        *registers.get_mut(base as usize)? = Some(gp);
    }
    for at in (0..=LONGEST * 4).step_by(4) {
        let word = place.word(at)?;
        let jumped = jalr_register(word).or((word >> 16 == BAL).then_some(T9));
        if let Some(register) = jumped {
            let held = (*registers.get(register as usize)?)?;
            let target = if word >> 16 == BAL {
                Goal::Address(place.address(at.cast_signed() + bal(word)))
            } else {
                held.value
            };
            let end = place.at + at + 4;
            let branch = Branch { start: place.at, reference: place.at, end, target };
            return held.is_ours.then_some(branch);
        }
        if is_branch(word) {
            return None;
        }
        if let Some(register) = target(word) {
            let held = compute(place, word, &registers);
            let held = held.map(|held| Register { is_ours: held.is_ours || at == 0, ..held });
            *registers.get_mut(register as usize)? = held;
        }
    }
    None
}

/// Whether `register` has the value of `$gp`: it is `$gp`, or was computed from `$t9` earlier.
fn is_gp(place: &Place<'_>, register: u32) -> bool {
    let mut before = (1..=LONGEST * 4).map_while(|back| {
        place.code.word(place.at.checked_sub(back * 4)?).filter(|word| *word != JR_RA)
    });
    let sets = before.find(|word| target(*word) == Some(register));
    // addu or daddu
    register == GP
        || register != T9
            && sets.is_some_and(|word| {
                matches!(word & 0xfc00_07ff, 0x21 | 0x2d) && sources(word).contains(&Some(T9))
            })
}

/// The value that an instruction of a long call puts into its register, given the known registers.
fn compute(place: &Place<'_>, word: u32, registers: &[Option<Register>; 32]) -> Option<Register> {
    let low = signed(word & 0xffff, 16);
    let (rs, rt, shift) = (word >> 21, word >> 16, word >> 6 & 31);
    let (value, is_ours) = match (word >> 26, word & 0x7ff & !(31 << 6)) {
        // lui
        (0x0f, _) => (i64::from((word << 16).cast_signed()).cast_unsigned(), false),
        // addiu, daddiu
        (0x09 | 0x19, _) => {
            let (value, is_ours) = address_in(registers, rs)?;
            (value.wrapping_add_signed(low), is_ours)
        }
        // lw, ld
        (0x23 | 0x37, _) => {
            let (value, is_ours) = address_in(registers, rs)?;
            let slot = place.truncate(value.wrapping_add_signed(low));
            return Some(Register { value: Goal::Slot(slot), is_ours });
        }
        // dsll, dsll32
        (0, 0x38) => {
            let (value, is_ours) = address_in(registers, rt)?;
            (value << shift, is_ours)
        }
        (0, 0x3c) => {
            let (value, is_ours) = address_in(registers, rt)?;
            (value << (32 + shift), is_ours)
        }
        // addu, daddu
        (0, 0x21 | 0x2d) => {
            let (a, b) = (address_in(registers, rs)?, address_in(registers, rt)?);
            (a.0.wrapping_add(b.0), a.1 || b.1)
        }
        _ => return None,
    };
    Some(Register { value: Goal::Address(place.truncate(value)), is_ours })
}

/// The address in the register that the lowest five bits of `register` name, if it is known, and whether
/// it is ours.
fn address_in(registers: &[Option<Register>; 32], register: u32) -> Option<(u64, bool)> {
    match *registers.get((register & 31) as usize)? {
        Some(Register { value: Goal::Address(value), is_ours }) => Some((value, is_ours)),
        _ => None,
    }
}

/// Where a stub leads. That is a PLT entry (`lui $t7; l[wd] $t9`), or a trampoline to
/// position-independent code (`lui $t9; j; addiu $t9`; the `j` is missing right before the function).
fn stub(place: &Place<'_>) -> Option<Goal> {
    if place.alternate {
        return None;
    }
    let (first, second) = (place.word(0)?, place.word(4)?);
    let high = i64::from((first << 16).cast_signed());
    let low = signed(second & 0xffff, 16);
    if first >> 16 == 0x3c19 && second >> 26 == 2 {
        let target = place.address(8) & !0x0fff_ffff | u64::from(second & 0x03ff_ffff) << 2;
        return Some(Goal::Address(target));
    }
    // lui $t9; addiu $t9, $t9: right before the function.
    if first >> 16 == 0x3c19 && second >> 16 == 0x2739 {
        return Some(Goal::Address(place.address(8)));
    }
    let is_entry = matches!(first >> 16, 0x3c0f | 0x3c0e) && matches!(second >> 26, 0x23 | 0x37);
    is_entry.then(|| Goal::Slot(place.truncate((high + low).cast_unsigned())))
}
