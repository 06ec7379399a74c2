//! RISC-V, 64 bits, as a processor of traced programs: hooks and stubs, registers, the dynamic linker's rendezvous, sandboxes.
//!
//! Code is written through `/proc/PID/mem` while no thread executes it, and then the kernel has all processors fetch it anew
//! (`flush_icache_user_page`). What changes while threads run is one aligned halfword, as `code.rs` says: the first one of a
//! stub, or of a site with room before its function.
//!
//! Stubs jump by `t0` and `t1`, which no calling convention gives to functions, and a record behind a stub has its addresses,
//! so only the way from a site to its stub, and back if it's switched off, has to be short enough: 2 GiB, or 1 MiB from a call
//! that the linker has made a `jal`.

use super::code;
use super::code::Frame;
pub use super::code::Unusable;
pub use super::signals::SIGNALS;
use crate::outside::system_calls::GENERIC;
use crate::outside::values::Conventions;
use crate::outside::{
    CallSites, FramedPosition, LibraryCalls, LinkerCalls, LinkerCode, LongDouble, Roles, Routines,
    SPARE, SystemCalls, Watched,
};
use alloc::vec::Vec;
use core::ops::Range;

/// What people call it.
pub const NAME: &str = "RISC-V";
/// Its system calls.
pub const SYSTEM_CALLS: SystemCalls = SystemCalls { names: GENERIC, names_32: "", instruction: 0 };
/// Calls of library functions aren't recorded yet.
pub const LIBRARY_CALLS: Option<&LibraryCalls> = None;
/// Neither are arguments and results.
pub const VALUES: Option<&Conventions> = None;
/// `ecall`.
pub const SYSTEM_CALL: &[u8] = &[0x73, 0, 0, 0];
/// `c.ebreak`.
pub const BREAKPOINT: &[u8] = &code::BREAKPOINT;
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 0;
/// `ret`.
pub const RETURN: &[u8] = &[0x82, 0x80];
/// `c.j` to itself.
pub const HOLD: &[u8] = &[0x01, 0xa0];

/// The kernel's name for floating-point registers (`NT_PRFPREG`).
pub const VECTORS: &[i32] = &[2];
/// It has none for others.
pub const MORE_VECTORS: &[i32] = &[];

/// `struct user_regs_struct` (`<asm/ptrace.h>`): where it goes on, and then `ra`, `sp` and the others by their numbers.
pub static ROLES: Roles = Roles {
    count: 32,
    instruction: 0,
    stack: 2,
    result: 10,
    kept_result: 9,
    number: 17,
    arguments: [10, 11, 12, 13, 14, 15],
    link: Some(1),
    ..Roles::NONE
};

/// The message about a program for another processor.
pub const FOREIGN: &str = "it isn't a 64-bit RISC-V program";
/// Functions without a hook can get one.
#[cfg(feature = "probe")]
pub const PROBES: Option<&crate::probe::Probes> = None;
/// `e_machine` of its programs.
pub const MACHINE: u16 = 243;
/// A word of the agent or of a module is to have the load bias and its addend (RISC-V psABI, "Relocations").
pub const RELATIVE: u32 = 3;

/// Bytes of the jump with which a sled of LLVM's XRay begins: none is known here.
pub const SLED_JUMP: usize = 0;
/// Only compilers leave NOPs where functions begin.
pub const HAS_OTHER_NOPS: bool = false;
/// How many bytes at the start of a function its prologue may have.
pub const PROLOGUE: usize = 256;
/// What to compile with.
pub const PATCHABLE: &str = "compile with -fpatchable-function-entry=4";

/// A `long double`.
pub const LONG_DOUBLE: LongDouble = LongDouble::Quad;
/// The agent has no `mcount_nobody`: a thread finds what it has by its thread pointer.
pub const HAS_NOBODY: bool = false;
/// No register leads to a thread's block.
pub const SETS_BLOCK: Option<u64> = None;

/// How far from a module a jump into it, or out of it, may be: a bit less than 2 GiB.
pub const REACH: u64 = code::REACH - (1 << 20);
/// And how far by one instruction: a bit less than 1 MiB.
const NEAR_REACH: u64 = (1 << 20) - (1 << 12);
/// Bytes of a hook in room near its module, where the agent's is too far away: its stub.
pub const NEAR: usize = STUB;
/// A stub goes on with its function when it's switched off, so it has to be near.
pub const STUBS_ARE_NEAR: bool = true;

