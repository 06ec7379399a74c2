//! RISC-V, 64 bits: an armed hook is `auipc` and `jalr`, which reach ±2 GiB, and one halfword of it is written.
//!
//! Instructions have four bytes, or two with the C extension, and begin at any even address. So an instruction of
//! four may straddle words, lines and pages, and is then fetched in two parts. A processor never fetches less
//! than a halfword at once, and never sees part of a store to an aligned one. So whatever changes while threads
//! run is **one aligned halfword**, the first one of an instruction, and the rest of it has the same bytes in
//! both states. Whatever mixture of old and new a processor has fetched is then one of the two instructions.
//! (Linux stores words instead, and needs processors that fetch those at once, Ziccif, and functions that begin
//! at a multiple of four.)
//!
//! Unlike on other processors, any instruction may be exchanged. When it's seen is: a processor may execute
//! what it had fetched before until it executes `fence.i` (Unprivileged ISA, "Zifencei"). Linux has a system
//! call that makes all of them do that (`riscv_flush_icache`), which [`Code`] makes, once for all sites.
//!
//! | what the compiler left | idle | armed |
//! |---|---|---|
//! | eight bytes before the entry and a NOP at it ([`Kind::Before`]) | `auipc t1; jr t1`, and a NOP | the NOP is a jump back |
//! | eight bytes of NOPs at the entry, or a call ([`Kind::Long`]) | `auipc t1; addi zero, t1` | `auipc t1; jr t1` |
//! | a call that the linker has relaxed to `jal` ([`Kind::Near`]) | `addi zero` | `j`, which reaches ±1 MiB |
//!
//! `addi` to the register `zero` is a NOP, whatever else it says. Of the last two kinds, the parts that never change
//! are different from what the compiler left, and a thread may be between two of its instructions. So they're
//! made ready while no other thread runs. Of the first one, no thread executes those parts before the NOP leads
//! there.
//!
//! `t1` (as `t0`) has no meaning at the entry of a function: linkers' stubs change it. To jump by `t0` would mean something to the
//! processor's prediction of returns.
//!
//! [`Code`]: crate::engine::Code

use crate::engine::{Step, Value};
pub use crate::hook::{Position, Unusable};

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "fewer bytes of NOP than a call takes";

/// How far a stub may be away, in bytes, forwards and backwards.
pub const REACH: u64 = (1 << 31) - (1 << 12);

/// `c.ebreak`.
pub const BREAKPOINT: [u8; 2] = [0x02, 0x90];

/// Between an idle site and an armed one, of what differs: one halfword.
pub const AT_ONCE: &[Step] = &[Step { first: 0, end: usize::MAX, value: Value::New }];

/// From what the compiler left: what is before the entry, and then the entry.
pub const ALL_STAND: &[Step] = &[
    Step { first: 0, end: PAIR, value: Value::New },
    Step { first: PAIR, end: usize::MAX, value: Value::New },
];

/// As [`AT_ONCE`] by way of a breakpoint, as a debugger would do it.
pub const BY_BREAKPOINT: &[Step] = &[
    Step { first: 0, end: 2, value: Value::Trap(&BREAKPOINT) },
    Step { first: 0, end: usize::MAX, value: Value::New },
];

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 24;

/// Bytes of `auipc` and `jalr`.
const PAIR: usize = 8;
const C_NOP: [u8; 2] = [0x01, 0x00];
const NOP: [u8; 4] = [0x13, 0, 0, 0];
/// The first halfword of `addi zero, …`.
const ADDI_ZERO: [u8; 2] = [0x13, 0];

const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;
const T0: u32 = 5;
const T1: u32 = 6;

/// How a hook is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There's room for a far jump before the entry. At the entry there's a NOP of that many bytes.
    Before(usize),
    /// There's room for a far jump.
    Long,
    /// There's room for a near one.
    Near,
}

