//! x86-64, as a processor of traced programs: hooks and stubs, registers, the dynamic linker's rendezvous, sandboxes.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]

use super::code;
pub use super::code::{Area, Position, SITE, STUB, THUNK, Unusable, armed, nop_length, thunk};
pub use super::signals::SIGNALS;
use super::system_calls as names;
use crate::outside::values::Conventions;
use crate::outside::{
    ClockTrap, LibraryCalls, LinkerCalls, LongDouble, Roles, Routines, SystemCallWord, SystemCalls,
    Watched,
};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// What people call it.
pub const NAME: &str = "x86-64";
/// Its system calls.
pub const SYSTEM_CALLS: SystemCalls =
    SystemCalls { names: names::X86_64, names_32: names::I386, instruction: 8 };
/// How calls of library functions are recorded.
pub const LIBRARY_CALLS: Option<&LibraryCalls> = Some(&super::library::LIBRARY_CALLS);
/// Where arguments and results are.
pub const VALUES: Option<&Conventions> = Some(&super::values::CONVENTIONS);
/// An instruction that makes a system call.
pub const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];
/// A breakpoint.
pub const BREAKPOINT: &[u8] = &[0xcc];
/// How many bytes after the breakpoint a stopped thread is.
pub const BEHIND_BREAKPOINT: u64 = 1;
/// A return.
pub const RETURN: &[u8] = &[0xc3];
/// A jump to itself.
pub const HOLD: &[u8] = &[0xeb, 0xfe];

/// The kernel's name for vector registers and all that goes with them (`NT_X86_XSTATE`).
pub const VECTORS: &[i32] = &[0x202];
/// It has none for others.
pub const MORE_VECTORS: &[i32] = &[];

/// System calls that return EINTR when their thread was stopped, and which may be made once more then: nothing has
/// been done yet.
const ENDED_BY_STOPS: &[i64] = &[
    0,   // read
    19,  // readv
    1,   // write
    20,  // writev
    43,  // accept
    288, // accept4
    45,  // recvfrom
    47,  // recvmsg
    299, // recvmmsg
    44,  // sendto
    46,  // sendmsg
    65,  // semop
    220, // semtimedop
    232, // epoll_wait
    281, // epoll_pwait
    441, // epoll_pwait2
    128, // rt_sigtimedwait
    208, // io_getevents
    426, // io_uring_enter
];

const RBX: usize = 5;
const R10: usize = 7;
const R9: usize = 8;
const R8: usize = 9;
const RAX: usize = 10;
const RDX: usize = 12;
const RSI: usize = 13;
const RDI: usize = 14;
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const EFLAGS: usize = 18;
const RSP: usize = 19;
const FS_BASE: usize = 21;
const GS_BASE: usize = 22;

/// `struct user_regs_struct` (`<sys/user.h>`).
pub static ROLES: Roles = Roles {
    count: 27,
    instruction: RIP,
    stack: RSP,
    result: RAX,
    kept_result: RBX,
    number: RAX,
    arguments: [RDI, RSI, RDX, R10, R8, R9],
    link: None,
    function: None,
    call: Some(SystemCallWord {
        place: ORIG_RAX,
        values: &[],
        first_argument: None,
        length: SYSTEM_CALL.len() as u64,
        restart: 219,
        ended_by_stops: ENDED_BY_STOPS,
    }),
    // The direction flag.
    clear: Some((EFLAGS, 1 << 10)),
    vectors: Some(RAX),
    thread: Some(FS_BASE),
    block: Some(GS_BASE),
    // `rdtsc`.
    clock: Some(ClockTrap { code: [0x0f, 0x31], low: RAX, high: RDX }),
};

/// The message about a program for another processor.
pub const FOREIGN: &str = "it isn't a 64-bit x86 program";
/// Functions without a hook can get one.
#[cfg(feature = "probe")]
pub const PROBES: Option<&crate::probe::Probes> = Some(&super::probe::PROBES);
/// `e_machine` of its programs.
pub const MACHINE: u16 = 62;
/// A word of the agent or of a module is to have the load bias and its addend (x86-64 psABI, 4.4.1).
pub const RELATIVE: u32 = 8;

/// Bytes of the jump with which a sled of LLVM's XRay begins. Its runtime may have written behind that.
pub const SLED_JUMP: usize = 2;
/// Only compilers leave NOPs where functions begin.
pub const HAS_OTHER_NOPS: bool = false;
/// How many bytes at the start of a function its prologue may have.
pub const PROLOGUE: usize = 64;
/// What to compile with.
pub const PATCHABLE: &str = "compile with -fpatchable-function-entry=5";

/// A `long double`.
pub const LONG_DOUBLE: LongDouble = LongDouble::Extended;
/// The agent has `mcount_nobody`: threads find what they have by a register.
pub const HAS_NOBODY: bool = true;

/// How far from a module a jump into it, or out of it, may be: a bit less than 2 GiB.
pub const REACH: u64 = (1 << 31) - (1 << 20);
/// Bytes of a hook in room near its module, where stubs are too far away: a jump to the stub.
pub const NEAR: usize = THUNK;
/// Stubs themselves have to be near.
pub const STUBS_ARE_NEAR: bool = false;

