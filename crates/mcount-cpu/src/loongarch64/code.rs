//! LoongArch, 64 bits: the hook is one NOP, and an armed one is one `b`, which reaches ±128 MiB.
//!
//! All instructions have four bytes and are aligned to four. So the two states of a site are two words, and one becomes the
//! other in one store. What compilers leave at the entry are NOPs, two by custom (`-fpatchable-function-entry=2`); the first is the
//! site, others stay as they are. `-pg` leaves `bl _mcount` after the prologue, and that word is the site.
//!
//! **Two ways to arm.** Linux has one trampoline for all functions, which has to be told which function called it. So it
//! needs two NOPs: when the kernel starts, the first one becomes `move $t0, $ra` for good, since the second one, once it's a `bl`,
//! overwrites `$ra` ([`KERNEL_IDLE`], [`kernel_armed`]). Here each site has a stub ([`record_stub`]) that knows it, so it's reached
//! by `b`, and `$ra` stays what it is. Nothing has to be done before threads run, and one NOP is enough.
//!
//! **While threads run.** The LoongArch Reference Manual (volume 1, 1.10) has no list of instructions that may be exchanged while
//! others execute them. It has this:
//!
//! - An instruction cache is kept coherent with the caches of other cores by hardware (2.1.7, "Memory Access Types").
//!   So no cache has to be told, and a store is fetched by all cores from some moment on.
//! - An address of code is a multiple of four; any other is an exception (ADEF). So an instruction is never in two lines, and what
//!   stores a word of it changes the line once.
//! - A core may go on with what it had fetched before, until it executes `ibar 0` (2.2.8.2), which is about that core only.
//!
//! From this it follows that a core finds the old instruction or the new one, though the manual doesn't say so
//! in one sentence. Linux relies on it: it exchanges `nop` and `bl` in a running kernel by one store, and stops
//! no processor. Both states of a site are right at any time, so it isn't a matter of safety when the new one
//! is seen. That it's seen *at last* needs an interrupt on every other core: what it had fetched is discarded
//! then, and fetched anew after it. Many sites may have that in common.
//!
//! `$t1` and `$t3` have no meaning at the entry of a function: linkers' stubs change them, `$t0` and `$t2`.

use crate::engine::{Step, Value};
pub use crate::hook::{Position, Unusable};
pub use crate::one_word::{ALL_STAND, AT_ONCE, SITE, behind_trap, is_one_instruction};

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "fewer than four bytes of NOP";

/// How far a `b` reaches, in bytes, forwards and backwards.
pub const REACH: u64 = 1 << 27;

/// `nop`, which is `andi $zero, $zero, 0`.
pub const NOP: [u8; SITE] = 0x0340_0000_u32.to_le_bytes();

/// `break 0`, with which all processors trap.
pub const BREAKPOINT: [u8; SITE] = 0x002a_0000_u32.to_le_bytes();

/// What kernels make of two NOPs before anything runs there: `move $t0, $ra` and `nop`. From then on only the second
/// word changes.
pub const KERNEL_IDLE: [u8; 2 * SITE] = [0x2c, 0x00, 0x15, 0x00, 0x00, 0x00, 0x40, 0x03];

/// Between an idle site and an armed one, by way of a breakpoint. Nothing needs it, but it's what a debugger would do.
pub const BY_BREAKPOINT: &[Step] = &[
    Step { first: 0, end: SITE, value: Value::Trap(&BREAKPOINT) },
    Step { first: 0, end: SITE, value: Value::New },
];

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 24;

/// Where in a stub the address of its record is, in bytes.
const STUB_RECORD: u32 = 16;

const B: u32 = 0x5000_0000;
const BL: u32 = 0x5400_0000;
const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 3;
const T1: u32 = 13;
const T3: u32 = 15;
const FP: u32 = 22;

