//! AArch64, little endian, as a processor of traced programs: hooks and stubs, registers, the dynamic linker's rendezvous, sandboxes.
//!
//! Code is written through `/proc/PID/mem`, with which the kernel makes the instruction cache fetch it anew on all processors
//! (`copy_to_user_page`, which cleans and invalidates what was written if it's executable). A thread that was
//! stopped at that moment goes through a context synchronization event when it goes on; a running processor
//! does at its next interrupt, and until then executes either instruction.
//!
//! A function's frame is known by its prologue alone, and `x30` has the caller's address where the stack has none, so nothing of
//! the program's stack is changed from outside.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]

use super::code;
use super::code::Frame;
pub use super::code::{Area, SITE, STUB, THUNK, Unusable, armed, entry_of, thunk};
pub use super::signals::{SIGNALS, VECTORS};
use crate::outside::system_calls::GENERIC;
use crate::outside::values::Conventions;
use crate::outside::{
    FramedPosition, LibraryCalls, LinkerCalls, LongDouble, Roles, Routines, SystemCalls, Watched,
    code as bytes_of, words,
};
use alloc::vec::Vec;
use core::ops::Range;

/// What people call it.
pub const NAME: &str = "AArch64";
/// Its system calls.
pub const SYSTEM_CALLS: SystemCalls = SystemCalls { names: GENERIC, names_32: "", instruction: 32 };
/// How calls of library functions are recorded.
pub const LIBRARY_CALLS: Option<&LibraryCalls> = Some(&super::library::LIBRARY_CALLS);
/// Where arguments and results are.
pub const VALUES: Option<&Conventions> = Some(&super::values::CONVENTIONS);
/// An instruction that makes a system call.
pub const SYSTEM_CALL: &[u8] = &[0x01, 0, 0, 0xd4];
/// A breakpoint.
pub const BREAKPOINT: &[u8] = &[0, 0, 0x20, 0xd4];
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 0;
/// A return.
pub const RETURN: &[u8] = &[0xc0, 0x03, 0x5f, 0xd6];
/// A jump to itself.
pub const HOLD: &[u8] = &[0, 0, 0, 0x14];
/// It has none for others.
pub const MORE_VECTORS: &[i32] = &[];

/// `struct user_regs_struct` (`<sys/user.h>`): 31 registers, the stack pointer, where it goes on, flags.
pub static ROLES: Roles = Roles {
    count: 34,
    instruction: 32,
    stack: 31,
    result: 0,
    kept_result: 19,
    number: 8,
    arguments: [0, 1, 2, 3, 4, 5],
    link: Some(30),
    ..Roles::NONE
};

/// The message about a program for another processor.
pub const FOREIGN: &str = "it isn't a little-endian AArch64 program";
/// Functions without a hook can get one.
#[cfg(feature = "probe")]
pub const PROBES: Option<&crate::probe::Probes> = Some(&super::probe::PROBES);
/// `e_machine` of its programs.
pub const MACHINE: u16 = 183;
/// A word of the agent or of a module is to have the load bias and its addend (ELF for the Arm 64-bit Architecture, 5.7.14).
pub const RELATIVE: u32 = 1027;

/// Bytes of the jump with which a sled of LLVM's XRay begins. Its runtime may have written behind that.
pub const SLED_JUMP: usize = 4;
/// Only compilers leave NOPs where functions begin.
pub const HAS_OTHER_NOPS: bool = false;
/// How many bytes at the start of a function its prologue may have.
pub const PROLOGUE: usize = 256;
/// What to compile with.
pub const PATCHABLE: &str = "compile with -fpatchable-function-entry=2";

/// A `long double`.
pub const LONG_DOUBLE: LongDouble = LongDouble::Quad;
/// The agent has no `mcount_nobody`: a thread finds what it has by its thread pointer.
pub const HAS_NOBODY: bool = false;

/// How far from a module a jump into it, or out of it, may be: a bit less than 128 MiB.
pub const REACH: u64 = code::REACH - (1 << 20);
/// Bytes of a hook in room near its module, where the agent's is too far away: its stub.
pub const NEAR: usize = STUB;
/// Stubs themselves have to be near: after a hook there's no landing pad, so the way back is a direct jump.
pub const STUBS_ARE_NEAR: bool = true;