/// The kernel's name for the processor in filters of system calls: `AUDIT_ARCH_X86_64`.
pub const ARCHITECTURE: u32 = 0xc000_003e;
/// The agent's further question to the kernel here, where the processor or the kernel doesn't let programs set
/// `%gs` themselves: `arch_prctl`.
pub const NEEDED_BESIDES: i64 = 158;

/// Where debug information may have a function begin whose hook is at `site`.
pub fn beginnings(function: u64, _site: u64, _size: u64) -> impl Iterator<Item = u64> {
    core::iter::once(function)
}

/// A bit of `AT_HWCAP2`: this processor, and this kernel, let programs set the base of `%gs`.
pub const SETS_BLOCK: Option<u64> = Some(2);

/// Where in a function with this code a hook is that begins `distance` bytes behind its start.
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    code::position(code, distance)
}

/// Where a function's hook is to be looked for, if unwind information has it begin at `start`, with this code there.
pub fn entry_of(start: u64, _code: &[u8]) -> u64 {
    start
}

/// Is a hook at this place after the prologue?
pub fn is_after_prologue(position: Option<Position>) -> bool {
    matches!(position, Some(Position::AfterPrologue | Position::AfterAligning(_)))
}

/// Where the site of such a hook leads to in its stub.
pub fn way_in(position: Option<Position>) -> u64 {
    match position {
        Some(Position::AfterAligning(_)) => code::STUB_ALIGNED as u64,
        _ => 0,
    }
}

/// The stub at `at` of a hook; its function, with this number, goes on at `body`. The routines are those of the entry, of the entry after a
/// prologue, and of the exit. `None` if something is out of reach.
pub fn stub(
    position: Option<Position>,
    at: u64,
    Routines { entry, late_entry, exit }: Routines,
    body: u64,
    number: u32,
) -> Option<[u8; STUB]> {
    match position {
        Some(Position::AfterPrologue) => code::stub_after_prologue(at, late_entry, body, number),
        Some(Position::AfterAligning(pointer)) => {
            code::stub_after_aligning(at, late_entry, body, number, pointer)
        }
        _ => code::stub(at, entry, body, exit, number),
    }
}

/// The way back to `body`, in a stub of its own, where stubs don't reach it.
pub fn stub_back(body: u64, is_late: bool) -> [u8; STUB] {
    code::stub_back(body, is_late)
}

/// Bytes of a stub where calls return to, whatever kind of stub it is.
pub const WAY_OUT: Range<usize> = code::STUB_RETURN..code::STUB_RETURN + SITE;

/// A stub at `at` of whatever kind, to which calls of former traces may still return, with a way out for them.
pub fn with_way_out(mut stub: [u8; STUB], at: u64, exit: u64) -> Option<[u8; STUB]> {
    let back = code::armed(at + code::STUB_RETURN as u64, exit)?;
    stub.get_mut(code::STUB_RETURN..)?.get_mut(..back.len())?.copy_from_slice(&back);
    Some(stub)
}

/// An area that is too small for a jump, at `code`, with its length, where a jump before the function does: `room` says where that is.
pub fn small_area(code: &[u8], length: usize, room: Option<u64>) -> Option<(Area, u64)> {
    let start = if code::is_entry(code, 4) { 4 } else { 0 };
    let area = Area { start, length, is_call: false };
    room.filter(|_| length >= code::SHORT_JUMP).map(|room| (area, room))
}

