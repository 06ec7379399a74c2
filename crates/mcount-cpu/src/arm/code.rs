//! Arm with 32 bits (`ARMv7`, hard float), in both of its instruction sets: an armed hook is one branch, and what changes while
//! threads run is one word of ARM code, or one halfword of Thumb code.
//!
//! A site says by its bytes which instruction set it's in: no NOP, and no `push {lr}`, of one begins like one of the other. (A call
//! may begin like any of them.)
//!
//! **What may be exchanged.** The Arm ARM (ARMv7-A and ARMv7-R, DDI 0406C, A3.5.4, "Concurrent modification and execution of
//! instructions") lets one processor write an instruction while another executes it, if the old one and the new one are of a
//! short list: in ARM code B, BL, NOP, BKPT, SVC, HVC and SMC, in Thumb code the 16-bit encodings of B, NOP, BKPT and SVC. So what
//! changes of a site in Thumb code is one 16-bit instruction, which has to be aligned to a halfword only. [`Kind::Halves`] is the
//! exception: it's a 16-bit B or the first half of a 32-bit one, and the list has no 32-bit B. So it's changed only
//! while the program has one thread ([`Area::is_exchangeable`]).
//!
//! | what the compiler left | idle | armed |
//! |---|---|---|
//! | ARM: a NOP at the entry, alone or the first of several ([`Kind::Word`]) | `nop` | `b stub` |
//! | Thumb: two NOPs or more at the entry ([`Kind::Halves`]) | `b .+4`, and half of the other | `b.w stub` |
//! | Thumb: two NOPs or more before the entry, and one at it ([`Kind::Before`]) | `b.w stub; nop` | `b.w stub; b .-4` |
//! | ARM: `push {lr}; bl __gnu_mcount_nc` ([`Kind::Call`]) | `b .+8`, `b stub` | `nop; b stub` |
//! | Thumb: the same ([`Kind::ShortCall`]) | `b .+6`, `b.w stub` | `nop; b.w stub` |
//!
//! Where the first change makes more than one instruction of an area, a thread may be between two of them. So that's
//! done while no other thread runs ([`is_one_instruction`]). Of [`Kind::Before`], no thread executes the code
//! before the entry until the entry leads there.
//!
//! **Stubs** can be reached by `b`, which doesn't change the instruction set. So the stub of a site in Thumb code is Thumb code. A
//! function may have the static chain of nested functions in `ip`, so there's no register that a stub could change: it
//! pushes that one.
//!
//! Instructions are little endian, and so is data here.

mod prologue;

use crate::engine::{Step, Value};
pub use crate::hook::{Position, Unusable};
pub use prologue::{Frame, frame};

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "Thumb code with fewer than four bytes of NOP at or before the entry, or code for processors before ARMv7";

/// How far a stub may be away, in bytes, forwards and backwards: as a branch of Thumb code reaches.
pub const REACH: u64 = 1 << 24;

/// `udf #0`, in Thumb code.
pub const BREAKPOINT: [u8; 2] = [0x00, 0xde];

/// Between an idle site and an armed one, of what differs: a word, or a halfword.
pub const AT_ONCE: &[Step] = &[Step { first: 0, end: usize::MAX, value: Value::New }];

/// From what the compiler left: what is before the entry, and then the entry.
pub const ALL_STAND: &[Step] = &[
    Step { first: 0, end: WIDE, value: Value::New },
    Step { first: WIDE, end: usize::MAX, value: Value::New },
];

/// The same as [`AT_ONCE`]. There's no breakpoint of as many bytes as sites have, in both instruction sets, and nothing
/// needs one.
pub const BY_BREAKPOINT: &[Step] = AT_ONCE;

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 16;

/// The bit of an address of code that says that it's Thumb code.
pub const THUMB: u64 = 1;

/// Bytes of an instruction of ARM code, and of a long one of Thumb code.
const WIDE: usize = 4;
const NOP: [u8; 4] = 0xe320_f000_u32.to_le_bytes();
const SHORT_NOP: [u8; 2] = 0xbf00_u16.to_le_bytes();
/// What older processors have instead, `mov r0, r0` and `mov r8, r8`. They may not be exchanged while they're executed.
const OLD_NOP: [u8; 4] = 0xe1a0_0000_u32.to_le_bytes();
const OLD_SHORT_NOP: [u8; 2] = 0x46c0_u16.to_le_bytes();
/// `nop.w`
const LONG_NOP: [u8; 4] = [0xaf, 0xf3, 0x00, 0x80];
/// `push {lr}`, as `str lr, [sp, #-4]!` and as `stmfd sp!, {lr}`.
const PUSHES: [[u8; 4]; 2] = [0xe52d_e004_u32.to_le_bytes(), 0xe92d_4000_u32.to_le_bytes()];
const SHORT_PUSH: [u8; 2] = 0xb500_u16.to_le_bytes();