/// Bytes of a far jump.
pub const SITE: usize = 8;
/// Bytes of a stub.
pub const STUB: usize = 64;
/// Bytes of a jump to anywhere.
pub const THUNK: usize = 24;
/// Bytes of the jump to room before a function: `c.j`.
const SHORT_JUMP: usize = 2;

/// Where in a stub it goes on with its function, when it's switched off, and where its record is.
const BODY: usize = 24;
const RECORD: usize = 32;

/// The kernel's name for the processor in filters of system calls: `AUDIT_ARCH_RISCV64`.
pub const ARCHITECTURE: u32 = 0xc000_00f3;
/// The agent's further question to the kernel here: where a thread's own memory is, by `get_robust_list`.
pub const NEEDED_BESIDES: i64 = 100;

const RA: u32 = 1;
const T0: u32 = 5;
const T1: u32 = 6;

crate::area::area!(
    "4 after a landing pad.",
    "all of them. Where there are four, and no room before its function, it gets a near jump."
);

impl Area {
    /// The area at the start of `code`.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's no room.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let code::Area { start, length, is_call, .. } = code::Area::find(&[], code)?;
        Ok(Self { start, length, is_call })
    }

    /// The bytes of the area when it's idle: NOPs.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        nops()
    }
}

/// NOPs of two bytes.
fn nops() -> [u8; 24] {
    let mut bytes = [0; 24];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from(place % 2 == 0);
    }
    bytes
}

/// Where in its function a hook is.
pub type Position = FramedPosition<Frame>;

/// Where in a function with this code a hook is that begins `distance` bytes behind its start.
#[must_use]
pub fn position(bytes: &[u8], distance: u64) -> Option<Position> {
    Position::new(code::position(bytes, distance)?, (bytes, distance), code::frame)
}

/// Where a function's hook is to be looked for, if unwind information has it begin at `start`.
#[must_use]
pub fn entry_of(start: u64, _code: &[u8]) -> u64 {
    start
}

/// Is a hook at this place after the prologue?
#[must_use]
pub fn is_after_prologue(position: Option<Position>) -> bool {
    Position::frame(position).is_some()
}

/// Where the site of such a hook leads to in its stub.
#[must_use]
pub fn way_in(_position: Option<Position>) -> u64 {
    0
}

fn load(to: u32, from: u32, offset: u32) -> u32 {
    offset << 20 | from << 15 | 3 << 12 | to << 7 | 0x03
}

fn add(to: u32, from: u32, number: u32) -> u32 {
    number << 20 | from << 15 | to << 7 | 0x13
}

fn jump_by(register: u32) -> u32 {
    register << 15 | 0x67
}

/// `auipc`, the address of this instruction.
fn here(to: u32) -> u32 {
    to << 7 | 0x17
}

/// `j` over 24 bytes, which differs in its first halfword from `addi zero, zero, 24`.
const OFF: [u8; 4] = 0x0180_006f_u32.to_le_bytes();
const ON: [u8; 4] = 0x0180_0013_u32.to_le_bytes();

