//! 64-bit PowerPC, little endian (ELFv2), as a processor of traced programs: hooks and stubs, registers, the dynamic linker's rendezvous,
//! sandboxes.
//!
//! Code is written through `/proc/PID/mem`, and the kernel has all processors fetch it anew (`flush_icache_user_page`). What
//! changes while threads run is one word, for another one of the patch class (`code.rs`): the first instruction of a stub.
//!
//! A site is one `b`, which reaches 32 MiB, and so does the way back from its stub. A record behind a stub has its addresses,
//! so that routines may be anywhere. A stub finds its own place by the link register, which it keeps meanwhile in `r0`; neither that nor
//! `r12` means anything at a hook.

use super::code;
pub use super::code::{Position, SITE, Unusable, armed};
pub use super::signals::SIGNALS;
use super::system_calls::POWERPC64;
use crate::assembly::number;
use crate::outside::values::Conventions;
use crate::outside::{
    LibraryCalls, LinkerCalls, LongDouble, Roles, Routines, SystemCallWord, SystemCalls, Watched,
    code as bytes_of, words,
};
use alloc::vec::Vec;
use core::ops::Range;

/// What people call it.
pub const NAME: &str = "PowerPC";
/// Its system calls.
pub const SYSTEM_CALLS: SystemCalls =
    SystemCalls { names: POWERPC64, names_32: "", instruction: 32 };
/// Calls of library functions aren't recorded yet.
pub const LIBRARY_CALLS: Option<&LibraryCalls> = None;
/// Neither are arguments and results.
pub const VALUES: Option<&Conventions> = None;
/// `sc`.
pub const SYSTEM_CALL: &[u8] = &SC.to_le_bytes();
/// `trap`.
pub const BREAKPOINT: &[u8] = &code::BREAKPOINT;
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 0;
/// `blr`.
pub const RETURN: &[u8] = &BLR.to_le_bytes();
/// `b` to itself.
pub const HOLD: &[u8] = &0x4800_0000_u32.to_le_bytes();

const SC: u32 = 0x4400_0002;
const BLR: u32 = 0x4e80_0020;
const BCTR: u32 = 0x4e80_0420;
const MFLR_R0: u32 = 0x7c08_02a6;
const MTLR_R0: u32 = 0x7c08_03a6;
const MTCTR_R0: u32 = 0x7c09_03a6;
const MTCTR_R12: u32 = 0x7d89_03a6;
/// `bcl 20,31,.+4`: the address of the next instruction in the link register. Processors don't take it for a call.
const HERE: u32 = 0x429f_0005;

/// The kernel's name for floating-point registers (`NT_PRFPREG`).
pub const VECTORS: &[i32] = &[2];
/// Those for vector registers, and for what vector-scalar registers have besides (`NT_PPC_VMX`, `NT_PPC_VSX`).
pub const MORE_VECTORS: &[i32] = &[0x100, 0x102];

/// System calls that return EINTR when their thread was stopped, and which may be made once more then: nothing has
/// been done yet.
const ENDED_BY_STOPS: &[i64] = &[
    3,   // read
    145, // readv
    4,   // write
    146, // writev
    330, // accept
    344, // accept4
    336, // recv
    337, // recvfrom
    342, // recvmsg
    343, // recvmmsg
    334, // send
    335, // sendto
    341, // sendmsg
    392, // semtimedop
    117, // ipc, by which C libraries make the former
    238, // epoll_wait
    303, // epoll_pwait
    441, // epoll_pwait2
    176, // rt_sigtimedwait
    229, // io_getevents
    426, // io_uring_enter
];

/// `struct user_pt_regs` (`<asm/ptrace.h>`): 32 registers, and then others. The result of a system call is negative if it's an error in
/// one of these only, which says so as long as the thread stands where the call ends.
pub static ROLES: Roles = Roles {
    count: 48,
    instruction: 32,
    stack: 1,
    result: 43,
    kept_result: 14,
    number: 0,
    arguments: [3, 4, 5, 6, 7, 8],
    link: Some(36),
    function: Some(12),
    // What has interrupted the thread: `sc`, or `scv`.
    call: Some(SystemCallWord {
        place: 40,
        values: &[0xc00, 0x3000],
        first_argument: Some(34),
        length: SYSTEM_CALL.len() as u64,
        restart: 0,
        ended_by_stops: ENDED_BY_STOPS,
    }),
    // Code of C libraries has what is below it.
    thread: Some(13),
    ..Roles::NONE
};