/// The bytes written into an armed area: NOPs, from after the jump on.
pub fn filled(area: &Area, has_room_before: bool) -> [u8; 24] {
    area.filled_behind(jump_length(area, has_room_before))
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
pub fn jump_length(_area: &Area, has_room_before: bool) -> usize {
    if has_room_before { code::SHORT_JUMP } else { SITE }
}

/// The jump at `site` to where there is room before the function.
pub fn jump_before(site: u64, before: u64) -> Option<[u8; code::SHORT_JUMP]> {
    code::armed_short(site, before)
}

/// Where the jump `code` at `site` leads to; `None` if it's no jump.
pub fn target(site: u64, code: &[u8]) -> Option<u64> {
    let &[0xe9, a, b, c, d] = code else { return None };
    let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
    Some((site + SITE as u64).wrapping_add_signed(distance))
}

/// Bytes of a site that are looked at to switch it.
pub const SWITCH: usize = 1;

/// Where an armed site is switched while threads run, by the bytes that are there; what is there when it's on, and when it's off.
/// `None` if it isn't armed.
pub fn switch(site: u64, code: [u8; SWITCH]) -> Option<(u64, [u8; 1], [u8; 1])> {
    let [first] = code;
    [0xe9, 0xeb].into_iter().find_map(|on| {
        let off = code::switched_off(on)?;
        (first == on || first == off).then_some((site, [on], [off]))
    })
}

/// The bytes of an armed site as it would be if it had not been switched off, if its first ones may have been: `expected` is as it is armed.
pub fn switched_on(now: &mut [u8], expected: &[u8]) {
    if let (Some(first), Some(armed)) = (now.first_mut(), expected.first())
        && code::switched_off(*armed) == Some(*first)
    {
        *first = *armed;
    }
}

/// Where the dynamic linker's calls for debuggers can be replaced, if the function that they call is too small for a jump: here it isn't.
pub const LINKER_CALLS: Option<LinkerCalls> = None;

/// Bytes of code that may be replaced in a function that only returns: its own, and what fills up the place after it.
/// 0 if it does anything else.
pub fn room_in(code: &[u8]) -> usize {
    const LANDING_PAD: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let mut room = if code.starts_with(LANDING_PAD) { LANDING_PAD.len() } else { 0 };
    if !code.get(room..).is_some_and(|code| code.starts_with(RETURN)) {
        return 0;
    }
    room += RETURN.len();
    loop {
        let rest = code.get(room..).unwrap_or_default();
        match code::nop_length(rest) {
            Some(length) => room += length,
            None if rest.starts_with(BREAKPOINT) => room += 1,
            None => return room,
        }
    }
}

/// A function with which the thread with this number sends itself SIGURG. Unlike a breakpoint it does no harm
/// should the recorder be killed.
pub fn question(thread: i32) -> Vec<u8> {
    let [a, b, c, d] = thread.to_le_bytes();
    // mov $thread, %edi; push $SIGURG; pop %rsi; mov $SYS_tkill, %eax; syscall; ret
    vec![0xbf, a, b, c, d, 0x6a, 23, 0x5e, 0xb8, 200, 0, 0, 0, 0x0f, 0x05, 0xc3]
}

/// Has the function at `function`, which begins with these bytes, call `watch` first, by a stub at `at`. `None` if that can't be done.
#[must_use]
pub fn watched(function: u64, bytes: &[u8], at: u64, watch: u64) -> Option<Watched<SITE>> {
    let start = if bytes.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    let moved = bytes.get(start..).and_then(movable)?;
    let place = function + start as u64;
    let behind = at + (SITE + moved.len()) as u64;
    let back = armed(behind, place + moved.len() as u64)?;
    let jump = armed(place, at)?;
    // A call has the form of a jump.
    let [_, distance @ ..] = armed(at, watch)?;
    let stub = [&[0xe8], distance.as_slice(), moved, &back].concat();
    Some(Watched { stub, place, jump })
}

/// Bytes of code that may be moved, at most.
const MOVED: usize = code::STUB_KIND - 2 * SITE;

/// The instructions that `code` begins with, as far as a jump takes their place; `None` if one of them depends on where it is,
/// or isn't known here. They're what compilers begin functions with.
fn movable(code: &[u8]) -> Option<&[u8]> {
    let mut length = 0;
    while length < SITE {
        length += instruction(code.get(length..)?)?;
    }
    code.get(..length).filter(|moved| moved.len() <= MOVED)
}

/// The length of a `push`, of a `sub` from the stack pointer, or of a `mov` between registers and the stack.
fn instruction(code: &[u8]) -> Option<usize> {
    let (prefix, rest) = match code {
        [0x40..=0x4f, rest @ ..] => (1, rest),
        _ => (0, code),
    };
    let length = match rest {
        [0x50..=0x57, ..] => 1,
        [0xb8..=0xbf, ..]
            if code.first().is_some_and(|prefix| prefix & 8 == 0 || *prefix > 0x4f) =>
        {
            5
        }
        [0x83, 0xec, _, ..] => 3,
        [0x81, 0xec, _, _, _, _, ..] => 6,
        // mod 3: two registers; mod 1 and the stack pointer: a byte more, and one for the distance.
        [0x89 | 0x8b | 0x63, 0xc0..=0xff, ..] => 2,
        [0x89 | 0x8b | 0x8d, form, 0x24, _, ..] if form & 0xc7 == 0x44 => 4,
        _ => return None,
    };
    (code.len() >= prefix + length).then_some(prefix + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_functions_are_moved_whole() {
        let rows: [(&[u8], Option<usize>); 9] = [
            // glibc's prctl and syscall, and musl's.
            (&[0x48, 0x83, 0xec, 0x58, 0x49, 0x89, 0xca, 0x48, 0x89], Some(7)),
            (&[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48], Some(6)),
            (&[0x48, 0x83, 0xec, 0x58, 0x48, 0x63, 0xff, 0x49], Some(7)),
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x74, 0x24, 0x28], Some(9)),
            (&[0xb8, 0x9d, 0, 0, 0, 0x0f, 0x05], Some(5)),
            // mov $…, %rax with eight bytes of number.
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], None),
            // lea 0x10(%rip), %rax
            (&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], None),
            (&[0xe8, 0, 0, 0, 0], None),
            (&[0x48, 0x89], None),
        ];
        for (code, expected) in rows {
            assert_eq!(movable(code).map(<[u8]>::len), expected, "{code:02x?}");
        }
    }
}