/// The stub at `at` of a hook; its function, with this number, goes on at `body`. `None` if that is out of reach.
#[must_use]
pub fn stub(
    position: Option<Position>,
    at: u64,
    routines: Routines,
    body: u64,
    number: u32,
) -> Option<[u8; STUB]> {
    let frame = Position::frame(position);
    let entry = routines.of_entry(frame.is_some());
    let frame = frame.map_or(0, |frame| u64::from(frame.depth) << 32 | u64::from(frame.link));
    let mut bytes = [0; STUB];
    let words = [
        u32::from_le_bytes(ON),
        here(T0),
        add(T0, T0, u32::try_from(RECORD - 4).ok()?),
        load(T1, T0, 8),
        jump_by(T1),
    ];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    put(&mut bytes, 4 * words.len(), &code::BREAKPOINT);
    put(&mut bytes, BODY, &armed(at + BODY as u64, body)?);
    for (place, word) in [body, entry, frame].into_iter().enumerate() {
        put(&mut bytes, RECORD + 8 * place, &word.to_le_bytes());
    }
    put(&mut bytes, RECORD + 28, &number.to_le_bytes());
    Some(bytes)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// The way back to `body`, in a stub of its own, where stubs don't reach it: there's none, as stubs are near.
#[must_use]
pub fn stub_back(_body: u64, _is_late: bool) -> [u8; STUB] {
    [0; STUB]
}

/// Bytes of a stub where calls return to, whatever kind of stub it is.
pub const WAY_OUT: Range<usize> = 0..STUB;

/// A stub at `at` of whatever kind: no call returns to one.
#[must_use]
pub fn with_way_out(stub: [u8; STUB], _at: u64, _exit: u64) -> Option<[u8; STUB]> {
    Some(stub)
}

/// A far jump at `site`. `None` if `target` is out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    let area =
        code::Area { start: 0, before: 0, length: SITE, kind: code::Kind::Long, is_call: false };
    let (_, bytes) = area.states(site, target)?;
    bytes.first_chunk().copied()
}

/// A jump to anywhere, at a multiple of 8.
#[must_use]
pub fn thunk(target: u64) -> [u8; THUNK] {
    let mut bytes = [0; THUNK];
    let words = [here(T1), load(T1, T1, 16), jump_by(T1)];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    put(&mut bytes, 12, &code::BREAKPOINT);
    put(&mut bytes, 16, &target.to_le_bytes());
    bytes
}

/// Where debug information may have a function begin whose hook is at `site`.
pub fn beginnings(function: u64, _site: u64, _size: u64) -> impl Iterator<Item = u64> {
    core::iter::once(function)
}

/// The length of the NOP at the start of `code`.
#[must_use]
pub fn nop_length(code: &[u8]) -> Option<usize> {
    match code {
        [0x01, 0x00, ..] => Some(2),
        [0x13, 0, 0, 0, ..] => Some(4),
        _ => None,
    }
}

/// An area that is too small for a jump, at `code`, with its length, where a jump before the function does: `room` says where that is.
#[must_use]
pub fn small_area(_code: &[u8], length: usize, room: Option<u64>) -> Option<(Area, u64)> {
    let area = Area { start: 0, length, is_call: false };
    room.filter(|_| length >= SHORT_JUMP).map(|room| (area, room))
}

/// The bytes written into an armed area besides the jump: NOPs.
#[must_use]
pub fn filled(_area: &Area, _has_room_before: bool) -> [u8; 24] {
    nops()
}

fn is_near(area: &Area) -> bool {
    area.length < SITE
}

/// The jump at `site`, in an area without room before its function, to `target`. `None` if that is out of reach.
#[must_use]
pub fn jump(area: &Area, site: u64, target: u64) -> Option<Vec<u8>> {
    if is_near(area) {
        return near_jump(0, target.wrapping_sub(site)).map(|bytes| bytes.to_vec());
    }
    armed(site, target).map(|bytes| bytes.to_vec())
}

/// How far that one goes.
#[must_use]
pub fn reach(area: &Area) -> u64 {
    if is_near(area) { NEAR_REACH } else { REACH }
}

/// Bytes of the jump in an area.
#[must_use]
pub fn jump_length(area: &Area, has_room_before: bool) -> usize {
    if has_room_before {
        SHORT_JUMP
    } else if is_near(area) {
        4
    } else {
        SITE
    }
}

/// `c.j` back over a far jump, and a NOP, of which a site with one is made.
const BACK: [u8; SHORT_JUMP] = [0xe5, 0xbf];
const STAY: [u8; SHORT_JUMP] = [0x01, 0x00];

/// The jump at `site` to where there is room before the function.
#[must_use]
pub fn jump_before(site: u64, before: u64) -> Option<[u8; SHORT_JUMP]> {
    (site.wrapping_sub(before) == SITE as u64).then_some(BACK)
}