/// The message about a program for another processor.
pub const FOREIGN: &str = "it isn't a little-endian 64-bit PowerPC program";
/// Functions without a hook can get one.
#[cfg(feature = "probe")]
pub const PROBES: Option<&crate::probe::Probes> = None;
/// `e_machine` of its programs.
pub const MACHINE: u16 = 21;
/// A word of the agent or of a module is to have the load bias and its addend (ELFv2 ABI, 3.5.3: `R_PPC64_RELATIVE`).
pub const RELATIVE: u32 = 22;

/// Bytes of the jump with which a sled of LLVM's XRay begins: none is known here.
pub const SLED_JUMP: usize = 0;
/// Linkers make NOPs of instructions at entries: of those that add 0 to `r2`. Only NOPs that a compiler lists are hooks.
pub const HAS_OTHER_NOPS: bool = true;
/// How many bytes at the start of a function its prologue may have.
pub const PROLOGUE: usize = 256;
/// What to compile with.
pub const PATCHABLE: &str = "compile with -pg -mprofile-kernel";

/// A `long double`.
pub const LONG_DOUBLE: LongDouble = LongDouble::Quad;
/// The agent has no `mcount_nobody`: a thread finds what it has by its thread pointer.
pub const HAS_NOBODY: bool = false;
/// No register leads to a thread's block.
pub const SETS_BLOCK: Option<u64> = None;

/// How far from a module a jump into it, or out of it, may be: a bit less than 32 MiB.
pub const REACH: u64 = code::REACH - (1 << 20);
/// Bytes of a hook in room near its module, where the agent's is too far away: its stub.
pub const NEAR: usize = STUB;
/// Stubs themselves have to be near: they go on with their functions by one `b`.
pub const STUBS_ARE_NEAR: bool = true;

/// Bytes of a stub.
pub const STUB: usize = 64;
/// Bytes of a jump to anywhere.
pub const THUNK: usize = 28;

/// Where in a stub its record is, and in a part of that which means nothing here, how it goes on with its function.
const RECORD: usize = 32;
const BODY: usize = 48;
/// The place in a stub that routines know.
const FOUND: usize = 12;
const _: () = assert!(number(super::CALL, "RECORD_FROM") == RECORD - FOUND);

/// The kernel's name for the processor in filters of system calls: `AUDIT_ARCH_PPC64LE`.
pub const ARCHITECTURE: u32 = 0xc000_0015;
/// The agent's further question to the kernel here: where a thread's own memory is, by `get_robust_list`.
pub const NEEDED_BESIDES: i64 = 299;

/// `ld r2,24(r1)`: what linkers put behind a call of another module's function, whose stub has stored `r2` there.
const LOAD_R2: u32 = 0xe841_0018;

/// The compiler's code at the entry of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Area {
    /// Bytes from where the area was looked for to where it begins: always 0.
    pub start: usize,
    /// Its bytes: [`SITE`], however many NOPs follow.
    pub length: usize,
    /// It was a call of the hook.
    pub is_call: bool,
    /// Behind the call, `r2` is loaded. Only the call may be followed by that, so nobody comes there as long as it's something else; but a
    /// thread that is in the hook still does.
    pub loads: bool,
}

impl Area {
    /// The area at the start of `code`.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's none, or if local calls don't come by.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let code::Area { start, length, is_call } = code::Area::find(code)?;
        let loads = is_call && words(code).nth(1) == Some(LOAD_R2);
        Ok(Self { start, length, is_call, loads })
    }

    /// The bytes of the area when it's idle: a NOP, or a jump over the load.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        const OVER: u32 = 0x4800_0008;
        let word = if self.loads { OVER.to_le_bytes() } else { code::NOP };
        let mut bytes = [0; 24];
        for (room, byte) in bytes.iter_mut().zip(word) {
            *room = byte;
        }
        bytes
    }
}

/// Where in a function with this code a hook is that begins `distance` bytes behind its start.
#[must_use]
pub fn position(bytes: &[u8], distance: u64) -> Option<Position> {
    code::position(bytes, distance)
}