/// The kernel's name for the processor in filters of system calls: `AUDIT_ARCH_AARCH64`.
pub const ARCHITECTURE: u32 = 0xc000_00b7;
/// The agent's further question to the kernel here: where a thread's own memory is, by `get_robust_list`.
pub const NEEDED_BESIDES: i64 = 100;

/// `bti c`, `paciasp`: an indirect call may lead there.
const PADS: [u32; 2] = [0xd503_245f, 0xd503_233f];

/// No register leads to a thread's block.
pub const SETS_BLOCK: Option<u64> = None;

/// Where in its function a hook is.
pub type Position = FramedPosition<Frame>;

/// Where in a function with this code a hook is that begins `distance` bytes behind its start.
pub fn position(bytes: &[u8], distance: u64) -> Option<Position> {
    Position::new(code::position(bytes, distance)?, (bytes, distance), code::frame)
}

/// Is a hook at this place after the prologue?
pub fn is_after_prologue(position: Option<Position>) -> bool {
    Position::frame(position).is_some()
}

/// Where the site of such a hook leads to in its stub.
pub fn way_in(_position: Option<Position>) -> u64 {
    0
}

/// The stub at `at` of a hook; its function, with this number, goes on at `body`. The routines are those of the entry, of the entry after a
/// prologue, and of the exit. `None` if something is out of reach.
pub fn stub(
    position: Option<Position>,
    at: u64,
    routines: Routines,
    body: u64,
    number: u32,
) -> Option<[u8; STUB]> {
    let frame = Position::frame(position);
    let entry = routines.of_entry(frame.is_some());
    code::stub(at, entry, body, code::Traced { number, frame })
}

/// The way back to `body`, in a stub of its own, where stubs don't reach it: there's none, as stubs are near.
pub fn stub_back(_body: u64, _is_late: bool) -> [u8; STUB] {
    [0; STUB]
}

/// Bytes of a stub where calls return to, whatever kind of stub it is.
pub const WAY_OUT: Range<usize> = 0..STUB;

/// A stub at `at` of whatever kind: no call returns to one.
pub fn with_way_out(stub: [u8; STUB], _at: u64, _exit: u64) -> Option<[u8; STUB]> {
    Some(stub)
}

/// Where debug information may have a function begin whose hook is at `site`: gcc has it begin behind all NOPs.
pub fn beginnings(function: u64, site: u64, bytes: u64) -> impl Iterator<Item = u64> {
    const MOST_NOPS: u64 = 64;
    let end = site.saturating_add(4 * MOST_NOPS).min(function.saturating_add(bytes));
    core::iter::once(function).chain((site..end).step_by(SITE))
}

/// The length of the NOP at the start of `code`.
pub fn nop_length(code: &[u8]) -> Option<usize> {
    code.starts_with(&code::NOP).then_some(SITE)
}

/// No area is too small for a jump.
pub fn small_area(_code: &[u8], _length: usize, _room: Option<u64>) -> Option<(Area, u64)> {
    None
}

/// The bytes written into an armed area besides the jump: none.
pub fn filled(area: &Area, _has_room_before: bool) -> [u8; 24] {
    area.idle()
}

/// The jump at `site`, in an area without room before its function, to `target`. `None` if that is out of reach.
pub fn jump(_area: &Area, site: u64, target: u64) -> Option<[u8; SITE]> {
    armed(site, target)
}

/// How far that one goes.
pub fn reach(_area: &Area) -> u64 {
    REACH
}

/// Bytes of the jump in an area.
pub fn jump_length(_area: &Area, _has_room_before: bool) -> usize {
    SITE
}