/// `jal` over this distance. `None` if it's out of reach.
fn near_jump(link: u32, distance: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(distance.cast_signed()).ok()?;
    let is_near = (-(1 << 20)..1 << 20).contains(&distance) && distance % 2 == 0;
    let bits = distance.cast_unsigned();
    let operand = (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3ff) << 21
        | (bits >> 11 & 1) << 20
        | (bits >> 12 & 0xff) << 12;
    is_near.then(|| (operand | link << 7 | 0x6f).to_le_bytes())
}

/// The distance of a `jal` that keeps where it is in `link`.
fn near_distance(word: u32, link: u32) -> Option<i64> {
    let bits = (word >> 31) << 20
        | (word >> 21 & 0x3ff) << 1
        | (word >> 20 & 1) << 11
        | (word >> 12 & 0xff) << 12;
    (word & 0xfff == link << 7 | 0x6f).then(|| i64::from((bits << 11).cast_signed() >> 11))
}

fn word_at(code: &[u8], at: usize) -> Option<u32> {
    let bytes = code.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
#[must_use]
pub fn target(site: u64, code: &[u8]) -> Option<u64> {
    let (first, second) = (word_at(code, 0)?, word_at(code, 4)?);
    if let Some(distance) = near_distance(first, 0) {
        return Some(site.wrapping_add_signed(distance));
    }
    let is_pair = first & 0xfff == here(T1) && second & 0xf_ffff == jump_by(T1);
    let upper = i64::from((first & !0xfff).cast_signed());
    let lower = i64::from(second.cast_signed() >> 20);
    is_pair.then(|| site.wrapping_add_signed(upper + lower))
}

/// Bytes of a site that are looked at to switch it.
pub const SWITCH: usize = SITE;

/// Where an armed site is switched while threads run, by the bytes that are there: its stub's first instruction, or the site itself, if
/// it leads to room before its function. The code when it's on, and when it's off. `None` if it isn't armed.
#[must_use]
pub fn switch(site: u64, bytes: [u8; SWITCH]) -> Option<(u64, [u8; 2], [u8; 2])> {
    let half = |word: [u8; 4]| [word[0], word[1]];
    if bytes.starts_with(&BACK) {
        return Some((site, BACK, STAY));
    }
    match target(site, &bytes) {
        Some(stub) => Some((stub, half(ON), half(OFF))),
        None if bytes.starts_with(&STAY) => Some((site, BACK, STAY)),
        None => None,
    }
}

/// The bytes of an armed site as it would be if it had not been switched off, if its first ones may have been: `expected` is as it is armed.
pub fn switched_on(now: &mut [u8], expected: &[u8]) {
    if expected.starts_with(&BACK) && now.starts_with(&STAY) {
        put(now, 0, &BACK);
    }
}

/// Functions that only return have two bytes, and no more room: so calls of the one that the dynamic linker has for debuggers are replaced.
pub const LINKER_CALLS: Option<LinkerCalls> = Some(LinkerCalls {
    find: linker_calls,
    call: |from, to| near_jump(RA, to.wrapping_sub(from)).map(|bytes| bytes.to_vec()),
});

/// All calls of a function of a dynamic linker, and the start of its own first function: when it calls one for debuggers, it's long past that.
fn linker_calls(linker: LinkerCode<'_>) -> Option<CallSites> {
    let LinkerCode { bytes, start, entry, function } = linker;
    let at = |place: usize| start.wrapping_add(place as u64);
    let sites: Vec<u64> = (0..bytes.len())
        .step_by(2)
        .filter(|place| {
            let word = word_at(bytes, *place);
            let distance = word.and_then(|word| near_distance(word, RA));
            distance.is_some_and(|distance| at(*place).wrapping_add_signed(distance) == function)
        })
        .map(at)
        .collect();
    let first = usize::try_from(entry.checked_sub(start)?).ok()?;
    let spare =
        first_call(bytes, first).map_or(entry, |distance| entry.wrapping_add_signed(distance));
    // As many bytes as are needed, and as far from the function itself.
    let is_apart = spare.abs_diff(function) >= SPARE as u64 + 8;
    (!sites.is_empty() && is_apart).then_some(CallSites { sites, spare })
}

/// How far from `first` on the function begins that is called in the first [`SPARE`] bytes of code there; `None`: there's no call.
fn first_call(bytes: &[u8], first: usize) -> Option<i64> {
    let mut at = first;
    while at < first + SPARE {
        let low = *bytes.get(at)?;
        if low & 3 != 3 {
            at += 2;
            continue;
        }
        if let Some(distance) = near_distance(word_at(bytes, at)?, RA) {
            return Some(i64::try_from(at - first).ok()? + distance);
        }
        at += 4;
    }
    None
}

/// Bytes of code that may be replaced in a function that only returns: its own, and what fills up the place after it.
/// 0 if it does anything else.
#[must_use]
pub fn room_in(code: &[u8]) -> usize {
    let mut room = match code {
        [0x82, 0x80, ..] => 2,
        [0x67, 0x80, 0, 0, ..] => 4,
        _ => return 0,
    };
    while let Some(length) = nop_length(code.get(room..).unwrap_or_default()) {
        room += length;
    }
    room
}

/// A function with which the thread with this number sends itself SIGURG. Unlike a breakpoint it does no harm
/// should the recorder be killed.
#[must_use]
pub fn question(thread: i32) -> Vec<u8> {
    const A0: u32 = 10;
    let number = thread.cast_unsigned();
    let upper = number.wrapping_add(0x800) & !0xfff;
    let words = [
        upper | A0 << 7 | 0x37,                             // lui a0, …
        (number & 0xfff) << 20 | A0 << 15 | A0 << 7 | 0x1b, // addiw a0, a0, …
        add(11, 0, 23),                                     // li a1, SIGURG
        add(17, 0, 130),                                    // li a7, SYS_tkill
        0x73,                                               // ecall
    ];
    let code = words.into_iter().flat_map(u32::to_le_bytes);
    code.chain(RETURN.iter().copied()).collect()
}

/// Has the function at `function`, which begins with these bytes, call `watch` first, by a stub at `at`. `None` if that can't be done.
#[must_use]
pub fn watched(function: u64, bytes: &[u8], at: u64, watch: u64) -> Option<Watched<SITE>> {
    /// Where in the stub the address of `watch` is, and where the function goes on.
    const WATCH: u32 = 16;
    const BODY: u32 = 24;
    let words = [here(T0), load(T1, T0, WATCH), add(T0, T0, BODY), jump_by(T1)];
    let mut stub: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    stub.extend(watch.to_le_bytes());
    let mut done = 0;
    while done < SITE {
        let (place, to) = (function + done as u64, at + stub.len() as u64);
        done += move_one(bytes.get(done..)?, place, to, &mut stub)?;
    }
    let back = at + stub.len() as u64;
    stub.extend(armed(back, function + done as u64)?);
    (stub.len() <= STUB).then_some(())?;
    Some(Watched { stub, place: function, jump: armed(function, at)? })
}

/// Adds the instruction that `code` at `place` begins with as it has to be at `to`; its length. `None` if it can't be moved.
fn move_one(code: &[u8], place: u64, to: u64, moved: &mut Vec<u8>) -> Option<usize> {
    let low = *code.first()?;
    if low & 3 != 3 {
        let half = u16::from_le_bytes([low, *code.get(1)?]);
        // c.j, c.beqz, c.bnez; c.jr, c.jalr and c.ebreak.
        let is_jump = half & 3 == 1 && half >> 13 >= 5;
        let is_return = half & 0xe07f == 0x8002;
        moved.extend(half.to_le_bytes());
        return (!is_jump && !is_return).then_some(2);
    }
    let word = word_at(code, 0)?;
    match word & 0x7f {
        // auipc: an address, which is made of two parts there.
        0x17 => {
            let address = place.wrapping_add_signed(i64::from((word & !0xfff).cast_signed()));
            let register = word >> 7 & 31;
            let pair = armed(to, address)?;
            let [upper, lower] = [word_at(&pair, 0)?, word_at(&pair, 4)?];
            let words = [upper & !0xfff | here(register), add(register, register, lower >> 20)];
            moved.extend(words.into_iter().flat_map(u32::to_le_bytes));
        }
        // Branches, and jumps.
        0x63 | 0x67 | 0x6f => return None,
        _ => moved.extend(word.to_le_bytes()),
    }
    Some(4)
}

#[cfg(test)]
mod tests;