/// Where a function's hook is to be looked for, if unwind information has it begin at `start`, behind NOPs: gcc has it begin behind all of
/// them. All calls come by the last one.
#[must_use]
pub fn entry_of(start: u64, _code: &[u8]) -> u64 {
    start.wrapping_sub(SITE as u64)
}

/// Is a hook at this place after the prologue?
#[must_use]
pub fn is_after_prologue(position: Option<Position>) -> bool {
    position == Some(Position::AfterPrologue)
}

/// Where the site of such a hook leads to in its stub.
#[must_use]
pub fn way_in(_position: Option<Position>) -> u64 {
    0
}

/// `ld` of `to` from `offset` bytes behind `from`, a multiple of 4.
fn load(to: u32, from: u32, offset: u32) -> u32 {
    0xe800_0000 | to << 21 | from << 16 | offset
}

/// `b` over this distance, and back to how a stub begins: the preferred NOP.
const OFF: [u8; SITE] = 0x4800_0030_u32.to_le_bytes();
const ON: [u8; SITE] = code::NOP;

/// The stub at `at` of a hook; its function, with this number, goes on at `body`. `None` if that is out of reach.
#[must_use]
pub fn stub(
    position: Option<Position>,
    at: u64,
    Routines { entry, late_entry, .. }: Routines,
    body: u64,
    function: u32,
) -> Option<[u8; STUB]> {
    /// The second word of the record, from that place on.
    const ENTRY: u32 = 28;
    const _: () = assert!(ENTRY as usize == RECORD + 8 - FOUND);
    let entry = if is_after_prologue(position) { late_entry } else { entry };
    let trap = u32::from_le_bytes(code::BREAKPOINT);
    let back = u32::from_le_bytes(armed(at + BODY as u64, body)?);
    let [low, high] = halves(body);
    let [entry_low, entry_high] = halves(entry);
    let words = [
        u32::from_le_bytes(ON),
        MFLR_R0,
        HERE,
        0x7d88_02a6, // mflr r12
        MTLR_R0,
        load(0, 12, ENTRY),
        MTCTR_R0,
        BCTR,
        low,
        high,
        entry_low,
        entry_high,
        back,
        trap,
        trap,
        function,
    ];
    filled_with(words)
}

/// The two words of an address.
fn halves(address: u64) -> [u32; 2] {
    [(address & 0xffff_ffff) as u32, (address >> 32) as u32]
}

