//! AArch64: the hook is one NOP, and an armed one is one `b`, which reaches ±128 MiB.
//!
//! All instructions have four bytes. So the two states of a site are two words, and one becomes the other in one store.
//!
//! **Byte order.** A64 instructions are little endian wherever data is big endian (Arm ARM, DDI 0487, B2.6.2, "Instruction
//! endianness"): `SCTLR_EL1.E0E`, with which data of programs is big endian, has no say in how code is fetched. So code is bytes here, made of and
//! read as little-endian numbers, and who stores a word of it loads these four bytes into a register as they lie
//! (`from_ne_bytes`) and stores that: in memory they're the same again. What code loads is data: the address of a record in a stub
//! is in the processor's byte order. So are tables of sites, which linkers write.
//!
//! What compilers leave at the entry are NOPs, two by custom (`-fpatchable-function-entry=2`), after a landing pad
//! (`bti c`) if there is one, and before `paciasp`, which signs `x30`. The first is the site; others stay as they are.
//! `-pg` alone leaves `bl _mcount` after the prologue, and that word is the site.
//!
//! **Two ways to arm.** Linux has one trampoline for all functions, which has to be told which function called it. So it
//! needs two NOPs: when the kernel starts, the first one becomes `mov x9, x30` for good, since the second one, once it's a
//! `bl`, overwrites `x30` ([`KERNEL_IDLE`], [`kernel_armed`]). Here each site has a stub ([`record_stub`]) that knows it,
//! so it's reached by `b`, and `x30` stays what it is. That has three advantages: nothing has to be done before threads
//! run, one NOP is enough, and `x9` is left alone.
//!
//! **While threads run.** The Arm ARM (DDI 0487, B2.2.5, "Concurrent modification and execution of instructions") lets
//! one processor write an instruction while another executes it, if both the old one and the new one are of a short
//! list, which has B, BL, BRK, HVC, ISB, NOP, SMC and SVC. The other one executes either of them. `mov` isn't in
//! the list: it's written where no thread runs yet. That the store is seen as a whole needs an aligned word
//! (B2.2.1, single-copy atomicity). That the new instruction is seen *at last* needs three things of [`Code`]:
//! the data cache is cleaned to the point of unification (`dc cvau`), then the instruction cache is invalidated
//! (`ic ivau`), each after a `dsb ish`, and then every other processor goes through a context synchronization event, such as
//! the return from an interrupt. Many sites may have the latter in common.
//!
//! **No branch into the middle.** In a page that's guarded (BTI), an indirect branch has to end at a landing pad,
//! and there's none after a site. So the way from a stub into the body is a direct `b`.
//!
//! [`Code`]: crate::engine::Code

use crate::engine::{Step, Value};
pub use crate::hook::{Position, Unusable};
pub use crate::one_word::{ALL_STAND, AT_ONCE, SITE, behind_trap, is_one_instruction};

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "fewer than four bytes of NOP";

/// How far a `b` reaches, in bytes, forwards and backwards.
pub const REACH: u64 = 1 << 27;

/// `nop`.
pub const NOP: [u8; SITE] = 0xd503_201f_u32.to_le_bytes();

/// `brk #0`, with which all processors trap.
pub const BREAKPOINT: [u8; SITE] = 0xd420_0000_u32.to_le_bytes();

/// What kernels make of two NOPs before anything runs there: `mov x9, x30` and `nop`. From then on only the second
/// word changes.
pub const KERNEL_IDLE: [u8; 2 * SITE] = [0xe9, 0x03, 0x1e, 0xaa, 0x1f, 0x20, 0x03, 0xd5];

/// Between an idle site and an armed one, by way of a breakpoint. Nothing needs it, but it's what a debugger would do.
pub const BY_BREAKPOINT: &[Step] = &[
    Step { first: 0, end: SITE, value: Value::Trap(&BREAKPOINT) },
    Step { first: 0, end: SITE, value: Value::New },
];

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 32;

/// Where in a stub the way into the body begins, in bytes.
pub const STUB_BODY: usize = 16;

/// Where in a stub the address of its record is, in bytes.
const STUB_RECORD: usize = 24;

/// Bytes of a stub of [`stub`].
pub const STUB: usize = 64;

