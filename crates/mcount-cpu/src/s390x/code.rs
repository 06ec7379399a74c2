//! s390x: the hook is one branch of six bytes that's never taken, and an armed one is the same branch, always taken. It reaches
//! ±4 GiB.
//!
//! `brcl M,target` has the condition in four bits, of which 0 is "never" and 15 "always", in the upper half of its second
//! byte. So both states lead to the stub of the site, one byte differs, and an idle site costs as much as any other NOP.
//!
//! What compilers leave at the entry, before anything else:
//!
//! | option | there |
//! |---|---|
//! | `-pg -mfentry -mnop-mcount` | `brcl 0,0` |
//! | `-mhotpatch=0,3` (gcc) | `brcl 0,0` |
//! | `-pg -mfentry` | `brasl %r0,__fentry__` |
//! | `-pg` (gcc) | `stg %r14,8(%r15)`, `brasl %r14,_mcount`, `lg %r14,8(%r15)` |
//! | `-fpatchable-function-entry=3` (gcc) | three `nopr` of two bytes |
//!
//! The branch of `-pg` is the one in the middle; the load after it is a part of the area, because an armed call goes on behind
//! it. clang's `-pg` calls `mcount` after the prologue; such functions stay idle.
//!
//! **While threads run.** Principles of Operation (SA22-7832), chapter 5, "Sequence of Storage References": another processor
//! fetches the halfwords of an instruction one by one, in any order, each as a whole, and perhaps long before it executes
//! them; what it has fetched is given up when it serializes, as interrupts do. So a byte may be exchanged at any time, and
//! whoever comes by finds one of both states. The first time, the distance has to be written, too: that's four bytes at an even
//! address, in no single store. It's done while the branch is "never", when the distance means nothing: make it "never" (of a
//! `brasl`, the next opcode, that's one bit of the same byte), wait until all processors have serialized, write the
//! distance, wait, write the condition. No thread stops or traps.
//!
//! Three `nopr` are three instructions, and a thread may be between them: they can become a branch only where no other
//! thread runs.

use crate::engine::{Step, Value};
pub use crate::hook::{Position, Unusable};

/// Bytes of a site.
pub const SITE: usize = 6;

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "fewer than six bytes of NOP";

/// How far a `brcl` reaches, in bytes, forwards and backwards.
pub const REACH: u64 = 1 << 32;

/// `brcl 0,.`
pub const NOP: [u8; SITE] = [OPCODE, NEVER, 0, 0, 0, 0];

/// What debuggers put at a place where a thread is to trap. Sites never have it.
pub const BREAKPOINT: [u8; 2] = [0x00, 0x01];

const OPCODE: u8 = 0xc0;
/// The condition, and the other half of the opcode.
const NEVER: u8 = 0x04;
const ALWAYS: u8 = 0xf4;
/// `brasl %r0` and `brasl %r14`.
const CALL_R0: u8 = 0x05;
const CALL_R14: u8 = 0xe5;

/// `nopr`.
const NOPR: [u8; 2] = [0x07, 0x00];
/// `nop`, which is too short.
const NOP4: [u8; 4] = [0x47, 0x00, 0x00, 0x00];
/// `stg %r14,8(%r15)` and `lg %r14,8(%r15)`.
const STORE: [u8; 6] = [0xe3, 0xe0, 0xf0, 0x08, 0x00, 0x24];
const LOAD: [u8; 6] = [0xe3, 0xe0, 0xf0, 0x08, 0x00, 0x04];
/// `larl %r1`.
const ADDRESS: [u8; 2] = [0xc0, 0x10];

/// Between an idle site and an armed one: one byte.
pub const AT_ONCE: &[Step] = &[Step { first: 1, end: 2, value: Value::New }];

/// The compiler's code becomes a site, or a site another one: the distance changes while the branch is never
/// taken.
pub const ALL_STAND: &[Step] = &[
    Step { first: 1, end: 2, value: Value::Trap(&[NEVER]) },
    Step { first: 2, end: SITE, value: Value::New },
    Step { first: 0, end: 2, value: Value::New },
];

/// The same: a breakpoint wouldn't be any better.
pub const BY_BREAKPOINT: &[Step] = ALL_STAND;

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 32;

/// Where in a stub the address of its record is, in bytes.
const STUB_RECORD: usize = 24;

