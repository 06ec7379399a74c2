//! Processes that have forbidden themselves system calls (seccomp): may they make those that tracing takes?
//!
//! The kernel shows the filters to whoever may administer the system (`PTRACE_SECCOMP_GET_FILTER`). A filter is a small program
//! without loops that looks at the number of a system call, and perhaps at its arguments; those aren't known here, so all
//! ways that lead on from there have to end well. The instructions are in `<linux/filter.h>`, what a filter is given in
//! `seccomp(2)`.

use super::processor::{ARCHITECTURE, NEEDED_BESIDES};
use mcount_ptrace::{Request, status};
use nix::errno::Errno;
use nix::libc;

const PTRACE_SECCOMP_GET_FILTER: Request = 0x420c;
/// As much as a filter may have (`BPF_MAXINSNS`), and as many as a thread may have here.
pub(super) const LONGEST: usize = 4096;
const MOST: usize = 512;
/// Instructions that are looked at, at most.
const STEPS: u32 = 1 << 20;

/// The system calls that the recorder makes the process do, and those of the agent.
pub(super) const NEEDED: [(&str, i64); 13] = [
    ("mmap", libc::SYS_mmap),
    ("munmap", libc::SYS_munmap),
    ("mremap", libc::SYS_mremap),
    ("madvise", libc::SYS_madvise),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("tgkill", libc::SYS_tgkill),
    ("sched_yield", libc::SYS_sched_yield),
    ("nanosleep", libc::SYS_nanosleep),
    ("socketpair", libc::SYS_socketpair),
    ("recvmsg", libc::SYS_recvmsg),
    ("close", libc::SYS_close),
];

/// The agent's system calls in a program that was started with it.
const NEEDED_BY_AGENT: [i64; 11] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_rt_sigprocmask,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    NEEDED_BESIDES,
];
/// Its further system calls when it begins.
const NEEDED_TO_BEGIN: [i64; 3] = [libc::SYS_openat, libc::SYS_close, libc::SYS_tkill];

/// One instruction of a filter (`struct sock_filter`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

impl Instruction {
    /// As it is in memory.
    pub(super) fn from_word(word: u64) -> Self {
        let [low, high, if_true, if_false, value @ ..] = word.to_le_bytes();
        let (code, value) = (u16::from_le_bytes([low, high]), u32::from_le_bytes(value));
        Self { code, if_true, if_false, value }
    }
}

/// Does this filter let the agent do all that it does once it has begun?
pub(super) fn allows_tracing(filter: &[Instruction], further: &[i64]) -> bool {
    let mut needed = NEEDED_BY_AGENT.iter().chain(further).copied();
    needed.all(|number| allows(filter, u32::try_from(number).unwrap_or(u32::MAX)))
}

/// May the agent begin in `thread`, which stands, whatever filters it has? If that can't be known, it mayn't.
pub(super) fn lets_begin(thread: i32, further: &[i64]) -> bool {
    let Ok(filters) = filters(thread) else { return false };
    !filters.is_empty()
        && filters.iter().all(|filter| {
            let mut needed = NEEDED_TO_BEGIN.into_iter();
            allows_tracing(filter, further)
                && needed.all(|number| allows(filter, u32::try_from(number).unwrap_or(u32::MAX)))
        })
}

/// How many filters a thread has. In the strict mode, it's as if it had as many as can be.
pub(super) fn filters_of(thread: i32) -> u64 {
    match status(thread, "Seccomp:") {
        None | Some(0) => 0,
        Some(1) => u64::MAX,
        // Linux before 5.9 doesn't say how many.
        Some(_) => status(thread, "Seccomp_filters:").unwrap_or(1),
    }
}