/// The compiler's code at the entry of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Bytes from where the area was looked for to where the hook is: 4 after a landing pad.
    pub start: usize,
    /// Bytes of the area before the hook.
    pub before: usize,
    /// All its bytes.
    pub length: usize,
    /// How it is armed.
    pub kind: Kind,
    /// It was a call of the hook.
    pub is_call: bool,
}

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on; `before` is what the compiler
    /// left before it.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's no room.
    pub fn find(before: &[u8], code: &[u8]) -> Result<Self, Unusable> {
        let start = if is_pad(code) { 4 } else { 0 };
        let hook = code.get(start..).unwrap_or_default();
        let new = |before, length, kind, is_call| Ok(Self { start, before, length, kind, is_call });
        let has_room = start == 0 && before.len() >= PAIR && nops(before) == before.len();
        match nop(hook) {
            Some(length) if has_room => {
                return new(PAIR, PAIR + length, Kind::Before(length), false);
            }
            Some(_) => {
                return match nops(hook) {
                    PAIR.. => new(0, PAIR, Kind::Long, false),
                    bytes => Err(Unusable::TooSmall(bytes)),
                };
            }
            None => {}
        }
        match (word(hook, 0), word(hook, 4)) {
            (Some(upper), Some(jump)) if is_auipc(upper) && is_jalr(jump) => {
                let is_pair = jump >> 15 & 31 == destination(upper) && destination(jump) != ZERO;
                if is_pair { new(0, PAIR, Kind::Long, true) } else { Err(Unusable::NotAHook) }
            }
            (Some(jump), _) if jump & 0xfff == RA << 7 | 0x6f => new(0, 4, Kind::Near, true),
            _ => Err(Unusable::NotAHook),
        }
    }

    /// The two states differ in the first byte, and the one after the last.
    #[must_use]
    pub fn changed(&self) -> (usize, usize) {
        let first = match self.kind {
            Kind::Before(_) => PAIR,
            Kind::Long => PAIR / 2,
            Kind::Near => 0,
        };
        (first, first + 2)
    }

    /// The whole area at `site` when it's idle, and when it leads to `target`. `None` if that's out of reach.
    #[must_use]
    pub fn states(&self, site: u64, target: u64) -> Option<([u8; 24], [u8; 24])> {
        let mut armed = [0; 24];
        let place = match self.kind {
            Kind::Near => {
                put(&mut armed, 0, &jump(target.wrapping_sub(site))?);
                0
            }
            Kind::Long | Kind::Before(_) => {
                let (upper, lower) = far(target.wrapping_sub(site))?;
                put(&mut armed, 0, &(upper | T1 << 7 | 0x17).to_le_bytes());
                put(&mut armed, 4, &(lower | T1 << 15 | ZERO << 7 | 0x67).to_le_bytes());
                match self.kind {
                    // c.j -8
                    Kind::Before(2) => put(&mut armed, PAIR, &[0xe5, 0xbf]),
                    Kind::Before(_) => put(&mut armed, PAIR, &jump(0_u64.wrapping_sub(8))?),
                    _ => {}
                }
                self.changed().0
            }
        };
        let mut idle = armed;
        let nop = if self.kind == Kind::Before(2) { C_NOP } else { ADDI_ZERO };
        put(&mut idle, place, &nop);
        Some((idle, armed))
    }
}

/// Bytes of the NOP at the start of `code`, if there's one.
fn nop(code: &[u8]) -> Option<usize> {
    match code {
        _ if code.starts_with(&C_NOP) => Some(2),
        _ if code.starts_with(&NOP) => Some(4),
        _ => None,
    }
}

/// Bytes of NOPs at the start of `code`, as far as they matter.
fn nops(code: &[u8]) -> usize {
    let mut length = 0;
    while let Some(more) = nop(code.get(length..).unwrap_or_default()) {
        length += more;
    }
    length
}

/// `lpad` (Zicfilp), which is an `auipc` to the register `zero`.
fn is_pad(code: &[u8]) -> bool {
    word(code, 0).is_some_and(|word| word & 0xfff == 0x17)
}