/// Where in such a stub the way into the body begins, in bytes.
const BODY: usize = 20;

/// Where in it the record is that its routine is told of, in bytes.
const RECORD: usize = 32;

/// Bytes of a [`thunk`].
pub const THUNK: usize = 16;

/// `bti c`, `bti jc`.
const PADS: [[u8; 4]; 2] = [0xd503_245f_u32.to_le_bytes(), 0xd503_24df_u32.to_le_bytes()];

crate::area::area!("4 after a landing pad.", "[`SITE`], however many NOPs follow.");

/// Is there a sled of LLVM's XRay at the start of `code`: a branch over seven NOPs? The branch is the hook; where it becomes a jump to a stub,
/// the function goes on with the NOPs.
fn is_sled(code: &[u8]) -> bool {
    /// `b .+32`
    const OVER_NOPS: [u8; 4] = 0x1400_0008_u32.to_le_bytes();
    let sled = code.get(..32).and_then(|all| all.strip_prefix(&OVER_NOPS));
    sled.is_some_and(|nops| nops.chunks_exact(SITE).all(|word| word == NOP))
}

/// Where the hook of a function is to be looked for by [`Area::find`], if unwind information has the function begin at
/// `start`, an address, with `code` there, and there are NOPs before it or in it. clang has it begin at the symbol, gcc after the
/// NOPs. The last one of these is executed wherever among them the entry is.
#[must_use]
pub fn entry_of(start: u64, code: &[u8]) -> u64 {
    match Area::find(code) {
        Ok(Area { is_call: false, .. }) => start,
        _ => start.saturating_sub(SITE as u64),
    }
}

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on.
    ///
    /// # Errors
    ///
    /// [`Unusable::NotAHook`] if there's neither.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let start = if PADS.iter().any(|pad| code.starts_with(pad)) { 4 } else { 0 };
        let hook = code.get(start..).unwrap_or_default();
        if hook.starts_with(&NOP) || is_sled(hook) {
            return Ok(Self { start, length: SITE, is_call: false });
        }
        match hook {
            // Bits 31 to 26 are 100101.
            [_, _, _, high, ..] if high & 0xfc == 0x94 => {
                Ok(Self { start, length: SITE, is_call: true })
            }
            _ => Err(Unusable::NotAHook),
        }
    }

    /// The bytes that make the area idle; the result has `length` bytes in use.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        put(&mut bytes, 0, &NOP);
        bytes
    }
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on. `None`: neither, so the place of the caller's address is unknown.
///
/// At the entry, the caller's address is in `x30`. After a prologue it's above the saved `x29`.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    if distance == 0 || distance == 4 && PADS.iter().any(|pad| code.starts_with(pad)) {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    frame(before?).map(|_| Position::AfterPrologue)
}

/// The frame that a prologue has made, as far as it's about the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// How many bytes the stack pointer was above the frame pointer when the function was entered.
    pub above: u64,
    /// The caller's address was signed before it was stored (`paciasp`), with the stack pointer of that time.
    pub is_signed: bool,
}

