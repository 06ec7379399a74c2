//! AArch64, little endian: hooks and stubs, the dynamic linker's rendezvous, sandboxes.
//!
//! Code is written through `/proc/PID/mem`, with which the kernel makes the instruction cache fetch it anew on all processors
//! (`copy_to_user_page`, which cleans and invalidates what was written if it's executable). A thread that was
//! stopped at that moment goes through a context synchronization event when it goes on; a running processor
//! does at its next interrupt, and until then executes either instruction.
//!
//! A function's frame is known by its prologue alone, and `x30` has the caller's address where the stack has none, so nothing of
//! the program's stack is changed from outside.

use mcount_cpu::aarch64::code;
use mcount_cpu::aarch64::code::Frame;
pub(crate) use mcount_cpu::aarch64::code::{Area, SITE, STUB, Unusable, armed, entry_of, thunk};
use mcount_ptrace::processor::RETURN;
use nix::libc;
use std::ops::Range;

/// What people call it.
#[cfg(not(can_patch))]
pub(crate) const NAME: &str = "AArch64";
/// The message about a program for another processor.
pub(crate) const FOREIGN: &str = "it isn't a little-endian AArch64 program";
/// Functions without a hook can get one.
pub(crate) const HAS_PROBES: bool = false;
/// `e_machine` of its programs.
pub(crate) const MACHINE: u16 = 183;
/// A word of the agent or of a module is to have the load bias and its addend (ELF for the Arm 64-bit Architecture, 5.7.14).
pub(crate) const RELATIVE: u32 = 1027;

/// How many bytes at the start of a function its prologue may have.
pub(crate) const PROLOGUE: usize = 256;
/// What to compile with.
pub(crate) const PATCHABLE: &str = "compile with -fpatchable-function-entry=2";

/// A `long double` in the trace: it has 128 bits.
pub(crate) const LONG_DOUBLE: [u8; 2] = [mcount_trace::layout::kind::QUAD, 16];
/// The agent has no `mcount_nobody`: a thread finds what it has by its thread pointer.
pub(crate) const HAS_NOBODY: bool = false;

/// How far from a module a jump into it, or out of it, may be: a bit less than 128 MiB.
pub(crate) const REACH: u64 = code::REACH - (1 << 20);
/// Bytes of a hook in room near its module, where the agent's is too far away: its stub.
pub(crate) const NEAR: usize = STUB;
/// Stubs themselves have to be near: after a hook there's no landing pad, so the way back is a direct jump.
pub(crate) const STUBS_ARE_NEAR: bool = true;

/// The kernel's name for the processor in filters of system calls: `AUDIT_ARCH_AARCH64`.
pub(crate) const ARCHITECTURE: u32 = 0xc000_00b7;
/// The agent's further question to the kernel here: where a thread's own memory is.
pub(crate) const NEEDED_BESIDES: i64 = libc::SYS_get_robust_list;

/// `bti c`, `paciasp`: an indirect call may lead there.
const PADS: [u32; 2] = [0xd503_245f, 0xd503_233f];

/// Reads the processor's clock.
pub(crate) fn clock() -> u64 {
    let found: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) found, options(nomem, nostack)) };
    found
}

/// Flags of the agent's configuration that this processor has.
pub(crate) fn flags() -> u64 {
    0
}

/// Where in its function a hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// The first instruction but for a landing pad.
    Entry,
    /// After a prologue that has made this.
    AfterPrologue(Frame),
}

/// Where in a function with this code a hook is that begins `distance` bytes behind its start.
pub(crate) fn position(bytes: &[u8], distance: u64) -> Option<Position> {
    match code::position(bytes, distance)? {
        code::Position::Entry => Some(Position::Entry),
        code::Position::AfterPrologue => {
            let prologue = bytes.get(..usize::try_from(distance).ok()?)?;
            code::frame(prologue).map(Position::AfterPrologue)
        }
    }
}

/// Is a hook at this place after the prologue?
pub(crate) fn is_after_prologue(position: Option<Position>) -> bool {
    matches!(position, Some(Position::AfterPrologue(_)))
}

/// Where the site of such a hook leads to in its stub.
pub(crate) fn way_in(_position: Option<Position>) -> u64 {
    0
}

/// The stub at `at` of a hook; its function, with this number, goes on at `body`. The routines are those of the entry, of the entry after a
/// prologue, and of the exit. `None` if something is out of reach.
pub(crate) fn stub(
    position: Option<Position>,
    at: u64,
    (entry, late_entry, _exit): (u64, u64, u64),
    body: u64,
    number: u32,
) -> Option<[u8; STUB]> {
    let (entry, frame) = match position {
        Some(Position::AfterPrologue(frame)) => (late_entry, Some(frame)),
        _ => (entry, None),
    };
    code::stub(at, entry, body, code::Traced { number, frame })
}