/// These words as an array of bytes.
fn filled_with<const BYTES: usize>(words: impl IntoIterator<Item = u32>) -> Option<[u8; BYTES]> {
    bytes_of(words).collect::<Vec<u8>>().try_into().ok()
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

/// A jump to anywhere, by `r12`, as functions expect.
#[must_use]
pub fn thunk(target: u64) -> [u8; THUNK] {
    let part = |shift: u32| (target >> shift & 0xffff) as u32;
    let words = [
        0x3d80_0000 | part(48), // lis r12
        0x618c_0000 | part(32), // ori r12,r12
        0x798c_07c6,            // sldi r12,r12,32
        0x658c_0000 | part(16), // oris r12,r12
        0x618c_0000 | part(0),  // ori r12,r12
        MTCTR_R12,
        BCTR,
    ];
    filled_with(words).unwrap_or([0; THUNK])
}

/// Where debug information may have a function begin whose hook is at `site`: gcc has it begin behind all NOPs.
pub fn beginnings(function: u64, site: u64, bytes: u64) -> impl Iterator<Item = u64> {
    const MOST_NOPS: u64 = 64;
    let end = site.saturating_add(4 * MOST_NOPS).min(function.saturating_add(bytes));
    core::iter::once(function).chain((site..end).step_by(SITE))
}

/// The length of the NOP at the start of `code`.
#[must_use]
pub fn nop_length(code: &[u8]) -> Option<usize> {
    code.starts_with(&code::NOP).then_some(SITE)
}

/// No area is too small for a jump.
#[must_use]
pub fn small_area(_code: &[u8], _length: usize, _room: Option<u64>) -> Option<(Area, u64)> {
    None
}

/// The bytes written into an armed area besides the jump: none.
#[must_use]
pub fn filled(area: &Area, _has_room_before: bool) -> [u8; 24] {
    area.idle()
}

/// The jump at `site`, in an area without room before its function, to `target`. `None` if that is out of reach.
#[must_use]
pub fn jump(_area: &Area, site: u64, target: u64) -> Option<[u8; SITE]> {
    armed(site, target)
}

/// How far that one goes.
#[must_use]
pub fn reach(_area: &Area) -> u64 {
    REACH
}

/// Bytes of the jump in an area, and of what it leads over.
#[must_use]
pub fn jump_length(area: &Area, _has_room_before: bool) -> usize {
    if area.loads { 2 * SITE } else { SITE }
}

/// There's no room before functions.
#[must_use]
pub fn jump_before(_site: u64, _before: u64) -> Option<[u8; SITE]> {
    None
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
#[must_use]
pub fn target(site: u64, code: &[u8]) -> Option<u64> {
    let word = words(code).next()?;
    let distance = i64::from((word << 6).cast_signed() >> 6 & !3);
    (word & 0xfc00_0003 == 0x4800_0000).then(|| site.wrapping_add_signed(distance))
}

/// Bytes of a site that are looked at to switch it.
pub const SWITCH: usize = SITE;

/// Where an armed site is switched while threads run, by the bytes that are there: its stub's first
/// instruction. The code when it's on, and when it's off. `None` if it isn't armed.
#[must_use]
pub fn switch(site: u64, bytes: [u8; SWITCH]) -> Option<(u64, [u8; SITE], [u8; SITE])> {
    target(site, &bytes).map(|stub| (stub, ON, OFF))
}

/// The bytes of an armed site as it would be if it had not been switched off: the same.
pub fn switched_on(_now: &mut [u8], _expected: &[u8]) {}

/// Where the dynamic linker's calls for debuggers can be replaced, if the function that they call is too small for a jump: here it isn't.
pub const LINKER_CALLS: Option<LinkerCalls> = None;

/// Bytes of code that may be replaced in a function that only returns: its own, and what fills up the place after it.
/// 0 if it does anything else.
#[must_use]
pub fn room_in(code: &[u8]) -> usize {
    let mut all = words(code);
    if all.next() != Some(BLR) {
        return 0;
    }
    SITE + SITE * all.take_while(|word| word.to_le_bytes() == code::NOP).count()
}

/// A function with which the thread with this number sends itself SIGURG. Unlike a breakpoint it does no harm
/// should the recorder be killed.
#[must_use]
pub fn question(thread: i32) -> Vec<u8> {
    let number = thread.cast_unsigned();
    let words = [
        0x3c60_0000 | number >> 16,    // lis r3,…
        0x6063_0000 | number & 0xffff, // ori r3,r3,…
        0x3880_0017,                   // li r4,SIGURG
        0x3800_00d0,                   // li r0,SYS_tkill
        SC,
        BLR,
    ];
    bytes_of(words).collect()
}

/// Has the function at `function`, which begins with these bytes, call `watch` first, by a stub at `at`. `None` if that can't be done.
/// `r12` stays what it is: the function may make `r2` of it.
#[must_use]
pub fn watched(function: u64, bytes: &[u8], at: u64, watch: u64) -> Option<Watched<SITE>> {
    /// Where in the stub its own address is found, where that of `watch` is, and where the function goes on.
    const FOUND: u32 = 8;
    const WATCH: u32 = 32;
    const GOES_ON: u32 = 40;
    let moved = words(bytes).next().filter(|word| is_movable(*word))?;
    let back = armed(at + u64::from(GOES_ON) + 4, function + 4)?;
    let [low, high] = halves(watch);
    let instructions = [
        MFLR_R0,
        HERE,
        0x7d68_02a6, // mflr r11
        MTLR_R0,
        load(0, 11, WATCH - FOUND),
        MTCTR_R0,
        0x396b_0000 | (GOES_ON - FOUND), // addi r11,r11,…
        BCTR,
        low,
        high,
        moved,
        u32::from_le_bytes(back),
    ];
    let stub = bytes_of(instructions).collect();
    Some(Watched { stub, place: function, jump: armed(function, at)? })
}

/// Does this instruction do the same wherever it is? Branches don't (Power ISA 3.0, book I, 2.4), nor do those that find their own place.
fn is_movable(word: u32) -> bool {
    // bc, sc, b; bclr, bcctr and their like; an instruction of two words; addpcis.
    !(matches!(word >> 26, 1 | 16 | 17 | 18) || word >> 26 == 19)
}

#[cfg(test)]
mod tests;