/// The effect of a prologue's instructions on the stack. `None`: `x29` isn't made a frame pointer by them, or
/// something happens to the stack that isn't known.
#[must_use]
pub fn frame(prologue: &[u8]) -> Option<Frame> {
    let (mut depth, mut frame, mut is_signed) = (0_u64, None, false);
    // Where x29 and x30 were stored, as a depth.
    let mut pair = None;
    for bytes in prologue.as_chunks::<4>().0 {
        let word = u32::from_le_bytes(*bytes);
        let immediate = u64::from(word >> 10 & 0xfff);
        // What loads and stores of pairs have: seven bits with a sign, in units of eight bytes.
        let offset = i64::from((word.cast_signed() << 10) >> 25) * 8;
        match word {
            // paciasp, with which a function begins; pacibsp, which signs with another key.
            0xd503_233f if depth == 0 => is_signed = true,
            0xd503_233f | 0xd503_237f => return None,
            // Of pairs and of single registers before the stack pointer is moved: stp …, [sp, #-N]!
            _ if word & 0xffc0_03e0 == 0xa980_03e0 || word & 0xffc0_03e0 == 0x6d80_03e0 => {
                depth = depth.checked_add_signed(-offset)?;
                if word & 0x7fff == 0x7bfd {
                    pair = Some(depth);
                }
            }
            // str x, [sp, #-N]!
            _ if word & 0xffe0_0fe0 == 0xf800_0fe0 => {
                let bytes = i64::from((word.cast_signed() << 11) >> 23);
                depth = depth.checked_add_signed(-bytes)?;
            }
            // sub sp, sp, #N; the same with twelve more bits
            _ if word & 0xffc0_03ff == 0xd100_03ff => depth += immediate,
            _ if word & 0xffc0_03ff == 0xd140_03ff => depth += immediate << 12,
            // stp x29, x30, [sp, #N]
            _ if word & 0xffc0_7fff == 0xa900_7bfd => {
                pair = Some(depth.checked_add_signed(-offset)?);
            }
            // mov x29, sp; add x29, sp, #N
            _ if word & 0xffc0_03ff == 0x9100_03fd => frame = Some(depth.checked_sub(immediate)?),
            // Anything else that writes to the stack pointer: add or sub of registers, and, of registers, add
            // of a number.
            _ if word & 0x1f == 31
                && (word & 0x1f00_0000 == 0x1100_0000 || word & 0x1fe0_0000 == 0x0b20_0000) =>
            {
                let is_compare = word & 0x2000_0000 != 0;
                if !is_compare {
                    return None;
                }
            }
            _ => {}
        }
    }
    let above = frame?;
    // The frame pointer leads to the pair.
    (pair == Some(above)).then_some(Frame { above, is_signed })
}

/// The armed site at `site`: a jump to `target`. `None` if that's out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0x1400_0000, site, target)
}

/// The idle site: the same wherever it is.
#[must_use]
pub fn idle(_site: u64, _target: u64) -> Option<[u8; SITE]> {
    Some(NOP)
}

/// The second word, at `site`, of a hook that was made ready as kernels do it ([`KERNEL_IDLE`]), when it's armed: a call of
/// the trampoline at `target`, which finds the caller in `x9` and the site in `x30`. `None` if that's out of reach.
#[must_use]
pub fn kernel_armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0x9400_0000, site, target)
}

/// The stub at `address` of a site with its record at `record`, whose body begins at `body`. It loads the record's
/// address into `x16` and jumps to the address that the record has `enter` bytes behind its start, by `x17`. At [`STUB_BODY`]
/// is the way into the body. `None` if the body is out of reach.
///
/// Instructions are little endian, data is not: `data` is the record's address as the processor has it in memory.
#[must_use]
pub fn record_stub(address: u64, data: [u8; 8], enter: u8, body: u64) -> Option<[u8; RECORD_STUB]> {
    let mut bytes = [0; RECORD_STUB];
    let load = 0xf940_0211 | u32::from(enter / 8) << 10;
    let jump = address.wrapping_add(STUB_BODY as u64);
    let words = [
        0x5800_00d0, // ldr x16, record
        load,        // ldr x17, [x16, #enter]
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
        u32::from_le_bytes(branch(0x1400_0000, jump, body)?),
        u32::from_le_bytes(BREAKPOINT),
    ];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    put(&mut bytes, STUB_RECORD, &data);
    Some(bytes)
}

/// The data of the function for the routine of a [`stub`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// Its number in the trace, and what it is for what is recorded.
    pub number: u32,
    /// What its prologue has made, if the hook is after it.
    pub frame: Option<Frame>,
}

/// A bit of what the routine is told of a frame: the caller's address was signed.
const IS_SIGNED: u64 = 1 << 63;

/// The stub at `address` of a hook whose function goes on at `body`, with its record in it. So nothing else has to be near the
/// program: the routine `entry` is jumped to by its address. `None` if the body is out of reach.
///
/// The stub begins with a NOP, or with a jump to the body: by exchanging one for the other, a hook is switched
/// on and off while threads run ([`switch`]), and the caller only needs to know where the site leads.
///
/// Data is little endian here, as the programs are.
#[must_use]
pub fn stub(address: u64, entry: u64, body: u64, traced: Traced) -> Option<[u8; STUB]> {
    let mut bytes = [0; STUB];
    let jump = address.wrapping_add(BODY as u64);
    let words = [
        u32::from_le_bytes(NOP),
        0x1000_00f0, // adr x16, record
        0xf940_0611, // ldr x17, [x16, #8]
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
        u32::from_le_bytes(branch(0x1400_0000, jump, body)?),
        u32::from_le_bytes(BREAKPOINT),
        u32::from_le_bytes(BREAKPOINT),
    ];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    let signed = |frame: Frame| frame.above | if frame.is_signed { IS_SIGNED } else { 0 };
    put(&mut bytes, RECORD, &jump.to_le_bytes());
    put(&mut bytes, RECORD + 8, &entry.to_le_bytes());
    put(&mut bytes, RECORD + 28, &traced.number.to_le_bytes()[..]);
    put(&mut bytes, RECORD + 16, &traced.frame.map_or(0, signed).to_le_bytes());
    Some(bytes)
}