crate::area::area!("always 0.", "[`SITE`], however many NOPs follow.");

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on.
    ///
    /// # Errors
    ///
    /// [`Unusable::NotAHook`] if there's neither.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let area = |is_call| Ok(Self { start: 0, length: SITE, is_call });
        match code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) {
            Some(_) if code.starts_with(&NOP) => area(false),
            Some(word) if word & 0xfc00_0000 == BL => area(true),
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
/// At the entry, the caller's address is in `$ra`. A prologue has stored it.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    if distance == 0 {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    frame(before?).map(|_| Position::AfterPrologue)
}

/// The frame that a prologue has made, as far as it's about the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The distances are from the frame pointer, not from the stack pointer: that one was aligned, by an
    /// unknown distance.
    pub by_pointer: bool,
    /// How many bytes higher the stack pointer was when the function was entered.
    pub depth: i32,
    /// How many bytes above it the caller's address is.
    pub link: i32,
}

/// The effect of a prologue's instructions on the stack. `None`: `$ra` isn't stored by them, or something
/// happens to the stack that isn't known.
#[must_use]
pub fn frame(prologue: &[u8]) -> Option<Frame> {
    let mut state = Prologue { numbers: [None; 32], depth: Some(0), pointer: None, stored: None };
    for bytes in prologue.as_chunks::<4>().0 {
        state.step(u32::from_le_bytes(*bytes))?;
    }
    let (by_pointer, depth) = match (state.depth, state.pointer) {
        (Some(depth), _) => (false, depth),
        (None, pointer) => (true, pointer?),
    };
    let link = i32::try_from(depth.checked_sub(state.stored?)?).ok()?;
    Some(Frame { by_pointer, depth: i32::try_from(depth).ok()?, link })
}

/// The frame after some instructions of a prologue.
struct Prologue {
    /// What registers hold that were loaded with a number.
    numbers: [Option<i64>; 32],
    /// Bytes that the stack has grown by; `None`: it was aligned.
    depth: Option<i64>,
    /// The same of where the frame pointer leads to.
    pointer: Option<i64>,
    /// The depth at which `$ra` was stored.
    stored: Option<i64>,
}

impl Prologue {
    fn number(&self, register: u32) -> Option<i64> {
        if register == ZERO { Some(0) } else { *self.numbers.get(register as usize)? }
    }

    /// `register` becomes what `number` says; `None` if it's the stack pointer, and the value is
    /// unknown.
    fn set(&mut self, register: u32, number: Option<i64>) -> Option<()> {
        match register {
            SP => return None,
            FP => self.pointer = None,
            _ => {}
        }
        *self.numbers.get_mut(register as usize)? = number;
        Some(())
    }

    /// `to` becomes so much more than the stack pointer.
    fn move_stack(&mut self, to: u32, bytes: Option<i64>) -> Option<()> {
        let depth = self.depth.zip(bytes).and_then(|(depth, bytes)| depth.checked_sub(bytes));
        match to {
            SP => self.depth = Some(depth?),
            FP => self.pointer = depth,
            _ => self.set(to, None)?,
        }
        Some(())
    }

    fn store(&mut self, register: u32, offset: i64) {
        if register == RA && self.stored.is_none() {
            self.stored = self.depth.map(|depth| depth - offset);
        }
    }