/// How a hook is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ARM: one NOP.
    Word,
    /// ARM: two instructions that belong together.
    Call,
    /// Thumb: four bytes of NOP.
    Halves,
    /// Thumb: there's room for a branch before the entry, and a NOP of two bytes at it.
    Before,
    /// Thumb: an instruction of two bytes and one of four that belong together.
    ShortCall,
}

/// The compiler's code at the entry of a function, or after its prologue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Bytes from where the area was looked for to where the hook is: always 0.
    pub start: usize,
    /// Bytes of the area before that.
    pub before: usize,
    /// All its bytes.
    pub length: usize,
    /// How it is armed.
    pub kind: Kind,
    /// It was a call of the hook.
    pub is_call: bool,
}

impl Area {
    /// The area at the start of `code`; `before` is what the compiler left before the entry of a function or, where there's a
    /// call, the function up to that.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's no room.
    pub fn find(before: &[u8], code: &[u8]) -> Result<Self, Unusable> {
        let new =
            |before, length, kind, is_call| Ok(Self { start: 0, before, length, kind, is_call });
        // Calls first: of where they lead, any bytes may be a part.
        match code {
            // bl; blx
            [_, _, _, 0xeb | 0xfa | 0xfb, ..]
                if PUSHES.iter().any(|push| before.ends_with(push)) =>
            {
                return new(4, 8, Kind::Call, true);
            }
            [_, first, _, second, ..]
                if first & 0xf8 == 0xf0
                    && second & 0xc0 == 0xc0
                    && before.ends_with(&SHORT_PUSH) =>
            {
                return new(2, 6, Kind::ShortCall, true);
            }
            _ if code.starts_with(&NOP) => return new(0, 4, Kind::Word, false),
            _ if code.starts_with(&OLD_NOP) || code.starts_with(&OLD_SHORT_NOP) => {
                return Err(Unusable::TooSmall(0));
            }
            _ => {}
        }
        let has_room = before.len() >= WIDE && is_of_nops(before);
        match short_nops(code) {
            0 => Err(Unusable::NotAHook),
            _ if has_room && code.starts_with(&SHORT_NOP) => new(4, 6, Kind::Before, false),
            WIDE.. => new(0, 4, Kind::Halves, false),
            bytes => Err(Unusable::TooSmall(bytes)),
        }
    }

    /// May it be armed, and made idle again, while other threads run? Else one of them may execute half of the old instruction and half
    /// of the new one.
    #[must_use]
    pub fn is_exchangeable(&self) -> bool {
        self.kind != Kind::Halves
    }

    /// Is it Thumb code?
    #[must_use]
    pub fn is_thumb(&self) -> bool {
        matches!(self.kind, Kind::Halves | Kind::Before | Kind::ShortCall)
    }

    /// The two states differ in the first byte, and the one after the last.
    #[must_use]
    pub fn changed(&self) -> (usize, usize) {
        match self.kind {
            Kind::Word | Kind::Call => (0, 4),
            Kind::Halves | Kind::ShortCall => (0, 2),
            Kind::Before => (4, 6),
        }
    }

    /// The whole area at `site` when it's idle, and when it leads to `target`. `None` if that's out of reach.
    #[must_use]
    pub fn states(&self, site: u64, target: u64) -> Option<([u8; 24], [u8; 24])> {
        let (mut idle, mut armed) = ([0; 24], [0; 24]);
        // Where the branch is, what it is, and what differs.
        let (place, branch) = match self.kind {
            Kind::Word => (0, branch(site, target)?),
            Kind::Call => (4, branch(site.wrapping_add(4), target)?),
            Kind::Halves | Kind::Before => (0, short_branch(site, target)?),
            Kind::ShortCall => (2, short_branch(site.wrapping_add(2), target)?),
        };
        put(&mut idle, place, &branch);
        put(&mut armed, place, &branch);
        match self.kind {
            Kind::Word => put(&mut idle, 0, &NOP),
            Kind::Halves => put(&mut idle, 0, &skip(4)),
            Kind::Before => {
                put(&mut idle, WIDE, &SHORT_NOP);
                put(&mut armed, WIDE, &skip(-4));
            }
            Kind::Call => {
                // b .+8
                put(&mut idle, 0, &0xea00_0000_u32.to_le_bytes());
                put(&mut armed, 0, &NOP);
            }
            Kind::ShortCall => {
                put(&mut idle, 0, &skip(6));
                put(&mut armed, 0, &SHORT_NOP);
            }
        }
        Some((idle, armed))
    }
}