/// The first instruction of a stub of [`stub`] while its hook is on, or off.
#[must_use]
pub fn switch(is_on: bool) -> [u8; SITE] {
    // b body
    const OFF: [u8; SITE] = 0x1400_0005_u32.to_le_bytes();
    if is_on { NOP } else { OFF }
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
#[must_use]
pub fn target(site: u64, code: [u8; SITE]) -> Option<u64> {
    let word = u32::from_le_bytes(code);
    let distance = i64::from((word << 6).cast_signed() >> 4);
    (word >> 26 == 0b00_0101).then(|| site.wrapping_add_signed(distance))
}

/// A jump to `target`, however far it is, by `x17`.
#[must_use]
pub fn thunk(target: u64) -> [u8; THUNK] {
    let mut bytes = [0; THUNK];
    // ldr x17, target; br x17
    put(&mut bytes, 0, &0x5800_0051_u32.to_le_bytes());
    put(&mut bytes, 4, &0xd61f_0220_u32.to_le_bytes());
    put(&mut bytes, 8, &target.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// A `b` or `bl` at `from`.
fn branch(opcode: u32, from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = to.wrapping_sub(from).cast_signed();
    let words = i32::try_from(distance / 4).ok()?;
    let is_near = (-(1 << 25)..1 << 25).contains(&words) && distance % 4 == 0;
    is_near.then(|| (opcode | words.cast_unsigned() & 0x03ff_ffff).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Change, Code, change};
    use std::vec::Vec;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn areas_of_all_compilers() {
        const NOP: u32 = 0xd503_201f;
        let area = |start, is_call| Ok(Area { start, length: 4, is_call });
        let table: &[(&[u32], _)] = &[
            (&[NOP, NOP, 0xa9bf_7bfd], area(0, false)),
            (&[0xd503_245f, NOP, NOP, 0xd503_233f], area(4, false)),
            (&[NOP, 0xd65f_03c0], area(0, false)),
            (&[0x9400_0000, 0x2a13_03e1], area(0, true)),
            (&[0x97ff_fffe], area(0, true)),
            (&[0xd503_245f, 0xa9bf_7bfd], Err(Unusable::NotAHook)),
            (&[0x1400_0001], Err(Unusable::NotAHook)),
            (&[0x1400_0008, NOP, NOP, NOP, NOP, NOP, NOP, NOP, 0xd65f_03c0], area(0, false)),
            (&[0x1400_0008, NOP, NOP, NOP, NOP, NOP, NOP], Err(Unusable::NotAHook)),
            (&[0x1400_0008, NOP, NOP, NOP, NOP, NOP, NOP, 0xd65f_03c0], Err(Unusable::NotAHook)),
            (&[], Err(Unusable::NotAHook)),
        ];
        for (words, expected) in table {
            assert_eq!(Area::find(&code(words)), *expected, "{words:08x?}");
        }
        assert_eq!(Area::find(&[0x1f, 0x20, 0x03]), Err(Unusable::NotAHook), "cut off");
    }

    /// `-fpatchable-function-entry=2` and `=4,2`, with `-mbranch-protection=standard` and without, of clang 14 and gcc 12.
    #[test]
    fn hooks_beside_the_start_of_unwind_information() {
        const NOP: u32 = 0xd503_201f;
        const BTI_C: u32 = 0xd503_245f;
        const PACIASP: u32 = 0xd503_233f;
        const ADD: u32 = 0x1100_0400;
        // The code, the word of it where unwind information begins, and the one that is found.
        let table: &[(&[u32], usize, usize)] = &[
            (&[NOP, NOP, ADD], 0, 0),
            (&[BTI_C, NOP, NOP, ADD], 0, 0),
            (&[NOP, NOP, NOP, NOP, ADD], 2, 2),
            (&[NOP, NOP, BTI_C, NOP, NOP, PACIASP], 2, 2),
            (&[NOP, NOP, ADD], 2, 1),
            (&[NOP, NOP, PACIASP], 2, 1),
            (&[BTI_C, NOP, NOP, ADD], 3, 2),
            (&[BTI_C, NOP, NOP, 0x9400_0000], 3, 2),
            (&[NOP, NOP, NOP, NOP, ADD], 4, 3),
        ];
        for (words, begins, expected) in table {
            let found = entry_of(0x1000 + 4 * *begins as u64, &code(&words[*begins..]));
            assert_eq!(found, 0x1000 + 4 * *expected as u64, "{words:08x?}, {begins}");
        }
        assert_eq!(entry_of(0, &[]), 0);
    }

    #[test]
    fn branches_reach_128_mebibytes_and_no_further() {
        assert_eq!(armed(0x1000, 0x2000), Some(0x1400_0400_u32.to_le_bytes()));
        assert_eq!(armed(0x2000, 0x1000), Some(0x17ff_fc00_u32.to_le_bytes()));
        assert_eq!(armed(REACH, 0), Some(0x1600_0000_u32.to_le_bytes()));
        assert_eq!(armed(0, REACH - 4), Some(0x15ff_ffff_u32.to_le_bytes()));
        assert_eq!(armed(0, REACH), None);
        assert_eq!(armed(REACH + 4, 0), None);
        assert_eq!(armed(0, 2), None, "not a place for an instruction");
        assert_eq!(kernel_armed(0x1004, 0x2004), Some(0x9400_0400_u32.to_le_bytes()));
        assert_eq!(KERNEL_IDLE[..], code(&[0xaa1e_03e9, 0xd503_201f])[..]);
    }

    #[test]
    fn a_stub_loads_jumps_and_leads_on() {
        let record = 0x1122_3344_5566_7788_u64;
        let stub = record_stub(0x1000, record.to_be_bytes(), 8, 0x2010).unwrap();
        let expected =
            [0x5800_00d0, 0xf940_0611, 0xd61f_0220, 0xd420_0000, 0x1400_0400, 0xd420_0000];
        assert_eq!(stub[..24], code(&expected)[..]);
        assert_eq!(stub[24..], record.to_be_bytes());
        assert_eq!(record_stub(0, [0; 8], 8, REACH + 0x1000), None);
    }

    #[test]
    fn a_stub_of_the_tracer_has_its_record_in_it() {
        let frame = Some(Frame { above: 32, is_signed: true });
        let stub = super::stub(0x1000, 0x7766_5544, 0x2014, Traced { number: 7, frame }).unwrap();
        let expected = [
            0xd503_201f,
            0x1000_00f0,
            0xf940_0611,
            0xd61f_0220,
            0xd420_0000,
            0x1400_0400,
            0xd420_0000,
            0xd420_0000,
        ];
        assert_eq!(stub[..32], code(&expected)[..]);
        let words: Vec<u64> =
            stub[32..].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        // adr leads 28 bytes on from where it is.
        assert_eq!(words, [0x1014, 0x7766_5544, 1 << 63 | 32, 7 << 32]);
        assert_eq!(super::stub(0, 0, REACH + 0x1000, Traced { number: 7, frame }), None);
        assert_eq!(target(0x1000, switch(false)), Some(0x1000 + BODY as u64));
        assert_eq!(target(0x1000, switch(true)), None);
        for to in [0x2000, 0, REACH] {
            assert_eq!(target(0x1000, armed(0x1000, to).unwrap()), Some(to));
        }
    }

    #[test]
    fn prologues_of_gcc_and_clang() {
        let frame = |above, is_signed| Some(Frame { above, is_signed });
        let table: &[(&[u32], _)] = &[
            // gcc: stp x29, x30, [sp, #-32]!; mov x29, sp; str x19, [sp, #16]; xpaclri
            (&[0xa9be_7bfd, 0x9100_03fd, 0xf900_0bf3, 0xd503_20ff], frame(32, false)),
            // clang: paciasp; stp x29, x30, [sp, #-32]!; str x19, [sp, #16]; mov x29, sp
            (&[0xd503_233f, 0xa9be_7bfd, 0xf900_0bf3, 0x9100_03fd], frame(32, true)),
            // sub sp, sp, #0x40; stp x29, x30, [sp, #48]; add x29, sp, #0x30
            (&[0xd101_03ff, 0xa903_7bfd, 0x9100_c3fd], frame(16, false)),
            // stp d9, d8, [sp, #-48]!; stp x29, x30, [sp, #16]; add x29, sp, #0x10; sub sp, sp, #0x1, lsl #12
            (&[0x6dbd_23e9, 0xa901_7bfd, 0x9100_43fd, 0xd140_07ff], frame(32, false)),
            // str x28, [sp, #-32]!; stp x29, x30, [sp, #16]; add x29, sp, #0x10
            (&[0xf81e_0ffc, 0xa901_7bfd, 0x9100_43fd], frame(16, false)),
            // mov x12, #0x2030; sub sp, sp, x12; stp x29, x30, [sp]; mov x29, sp
            (&[0xd284_060c, 0xcb2c_63ff, 0xa900_7bfd, 0x9100_03fd], None),
            // pacibsp; paciasp behind what moves the stack pointer.
            (&[0xd503_237f, 0xa9be_7bfd, 0x9100_03fd], None),
            (&[0xa9be_7bfd, 0xd503_233f, 0x9100_03fd], None),
            // No frame pointer, and one that leads to something else.
            (&[0xf81f_0ffe], None),
            (&[0xa9be_7bfd, 0x9100_43fd], None),
        ];
        for (words, expected) in table {
            assert_eq!(super::frame(&code(words)), *expected, "{words:08x?}");
        }
        let standard = code(&[0xd503_233f, 0xa9be_7bfd, 0x9100_03fd, 0x9400_0000]);
        assert_eq!(position(&standard, 12), Some(Position::AfterPrologue));
        assert_eq!(position(&standard, 8), None);
        assert_eq!(position(&standard, 0), Some(Position::Entry));
        assert_eq!(position(&standard, 4), None, "paciasp is no landing pad of a hook");
        assert_eq!(position(&code(&[0xd503_245f, 0xd503_201f]), 4), Some(Position::Entry));
        assert_eq!(position(&standard, 1 << 40), None);
    }

    /// The writes, and how often processors are told of them.
    #[derive(Default)]
    struct Memory(Vec<(u64, Vec<u8>)>, usize);

    impl Code for Memory {
        type Error = ();

        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
            self.0.push((address, bytes.to_vec()));
            Ok(())
        }

        fn synchronize(&mut self) -> Result<(), ()> {
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_site_changes_in_one_aligned_store() {
        for (from, to) in
            [(NOP, armed(0x1000, 0x2000).unwrap()), (armed(0x1000, 0x2000).unwrap(), NOP)]
        {
            let mut memory = Memory::default();
            let sites = [0x1000, 0x2000].map(|address| Change::whole(address, from, to));
            change(&mut memory, AT_ONCE, &sites).unwrap();
            let words: Vec<_> = [0x1000, 0x2000].map(|address| (address, to.to_vec())).to_vec();
            assert_eq!((memory.0, memory.1), (words, 1));
        }
    }

    /// The list of the Arm ARM: what may be exchanged while others execute it.
    #[test]
    fn every_state_may_be_exchanged_for_every_other() {
        let is_listed = |bytes: [u8; 4]| {
            let word = u32::from_le_bytes(bytes);
            word == 0xd503_201f
                || matches!(word >> 26, 0b00_0101 | 0b10_0101)
                || word & 0xffe0_001f == 0xd420_0000
        };
        let call = 0x9400_1234_u32.to_le_bytes();
        let [armed, kernels] = [armed(8, 0x2000), kernel_armed(8, 0x2000)].map(Option::unwrap);
        let states = [NOP, BREAKPOINT, call, armed, kernels, switch(true), switch(false)];
        assert!(states.into_iter().all(is_listed));
        assert!(!is_listed([0xe9, 0x03, 0x1e, 0xaa]), "mov x9, x30");
    }
}