crate::area::area!("6 after the store of `-pg`.", "[`SITE`], or 12 with the load of `-pg`.");

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's nothing that a branch can take the place of.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let area = |start, length, is_call| Ok(Self { start, length, is_call });
        match code {
            [OPCODE, kind @ (NEVER | CALL_R0), _, _, _, _, ..] => {
                return area(0, SITE, *kind == CALL_R0);
            }
            _ if code.starts_with(&STORE) => {
                let start = STORE.len() + if is_address(code.get(6..)) { 6 } else { 0 };
                let call = code.get(start..).unwrap_or_default();
                return match call {
                    [OPCODE, CALL_R14, _, _, _, _, rest @ ..] if rest.starts_with(&LOAD) => {
                        area(start, SITE + LOAD.len(), true)
                    }
                    _ => Err(Unusable::NotAHook),
                };
            }
            _ if code.starts_with(&NOP4) => return Err(Unusable::TooSmall(NOP4.len())),
            _ => {}
        }
        let nops = code.as_chunks::<2>().0.iter().take_while(|half| **half == NOPR).count();
        match 2 * nops {
            0 => Err(Unusable::NotAHook),
            length if length < SITE => Err(Unusable::TooSmall(length)),
            _ => area(0, SITE, false),
        }
    }

    /// The bytes that make the area idle; the result has `length` bytes in use.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        put(&mut bytes, 0, &NOP);
        put(&mut bytes, SITE, &LOAD);
        bytes
    }
}

/// What older compilers have between the store and the call.
fn is_address(code: Option<&[u8]>) -> bool {
    code.is_some_and(|code| code.starts_with(&ADDRESS))
}

/// Where in a function the hook is that begins `distance` bytes behind its start. `None`: not at its entry, so
/// the place of the caller's address is unknown.
///
/// At the entry, the caller's address is in `%r14`. No hook is after a prologue here.
#[must_use]
pub fn position(_code: &[u8], distance: u64) -> Option<Position> {
    (distance == 0).then_some(Position::Entry)
}

/// The armed site at `site`: a branch to `target`. `None` if that's out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(ALWAYS, site, target)
}

/// The idle site at `site`: the same branch, never taken.
#[must_use]
pub fn idle(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(NEVER, site, target)
}

/// Is the area at the start of some code one instruction, so that it can become a site while threads run?
#[must_use]
pub fn is_one_instruction(code: &[u8], _length: usize) -> bool {
    code.first() == Some(&OPCODE)
}

/// Where a thread goes on that ran into a breakpoint at `site`: after it, as if the site were idle.
#[must_use]
pub fn behind_trap(site: u64, length: usize) -> u64 {
    site.wrapping_add(length as u64)
}