/// Can the area at the start of some code that the compiler left be changed for the first time while other threads run? Then
/// none of them can stand where an instruction has become half of another one.
#[must_use]
pub fn is_one_instruction(code: &[u8], length: usize) -> bool {
    let is_nop = code.starts_with(&NOP);
    // One NOP of ARM code; and what's before an entry, which nobody executes.
    is_nop && length == WIDE || (is_nop || short_nop(code).is_some()) && length == 6
}

/// Where a thread goes on that ran into a breakpoint at `site`: there are none.
#[must_use]
pub fn behind_trap(site: u64, length: usize) -> u64 {
    site.wrapping_add(length as u64)
}

/// Bytes of the NOP of Thumb code at the start of `code`, if there's one.
fn short_nop(code: &[u8]) -> Option<usize> {
    match code {
        _ if code.starts_with(&SHORT_NOP) => Some(2),
        _ if code.starts_with(&LONG_NOP) => Some(4),
        _ => None,
    }
}

/// Bytes of such NOPs.
fn short_nops(code: &[u8]) -> usize {
    let mut length = 0;
    while let Some(more) = short_nop(code.get(length..).unwrap_or_default()) {
        length += more;
    }
    length
}

/// Is it what compilers leave before an entry? Before the first Thumb function of a file, that's ARM code: gcc says
/// which of the two it is only then.
fn is_of_nops(code: &[u8]) -> bool {
    code.chunks(WIDE).all(|one| one == NOP) || short_nops(code) == code.len()
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on. `None`: neither, so the place of the caller's address is unknown.
///
/// The caller's address is in `lr`, which a prologue may have stored besides.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    if distance == 0 {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    frame(before?).map(|_| Position::AfterPrologue)
}

/// The stub of a site whose function goes on at `body`, with its record at `record`. It pushes `ip`, loads the record's address into
/// it and jumps to the address that the record has `enter` bytes behind its start. `None` if the record is no address.
#[must_use]
pub fn record_stub(record: u64, enter: u8, body: u64) -> Option<[u8; RECORD_STUB]> {
    let record = u32::try_from(record).ok()?;
    let mut bytes = [0; RECORD_STUB];
    if body & THUMB == 0 {
        let words = [
            0xe52d_c004,                    // str ip, [sp, #-4]!
            0xe59f_c000,                    // ldr ip, record
            0xe59c_f000 | u32::from(enter), // ldr pc, [ip, #enter]
            record,
        ];
        for (place, word) in words.into_iter().enumerate() {
            put(&mut bytes, 4 * place, &word.to_le_bytes());
        }
    } else {
        // The same; the record is 4 bytes behind what the second one takes for its address.
        let halves = [0xf84d, 0xcd04, 0xf8df, 0xc004, 0xf8dc, 0xf000 | u16::from(enter)];
        for (place, half) in halves.into_iter().enumerate() {
            put(&mut bytes, 2 * place, &half.to_le_bytes());
        }
        put(&mut bytes, 12, &record.to_le_bytes());
    }
    Some(bytes)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// How far it is, from where the processor counts: that many bytes after the instruction's address.
fn distance(from: u64, to: u64, ahead: i64) -> Option<i32> {
    let distance = to.wrapping_sub(from).cast_signed().checked_sub(ahead)?;
    i32::try_from(distance).ok()
}

/// `b` in ARM code.
fn branch(from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = distance(from, to, 8)?;
    let is_near = (-(1 << 25)..1 << 25).contains(&distance) && distance % 4 == 0;
    is_near.then(|| (0xea00_0000 | (distance >> 2).cast_unsigned() & 0x00ff_ffff).to_le_bytes())
}

/// `b.w` in Thumb code (encoding T4).
fn short_branch(from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = distance(from, to, 4)?;
    let is_near = (-(1 << 24)..1 << 24).contains(&distance) && distance % 2 == 0;
    let bits = distance.cast_unsigned();
    let sign = bits >> 24 & 1;
    let j = |bit: u32| 1 ^ (bits >> bit & 1) ^ sign;
    let first = 0xf000 | sign << 10 | bits >> 12 & 0x3ff;
    let second = 0x9000 | j(23) << 13 | j(22) << 11 | bits >> 1 & 0x7ff;
    is_near.then(|| (second << 16 | first).to_le_bytes())
}

/// A 16-bit `b` in Thumb code, to a place that many bytes on.
fn skip(bytes: i16) -> [u8; 2] {
    let halves = (bytes - 4) >> 1;
    (0xe000 | halves.cast_unsigned() & 0x7ff).to_le_bytes()
}

#[cfg(test)]
mod tests;