/// The way back to `body`, in a stub of its own, where stubs don't reach it: there's none, as stubs are near.
pub(crate) fn stub_back(_body: u64, _is_late: bool) -> [u8; STUB] {
    [0; STUB]
}

/// Bytes of a stub where calls return to, whatever kind of stub it is.
pub(crate) const WAY_OUT: Range<usize> = 0..STUB;

/// A stub at `at` of whatever kind: no call returns to one.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it's otherwise")]
pub(crate) fn with_way_out(stub: [u8; STUB], _at: u64, _exit: u64) -> Option<[u8; STUB]> {
    Some(stub)
}

/// Where debug information may have a function begin whose hook is at `site`: gcc has it begin behind all NOPs.
pub(crate) fn beginnings(function: u64, site: u64, size: u64) -> impl Iterator<Item = u64> {
    const MOST_NOPS: u64 = 64;
    let end = site.saturating_add(4 * MOST_NOPS).min(function.saturating_add(size));
    std::iter::once(function).chain((site..end).step_by(SITE))
}

/// The length of the NOP at the start of `code`.
pub(crate) fn nop_length(code: &[u8]) -> Option<usize> {
    code.starts_with(&code::NOP).then_some(SITE)
}

/// No area is too small for a jump.
pub(crate) fn small_area(_code: &[u8], _length: usize, _room: Option<u64>) -> Option<(Area, u64)> {
    None
}

/// The bytes written into an armed area besides the jump: none.
pub(crate) fn filled(area: &Area, _has_room_before: bool) -> [u8; 24] {
    area.idle()
}

/// Bytes of the jump in an area.
pub(crate) fn jump_length(_has_room_before: bool) -> usize {
    SITE
}

/// There's no room before functions.
pub(crate) fn jump_before(_site: u64, _before: u64) -> Option<[u8; SITE]> {
    None
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
pub(crate) fn target(site: u64, code: &[u8]) -> Option<u64> {
    code::target(site, code.try_into().ok()?)
}

/// Bytes of a site that are looked at to switch it.
pub(crate) const SWITCH: usize = SITE;

/// Where an armed site is switched while threads run, by the bytes that are there: its stub's first
/// instruction. The code when it's on, and when it's off. `None` if it isn't armed.
pub(crate) fn switch(site: u64, bytes: [u8; SWITCH]) -> Option<(u64, [u8; 4], [u8; 4])> {
    code::target(site, bytes).map(|stub| (stub, code::switch(true), code::switch(false)))
}

/// The bytes of an armed site as it would be if it had not been switched off: the same.
pub(crate) fn switched_on(_now: &mut [u8], _expected: &[u8]) {}

/// Bytes of code that may be replaced in a function that only returns: its own, and what fills up the place after it.
/// 0 if it does anything else.
pub(crate) fn room_in(code: &[u8]) -> usize {
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
pub(crate) fn question(thread: i32) -> Vec<u8> {
    let number = thread.cast_unsigned();
    let words = [
        0x5280_0000 | (number & 0xffff) << 5, // mov w0, #thread
        0x72a0_0000 | (number >> 16) << 5,    // movk w0, #…, lsl #16
        0x5280_02e1,                          // mov w1, #SIGURG
        0x5280_1048,                          // mov w8, #SYS_tkill
        0xd400_0001,                          // svc #0
        0xd65f_03c0,                          // ret
    ];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Has the function at `place`, which begins with these bytes, call `watch` first: what is to be written at `at`, and in its place. `None` if
/// that can't be done.
pub(crate) fn watched(
    function: u64,
    bytes: &[u8],
    (at, watch): (u64, u64),
) -> Option<(Vec<u8>, u64, [u8; SITE])> {
    /// Where in the stub the function goes on.
    const BODY: u64 = 16;
    let word = |index: usize| bytes.as_chunks().0.get(index).map(|word| u32::from_le_bytes(*word));
    let start = usize::from(PADS.contains(&word(0)?));
    let moved = word(start).filter(|word| is_movable(*word))?;
    let place = function + 4 * start as u64;
    let back = armed(at + BODY + 4, place + 4)?;
    let words = [
        0x1000_0090, // adr x16, body
        0x5800_00b1, // ldr x17, watch
        0xd61f_0220, // br x17
        u32::from_le_bytes(code::BREAKPOINT),
        moved,
        u32::from_le_bytes(back),
    ];
    let mut stub: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    stub.extend(watch.to_le_bytes());
    Some((stub, place, armed(place, at)?))
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