/// The stub of a site with its record at `record`. It stores `%r0` where only compilers put something, 8 bytes behind
/// the stack pointer, loads the record's address into `%r0`, and jumps to the address that the record has `enter` bytes behind
/// its start, by `%r1`: the one register that code between a call and its function may change.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> [u8; RECORD_STUB] {
    let mut bytes = [0; RECORD_STUB];
    let code: [u8; STUB_RECORD] = [
        0xe3, 0x00, 0xf0, 0x08, 0x00, 0x24, // stg %r0,8(%r15)
        0xc4, 0x18, 0x00, 0x00, 0x00, 0x09, // lgrl %r1,record
        0xb9, 0x04, 0x00, 0x01, // lgr %r0,%r1
        0xe3, 0x10, 0x10, enter, 0x00, 0x04, // lg %r1,enter(%r1)
        0x07, 0xf1, // br %r1
    ];
    put(&mut bytes, 0, &code);
    put(&mut bytes, STUB_RECORD, &record.to_be_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// A `brcl` at `from`. Distances are in halfwords.
fn branch(condition: u8, from: u64, to: u64) -> Option<[u8; SITE]> {
    let distance = to.wrapping_sub(from).cast_signed();
    let halves = i32::try_from(distance / 2).ok().filter(|_| distance % 2 == 0)?;
    let [a, b, c, d] = halves.to_be_bytes();
    Some([OPCODE, condition, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Change, Code, change};
    use std::vec::Vec;

    const BRASL_R14: [u8; 6] = [0xc0, 0xe5, 0, 0, 1, 2];

    #[test]
    fn areas_of_all_compilers() {
        let area = |start, length, is_call| Ok(Area { start, length, is_call });
        let larl = [0xc0, 0x10, 0, 0, 0, 9];
        let table: &[(&[&[u8]], _)] = &[
            (&[&NOP, &[0xeb]], area(0, 6, false)),
            (&[&[0xc0, 0x05, 0, 0, 1, 2]], area(0, 6, true)),
            (&[&STORE, &BRASL_R14, &LOAD], area(6, 12, true)),
            (&[&STORE, &larl, &BRASL_R14, &LOAD], area(12, 12, true)),
            (&[&STORE, &BRASL_R14, &STORE], Err(Unusable::NotAHook)),
            (&[&STORE, &BRASL_R14], Err(Unusable::NotAHook)),
            (&[&BRASL_R14, &LOAD], Err(Unusable::NotAHook)),
            (&[&[7, 0, 7, 0, 7, 0, 7, 0]], area(0, 6, false)),
            (&[&[7, 0, 7, 0, 0xeb, 0]], Err(Unusable::TooSmall(4))),
            (&[&NOP4, &NOP], Err(Unusable::TooSmall(4))),
            // A jump, and a branch on any other condition.
            (&[&[0xc0, 0xf4, 0, 0, 1, 2]], Err(Unusable::NotAHook)),
            (&[&[0xc0, 0x24, 0, 0, 1, 2]], Err(Unusable::NotAHook)),
            (&[&[0xc0, 0x04, 0, 0, 0]], Err(Unusable::NotAHook)),
            (&[], Err(Unusable::NotAHook)),
        ];
        for (code, expected) in table {
            assert_eq!(Area::find(&code.concat()), *expected, "{code:02x?}");
        }
    }

    #[test]
    fn branches_reach_4_gibibytes_and_no_further() {
        assert_eq!(armed(0x1000, 0x2000), Some([0xc0, 0xf4, 0, 0, 8, 0]));
        assert_eq!(idle(0x1000, 0x2000), Some([0xc0, 0x04, 0, 0, 8, 0]));
        assert_eq!(armed(0x2000, 0x1000), Some([0xc0, 0xf4, 0xff, 0xff, 0xf8, 0]));
        assert_eq!(armed(REACH, 0), Some([0xc0, 0xf4, 0x80, 0, 0, 0]));
        assert_eq!(armed(0, REACH - 2), Some([0xc0, 0xf4, 0x7f, 0xff, 0xff, 0xff]));
        assert_eq!(armed(0, REACH), None);
        assert_eq!(armed(REACH + 2, 0), None);
        assert_eq!(armed(0, 3), None, "not a place for an instruction");
    }

    #[test]
    fn a_stub_has_the_address_behind_its_instructions() {
        let stub = record_stub(0x1122_3344_5566_7788, 8);
        assert_eq!(stub[24..], 0x1122_3344_5566_7788_u64.to_be_bytes());
        // lgrl counts halfwords from its own start.
        assert_eq!(6 + 2 * usize::from(stub[11]), STUB_RECORD);
        assert_eq!(stub[16..22], [0xe3, 0x10, 0x10, 8, 0, 4]);
    }

    struct Memory {
        bytes: [u8; 12],
        seen: Vec<[u8; 12]>,
        rounds: usize,
    }

    impl Code for Memory {
        type Error = ();

        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
            // Byte by byte: other processors may see any of them first.
            for (at, byte) in (usize::try_from(address).unwrap()..).zip(bytes) {
                self.bytes[at] = *byte;
                self.seen.push(self.bytes);
            }
            Ok(())
        }

        fn synchronize(&mut self) -> Result<(), ()> {
            self.rounds += 1;
            Ok(())
        }
    }

    /// A thread finds the old instruction, the new one, or a branch that's never taken.
    #[test]
    fn no_thread_sees_a_mixture() {
        let stub = 0x1234_5678;
        let (idle, armed) = (idle(0, stub).unwrap(), armed(0, stub).unwrap());
        let call = [0xc0, 0x05, 0, 0, 1, 2];
        let table = [
            (ALL_STAND, NOP, armed, 3),
            (ALL_STAND, NOP, idle, 3),
            (ALL_STAND, call, armed, 3),
            (ALL_STAND, BRASL_R14, armed, 3),
            (AT_ONCE, idle, armed, 1),
            (AT_ONCE, armed, idle, 1),
            (BY_BREAKPOINT, armed, idle, 3),
        ];
        for (steps, from, to, rounds) in table {
            let mut bytes = [0xee; 12];
            bytes[..SITE].copy_from_slice(&from);
            let mut memory = Memory { bytes, seen: Vec::new(), rounds: 0 };
            change(&mut memory, steps, &[Change::whole(0, from, to)]).unwrap();
            assert_eq!((&memory.bytes[..SITE], memory.rounds), (&to[..], rounds));
            for seen in memory.seen {
                let site = &seen[..SITE];
                assert!(site == from || site == to || site[..2] == [0xc0, 0x04], "{site:02x?}");
                assert_eq!(seen[SITE..], [0xee; 6]);
            }
        }
    }
}