    fn step(&mut self, word: u32) -> Option<()> {
        let (to, from, other) = (word & 31, word >> 5 & 31, word >> 10 & 31);
        let unsigned = i64::from(word >> 10 & 0xfff);
        let signed = i64::from((word << 10).cast_signed() >> 20);
        let sum = |one: Option<i64>, other: Option<i64>| one?.checked_add(other?);
        match word {
            // addi.w, addi.d
            _ if matches!(word >> 22, 0x00a | 0x00b) && from == SP => {
                self.move_stack(to, Some(signed))
            }
            _ if matches!(word >> 22, 0x00a | 0x00b) => {
                self.set(to, sum(self.number(from), Some(signed)))
            }
            // ori, of which li is one
            _ if word >> 22 == 0x00e => {
                self.set(to, self.number(from).map(|number| number | unsigned))
            }
            // lu12i.w
            _ if word >> 25 == 0x0a => {
                self.set(to, Some(i64::from((word << 7).cast_signed() >> 12 << 12)))
            }
            // or, of which move is one
            _ if word >> 15 == 0x2a && other == ZERO && from == SP => self.move_stack(to, Some(0)),
            _ if word >> 15 == 0x2a && other == ZERO => self.set(to, self.number(from)),
            // add.d, sub.d
            _ if word >> 15 == 0x21 && from == SP => self.move_stack(to, self.number(other)),
            _ if word >> 15 == 0x23 && from == SP => {
                self.move_stack(to, self.number(other).map(|number| -number))
            }
            // bstrins.d $sp, $zero, N, 0: it's aligned.
            _ if word >> 22 == 0x002 && to == SP && from == ZERO => {
                self.depth = None;
                Some(())
            }
            // st.d, stptr.d
            _ if word >> 22 == 0x0a7 && from == SP => {
                self.store(to, signed);
                Some(())
            }
            _ if word >> 24 == 0x27 && from == SP => {
                self.store(to, i64::from((word << 8).cast_signed() >> 18 << 2));
                Some(())
            }
            // Branches.
            _ if (0x10..0x1c).contains(&(word >> 26)) => None,
            _ if leaves_registers(word) => Some(()),
            _ => self.set(to, None),
        }
    }
}

/// Does an instruction leave all general registers alone, though it's none of those above? Stores, and what's done to
/// floating-point and vector registers.
fn leaves_registers(word: u32) -> bool {
    match word >> 24 {
        // st.b, st.h, st.w, st.d; stptr.w, stptr.d; fld and fst; vld, vst, xvld, xvst
        0x29 | 0x25 | 0x27 | 0x2b | 0x2c => true,
        // Of floating-point registers, but for the moves into general ones; of vectors, the same.
        0x01 => !matches!(word >> 10, 0x452d..=0x452f | 0x4532 | 0x4537),
        _ => false,
    }
}

/// The armed site at `site`: a jump to `target`. `None` if that's out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(B, site, target)
}

/// The idle site: the same wherever it is.
#[must_use]
pub fn idle(_site: u64, _target: u64) -> Option<[u8; SITE]> {
    Some(NOP)
}

/// The second word, at `site`, of a hook that was made ready as kernels do it ([`KERNEL_IDLE`]), when it's armed: a call of
/// the trampoline at `target`, which finds the caller in `$t0` and the site in `$ra`. `None` if that's out of reach.
#[must_use]
pub fn kernel_armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(BL, site, target)
}

/// The stub of a site with its record at `record`. It loads the record's address into `$t1` and jumps to the address
/// that the record has `enter` bytes behind its start, by `$t3`.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> [u8; RECORD_STUB] {
    let load = |offset: u32, from: u32, to: u32| 0x28c0_0000 | offset << 10 | from << 5 | to;
    let words = [
        0x1800_0000 | T1,               // pcaddi $t1, 0
        load(STUB_RECORD, T1, T1),      // ld.d $t1, $t1, 16
        load(u32::from(enter), T1, T3), // ld.d $t3, $t1, enter
        0x4c00_0000 | T3 << 5 | ZERO,   // jr $t3
    ];
    let mut bytes = [0; RECORD_STUB];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    put(&mut bytes, STUB_RECORD as usize, &record.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// A `b` or `bl` at `from`: the lower sixteen bits of the distance, in words, are above the ten upper ones.
fn branch(opcode: u32, from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = to.wrapping_sub(from).cast_signed();
    let words = i32::try_from(distance / 4).ok()?;
    let is_near = (-(1 << 25)..1 << 25).contains(&words) && distance % 4 == 0;
    let bits = words.cast_unsigned();
    is_near.then(|| (opcode | (bits & 0xffff) << 10 | bits >> 16 & 0x3ff).to_le_bytes())
}

#[cfg(test)]
mod tests;