/// There's no room before functions.
pub fn jump_before(_site: u64, _before: u64) -> Option<[u8; SITE]> {
    None
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
pub fn target(site: u64, code: &[u8]) -> Option<u64> {
    code::target(site, code.try_into().ok()?)
}

/// Bytes of a site that are looked at to switch it.
pub const SWITCH: usize = SITE;

/// Where an armed site is switched while threads run, by the bytes that are there: its stub's first
/// instruction. The code when it's on, and when it's off. `None` if it isn't armed.
pub fn switch(site: u64, bytes: [u8; SWITCH]) -> Option<(u64, [u8; 4], [u8; 4])> {
    code::target(site, bytes).map(|stub| (stub, code::switch(true), code::switch(false)))
}

/// The bytes of an armed site as it would be if it had not been switched off: the same.
pub fn switched_on(_now: &mut [u8], _expected: &[u8]) {}

/// Where the dynamic linker's calls for debuggers can be replaced, if the function that they call is too small for a jump: here it isn't.
pub const LINKER_CALLS: Option<LinkerCalls> = None;

/// Bytes of code that may be replaced in a function that only returns: its own, and what fills up the place after it.
/// 0 if it does anything else.
pub fn room_in(code: &[u8]) -> usize {
    const LANDING_PAD: [u8; SITE] = PADS[0].to_le_bytes();
    let mut words = code.as_chunks::<SITE>().0.iter();
    let mut room = SITE;
    let mut first = words.next();
    if first == Some(&LANDING_PAD) {
        first = words.next();
        room += SITE;
    }
    if first.is_none_or(|first| first != RETURN) {
        return 0;
    }
    room + SITE * words.take_while(|word| **word == code::NOP).count()
}

/// A function with which the thread with this number sends itself SIGURG. Unlike a breakpoint it does no harm
/// should the recorder be killed.
pub fn question(thread: i32) -> Vec<u8> {
    let number = thread.cast_unsigned();
    let words = [
        0x5280_0000 | (number & 0xffff) << 5, // mov w0, #thread
        0x72a0_0000 | (number >> 16) << 5,    // movk w0, #…, lsl #16
        0x5280_02e1,                          // mov w1, #SIGURG
        0x5280_1048,                          // mov w8, #SYS_tkill
        0xd400_0001,                          // svc #0
        0xd65f_03c0,                          // ret
    ];
    bytes_of(words).collect()
}

/// Has the function at `function`, which begins with these bytes, call `watch` first, by a stub at `at`. `None` if that can't be done.
#[must_use]
pub fn watched(function: u64, bytes: &[u8], at: u64, watch: u64) -> Option<Watched<SITE>> {
    /// Where in the stub the function goes on.
    const BODY: u64 = 16;
    let first = words(bytes).next()?;
    let start = usize::from(PADS.contains(&first));
    let moved = words(bytes).nth(start).filter(|word| is_movable(*word))?;
    let place = function + 4 * start as u64;
    let back = armed(at + BODY + 4, place + 4)?;
    let instructions = [
        0x1000_0090, // adr x16, body
        0x5800_00b1, // ldr x17, watch
        0xd61f_0220, // br x17
        u32::from_le_bytes(code::BREAKPOINT),
        moved,
        u32::from_le_bytes(back),
    ];
    let mut stub: Vec<u8> = bytes_of(instructions).collect();
    stub.extend(watch.to_le_bytes());
    Some(Watched { stub, place, jump: armed(place, at)? })
}

/// Does this instruction do the same wherever it is? Those don't that have a distance in them (Arm ARM, C4.1).
fn is_movable(word: u32) -> bool {
    let is = |mask: u32, value: u32| word & mask == value;
    // adr and adrp; loads of literals; b and bl; b.cond; cbz, cbnz, tbz and tbnz; brk.
    !(is(0x1f00_0000, 0x1000_0000)
        || is(0x3b00_0000, 0x1800_0000)
        || is(0x7c00_0000, 0x1400_0000)
        || is(0xff00_0000, 0x5400_0000)
        || is(0x7c00_0000, 0x3400_0000)
        || word == u32::from_le_bytes(code::BREAKPOINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_only_return_have_room() {
        let rows: [(&[u32], usize); 4] = [
            (&[0xd65f_03c0, 0xaa00_03e2], 4),
            (&[0xd503_245f, 0xd65f_03c0, 0xd503_201f, 0xd503_201f, 0], 16),
            (&[0xa9bf_7bfd, 0xd65f_03c0], 0),
            (&[], 0),
        ];
        for (words, expected) in rows {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(room_in(&code), expected, "{words:08x?}");
        }
    }

    #[test]
    fn what_depends_on_its_place_is_not_moved() {
        // stp x29, x30, [sp, #-16]!; sub sp, sp, #32; mov w9, w0
        assert!([0xa9bf_7bfd, 0xd100_83ff, 0x2a00_03e9].into_iter().all(is_movable));
        // adr, adrp, ldr x0 =…, b, bl, b.eq, cbz, tbnz
        let others = [
            0x1000_0000,
            0x9000_0000,
            0x5800_0040,
            0x1400_0001,
            0x9400_0001,
            0x5400_0040,
            0xb400_0040,
            0x3700_0040,
        ];
        assert!(!others.into_iter().any(is_movable));
    }
}