fn word(code: &[u8], at: usize) -> Option<u32> {
    let bytes = code.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn is_auipc(word: u32) -> bool {
    word & 0x7f == 0x17
}

fn is_jalr(word: u32) -> bool {
    word & 0x707f == 0x67
}

fn destination(word: u32) -> u32 {
    word >> 7 & 31
}

/// A distance as the operands of `auipc` and of what follows it.
fn far(distance: u64) -> Option<(u32, u32)> {
    let distance = i32::try_from(distance.cast_signed()).ok()?;
    let upper = distance.checked_add(0x800)? & !0xfff;
    let lower = distance.wrapping_sub(upper);
    (distance % 2 == 0).then_some((upper.cast_unsigned(), lower.cast_unsigned() << 20))
}

/// `jal zero` over this distance.
fn jump(distance: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(distance.cast_signed()).ok()?;
    let is_near = (-(1 << 20)..1 << 20).contains(&distance) && distance % 2 == 0;
    let bits = distance.cast_unsigned();
    let operand = (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3ff) << 21
        | (bits >> 11 & 1) << 20
        | (bits >> 12 & 0xff) << 12;
    is_near.then(|| (operand | ZERO << 7 | 0x6f).to_le_bytes())
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on. `None`: neither, so the place of the caller's address is unknown.
///
/// At the entry, the caller's address is in `ra`. A prologue has stored it.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    if distance == 0 || distance == 4 && is_pad(code) {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    frame(before?).map(|_| Position::AfterPrologue)
}

/// The frame that a prologue has made, as far as it's about the caller. Nothing here has a frame pointer for
/// sure, so it's about the stack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// How many bytes higher the stack pointer was when the function was entered.
    pub depth: u32,
    /// How many bytes above the stack pointer the caller's address is.
    pub link: u32,
}

/// The effect of a prologue's instructions on the stack. `None`: `ra` isn't stored by them, or something
/// happens to the stack that isn't known.
#[must_use]
pub fn frame(prologue: &[u8]) -> Option<Frame> {
    let mut state = Prologue { numbers: [None; 32], depth: 0, stored: None };
    let mut rest = prologue;
    while let [low, _, ..] = rest {
        let size = if low & 3 == 3 { 4 } else { 2 };
        let (instruction, behind) = rest.split_at_checked(size)?;
        match instruction {
            [a, b] => state.compressed(u32::from(u16::from_le_bytes([*a, *b])))?,
            _ => state.word(word(instruction, 0)?)?,
        }
        rest = behind;
    }
    let depth = u32::try_from(state.depth).ok()?;
    let link = u32::try_from(state.depth.checked_sub(state.stored?)?).ok()?;
    Some(Frame { depth, link })
}

/// The frame after some instructions of a prologue.
struct Prologue {
    /// What registers hold that were loaded with a number.
    numbers: [Option<i64>; 32],
    /// Bytes that the stack has grown by.
    depth: i64,
    /// The depth at which `ra` was stored.
    stored: Option<i64>,
}

impl Prologue {
    fn number(&self, register: u32) -> Option<i64> {
        if register == ZERO { Some(0) } else { *self.numbers.get(register as usize)? }
    }

    /// `register` becomes what `number` says; `None` if it's the stack pointer, and the value is
    /// unknown.
    fn set(&mut self, register: u32, number: Option<i64>) -> Option<()> {
        if register == SP {
            return None;
        }
        *self.numbers.get_mut(register as usize)? = number;
        Some(())
    }

    fn grow(&mut self, bytes: Option<i64>) -> Option<()> {
        self.depth = self.depth.checked_add(bytes?)?;
        Some(())
    }

    fn store(&mut self, register: u32, offset: i64) {
        if register == RA && self.stored.is_none() {
            self.stored = Some(self.depth - offset);
        }
    }