/// The filters of a thread that stands.
pub(super) fn filters(thread: i32) -> Result<Vec<Vec<Instruction>>, Errno> {
    let mut found = Vec::new();
    for index in 0..MOST {
        let mut filter = vec![Instruction::default(); LONGEST];
        // SAFETY: there's room for the longest filter there can be.
        let length =
            unsafe { libc::ptrace(PTRACE_SECCOMP_GET_FILTER, thread, index, filter.as_mut_ptr()) };
        match (usize::try_from(length), Errno::last()) {
            (Ok(length), _) => filter.truncate(length),
            (Err(_), Errno::ENOENT) => return Ok(found),
            (Err(_), error) => return Err(error),
        }
        found.push(filter);
    }
    Err(Errno::E2BIG)
}

/// Facts at one point of a filter: where it is, and the two registers and the memory, as far as they're known.
#[derive(Debug, Clone)]
struct State {
    at: usize,
    accumulator: Option<u32>,
    index: Option<u32>,
    memory: [Option<u32>; 16],
}

/// Does `filter` let the system call pass, whatever its arguments are?
pub(super) fn allows(filter: &[Instruction], number: u32) -> bool {
    let first = State { at: 0, accumulator: Some(0), index: Some(0), memory: [Some(0); 16] };
    let mut states = vec![first];
    for _ in 0..STEPS {
        let Some(mut state) = states.pop() else { return true };
        let Some(instruction) = filter.get(state.at).copied() else { return false };
        state.at += 1;
        match instruction.code & 7 {
            5 => branch(instruction, &state, &mut states),
            6 => {
                let result = if instruction.code & 0x18 == 0x10 {
                    state.accumulator
                } else {
                    Some(instruction.value)
                };
                if !result.is_some_and(passes) {
                    return false;
                }
            }
            _ => {
                step(instruction, number, &mut state);
                states.push(state);
            }
        }
    }
    false
}

/// Is the system call made, if a filter says so? `SECCOMP_RET_ALLOW` and `SECCOMP_RET_LOG`.
fn passes(result: u32) -> bool {
    matches!(result >> 16, 0x7fff | 0x7ffc)
}

/// Adds the states that a jump leads to.
fn branch(instruction: Instruction, state: &State, states: &mut Vec<State>) {
    let Instruction { code, if_true, if_false, value } = instruction;
    let to = |distance: usize| State { at: state.at.saturating_add(distance), ..state.clone() };
    if code & 0xf0 == 0 {
        states.push(to(usize::try_from(value).unwrap_or(usize::MAX)));
        return;
    }
    let other = if code & 8 == 0 { Some(value) } else { state.index };
    let is_true = state.accumulator.zip(other).and_then(|(one, other)| match code & 0xf0 {
        0x10 => Some(one == other),
        0x20 => Some(one > other),
        0x30 => Some(one >= other),
        0x40 => Some(one & other != 0),
        _ => None,
    });
    if is_true != Some(false) {
        states.push(to(usize::from(if_true)));
    }
    if is_true != Some(true) {
        states.push(to(usize::from(if_false)));
    }
}

/// Any instruction but jumps and returns.
fn step(instruction: Instruction, number: u32, state: &mut State) {
    let Instruction { code, value, .. } = instruction;
    let cell = usize::try_from(value).unwrap_or(usize::MAX);
    let in_memory = state.memory.get(cell).copied().flatten();
    match code {
        // What the filter is given: number, architecture, then what isn't known.
        0x20 => {
            state.accumulator = match value {
                0 => Some(number),
                4 => Some(ARCHITECTURE),
                _ => None,
            }
        }
        0x80 => state.accumulator = Some(64),
        0x81 => state.index = Some(64),
        0x00 => state.accumulator = Some(value),
        0x01 => state.index = Some(value),
        0x60 => state.accumulator = in_memory,
        0x61 => state.index = in_memory,
        0x02 | 0x03 => {
            if let Some(room) = state.memory.get_mut(cell) {
                *room = if code == 2 { state.accumulator } else { state.index };
            }
        }
        0x07 => state.index = state.accumulator,
        0x87 => state.accumulator = state.index,
        _ => {
            let other = if code & 8 == 0 { Some(value) } else { state.index };
            let both = state.accumulator.zip(other);
            state.accumulator = both.and_then(|(one, other)| compute(code & 0xf0, one, other));
        }
    }
}

fn compute(operation: u16, one: u32, other: u32) -> Option<u32> {
    match operation {
        0x00 => Some(one.wrapping_add(other)),
        0x10 => Some(one.wrapping_sub(other)),
        0x20 => Some(one.wrapping_mul(other)),
        0x30 => one.checked_div(other),
        0x40 => Some(one | other),
        0x50 => Some(one & other),
        0x60 => one.checked_shl(other),
        0x70 => one.checked_shr(other),
        0x80 => Some(one.wrapping_neg()),
        0xa0 => Some(one ^ other),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;

    /// Code, jumps if true and if false, value.
    type Row = (u16, u8, u8, u32);

    fn program(instructions: &[Row]) -> Vec<Instruction> {
        let one = |&(code, if_true, if_false, value): &Row| Instruction {
            code,
            if_true,
            if_false,
            value,
        };
        instructions.iter().map(one).collect()
    }

    #[test]
    fn filters_by_number() {
        let load = (0x20, 0, 0, 0);
        let rows: [(&str, Vec<Row>, bool); 8] = [
            ("all", vec![(6, 0, 0, ALLOW)], true),
            ("logged", vec![(6, 0, 0, 0x7ffc_0000)], true),
            ("none", vec![(6, 0, 0, KILL)], false),
            ("an error", vec![(6, 0, 0, 0x0005_0001)], false),
            ("not 9", vec![load, (0x15, 0, 1, 9), (6, 0, 0, KILL), (6, 0, 0, ALLOW)], false),
            ("only 9", vec![load, (0x15, 1, 0, 9), (6, 0, 0, KILL), (6, 0, 0, ALLOW)], true),
            ("up to 8", vec![load, (0x25, 0, 1, 8), (6, 0, 0, KILL), (6, 0, 0, ALLOW)], false),
            // Another architecture is forbidden.
            (
                "x86-64",
                vec![
                    (0x20, 0, 0, 4),
                    (0x15, 1, 0, ARCHITECTURE),
                    (6, 0, 0, KILL),
                    (6, 0, 0, ALLOW),
                ],
                true,
            ),
        ];
        for (name, instructions, expected) in rows {
            assert_eq!(allows(&program(&instructions), 9), expected, "{name}");
        }
    }

    #[test]
    fn what_depends_on_arguments_has_to_end_well_in_all_ways() {
        let argument = (0x20, 0, 0, 32);
        let both = [argument, (0x45, 0, 1, 4), (6, 0, 0, ALLOW), (6, 0, 0, 0x7ffc_0000)];
        assert!(allows(&program(&both), 9));
        let one = [argument, (0x45, 0, 1, 4), (6, 0, 0, ALLOW), (6, 0, 0, KILL)];
        assert!(!allows(&program(&one), 9));
        // By way of memory and arithmetic: (argument & 0) isn't known to be 0 here, and needn't be.
        let hidden = [argument, (0x54, 0, 0, 7), (2, 0, 0, 3), (0x60, 0, 0, 3), (0x16, 0, 0, 0)];
        assert!(!allows(&program(&hidden), 9));
        let known =
            [(0, 0, 0, 0x7fff), (0x64, 0, 0, 16), (7, 0, 0, 0), (0x87, 0, 0, 0), (0x16, 0, 0, 0)];
        assert!(allows(&program(&known), 9));
    }

    #[test]
    fn what_is_no_filter_allows_nothing() {
        for instructions in [vec![], vec![(0x05, 0, 0, 7)], vec![(0x20, 0, 0, 0)]] {
            assert!(!allows(&program(&instructions), 9), "{instructions:?}");
        }
        // Each argument doubles the ways; it ends all the same.
        let mut long = [(0x20, 0, 0, 32), (0x15, 0, 0, 1)].repeat(100);
        long.push((6, 0, 0, ALLOW));
        assert!(!allows(&program(&long), 9));
    }
}