    fn word(&mut self, word: u32) -> Option<()> {
        let (to, from, other) = (destination(word), word >> 15 & 31, word >> 20 & 31);
        let immediate = i64::from(word.cast_signed() >> 20);
        match (word & 0x7f, word >> 12 & 7) {
            // addi, addiw
            (0x13, 0) if to == SP && from == SP => self.grow(Some(-immediate)),
            (0x13 | 0x1b, 0) => self.set(to, self.number(from).map(|number| number + immediate)),
            // lui
            (0x37, _) => self.set(to, Some(i64::from((word & !0xfff).cast_signed()))),
            // add, sub
            (0x33, 0) if to == SP && from == SP => {
                let number = self.number(other);
                let is_sub = word >> 25 == 0x20;
                self.grow(number.map(|number| if is_sub { number } else { -number }))
            }
            // sd
            (0x23, 3) if from == SP => {
                let offset = i64::from((word.cast_signed() >> 25) << 5) | i64::from(word >> 7 & 31);
                self.store(other, offset);
                Some(())
            }
            // Other stores, of floating-point registers too, change no register; jumps and branches end what's known.
            (0x23 | 0x27, _) => Some(()),
            (0x63 | 0x67 | 0x6f, _) => None,
            _ => self.set(to, None),
        }
    }

    fn compressed(&mut self, half: u32) -> Option<()> {
        let to = half >> 7 & 31;
        let immediate = i64::from(half >> 2 & 31) - i64::from(half >> 12 & 1) * 32;
        match (half & 3, half >> 13) {
            // c.addi, c.addiw
            (1, 0 | 1) if to == SP => self.grow(Some(-immediate)),
            (1, 0 | 1) => self.set(to, self.number(to).map(|number| number + immediate)),
            // c.li
            (1, 2) => self.set(to, Some(immediate)),
            // c.addi16sp
            (1, 3) if to == SP => {
                let bits = (half >> 6 & 1) << 4
                    | (half >> 2 & 1) << 5
                    | (half >> 5 & 1) << 6
                    | (half >> 3 & 3) << 7;
                self.grow(Some(i64::from(half >> 12 & 1) * 512 - i64::from(bits)))
            }
            // c.lui
            (1, 3) => self.set(to, Some(immediate << 12)),
            // c.sdsp
            (2, 7) => {
                let offset = (half >> 10 & 7) << 3 | (half >> 7 & 7) << 6;
                self.store(half >> 2 & 31, i64::from(offset));
                Some(())
            }
            // c.fsdsp, c.swsp and other stores
            (2, 5 | 6) | (0, 5..=7) => Some(()),
            // c.mv, c.add
            (2, 4) if half >> 2 & 31 != 0 => {
                let number = self.number(half >> 2 & 31);
                if half >> 12 & 1 == 0 {
                    self.set(to, number)
                } else if to == SP {
                    self.grow(number.map(|number| -number))
                } else {
                    self.set(to, None)
                }
            }
            // c.ebreak, c.jr, c.jalr; c.j, c.beqz, c.bnez
            (2, 4) | (1, 5..=7) => None,
            // c.addi4spn, c.ld and the like: one of eight registers.
            (0, _) => self.set(8 + (half >> 2 & 7), None),
            (1, 4) => self.set(8 + (half >> 7 & 7), None),
            _ => self.set(to, None),
        }
    }
}

/// Can the area at the start of some code, which has `length` bytes, be made ready while threads run? They are in what is
/// before the entry only on their way out of it.
#[must_use]
pub fn is_one_instruction(_code: &[u8], length: usize) -> bool {
    length > PAIR
}

/// Where a thread goes on that ran into the breakpoint of [`BY_BREAKPOINT`] at `site`: after it, as if the site were
/// idle.
#[must_use]
pub fn behind_trap(site: u64, length: usize) -> u64 {
    site.wrapping_add(length as u64)
}

/// The stub of a site with its record at `record`. It loads the record's address into `t0` and jumps to the address
/// that the record has `enter` bytes behind its start, by `t1`.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> [u8; RECORD_STUB] {
    let load =
        |offset: u32, from: u32, to: u32| offset << 20 | from << 15 | 3 << 12 | to << 7 | 0x03;
    let words = [
        T0 << 7 | 0x17,                 // auipc t0, 0
        load(16, T0, T0),               // ld t0, 16(t0)
        load(u32::from(enter), T0, T1), // ld t1, enter(t0)
        T1 << 15 | ZERO << 7 | 0x67,    // jr t1
    ];
    let mut bytes = [0; RECORD_STUB];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    put(&mut bytes, 16, &record.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests;
