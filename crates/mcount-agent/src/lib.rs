//! The agent as bytes: a shared object that `mcount trace` loads into the programs that it traces.
//!
//! It is built from `agent/` by the build script, for Linux on x86-64 and AArch64 (little endian).
#![no_std]
#![forbid(unsafe_code)]

/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(has_agent)]
pub const IMAGE: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/agent.so")));
/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(not(has_agent))]
pub const IMAGE: Option<&[u8]> = None;

/// Where the fields of the agent's configuration are: bytes from the symbol `mcount_config`.
pub mod config {
    /// Where the trace file is mapped.
    pub const FILE: u64 = 0;
    /// Bytes of that mapping.
    pub const LENGTH: u64 = 8;
    /// Bits of [`super::flags`].
    pub const FLAGS: u64 = 16;
    /// Calls with fewer ticks aren't recorded, if the exit that looks at it is used.
    pub const SHORTEST: u64 = 24;
    /// The address of the exit of calls whose hook is after the prologue.
    pub const PG_EXIT: u64 = 32;
    /// How many calls may be nested and recorded at the start of a thread.
    pub const BUDGET: u64 = 40;
    /// The same beneath a function that has [`super::class::UNDER`].
    pub const DEPTH: u64 = 48;
    /// Not 0: nothing is recorded until a function that has [`super::class::STARTS`] is called.
    pub const PAUSED: u64 = 56;
    /// Calls of functions that have [`super::class::WAITS`] with fewer ticks are only counted.
    pub const SHORTEST_WAIT: u64 = 64;
    /// Unwinders: six words each: first and last address of the module, then the addresses of
    /// `_Unwind_GetIP`, `_Unwind_SetIP`, `_Unwind_SetGR` and `_Unwind_Resume`.
    pub const UNWINDERS: u64 = 72;
    /// How many unwinders there is room for.
    pub const UNWINDERS_COUNT: usize = 8;
}

/// Bits of the configuration's flags.
pub mod flags {
    /// `wrgsbase` may be used.
    pub const FSGSBASE: u64 = 1;
    /// Times are counts of events.
    pub const UNTIMED: u64 = 2;
    /// Only entries are recorded.
    pub const ENTRIES: u64 = 4;
    /// Recording depends on the callers of a call.
    pub const LIMITED: u64 = 8;
    /// The recorder has attached to a program that runs, and will leave it.
    pub const ATTACHED: u64 = 16;
    /// The trace is in memory, where reading from a page maps those around it too.
    pub const IN_MEMORY: u64 = 256;
    /// Arguments or results are recorded.
    pub const VALUES: u64 = 32;
}

/// How many counts there are at the symbol `mcount_short_waits`: how many calls of functions that may wait were too short to
/// be recorded. Functions whose numbers differ by a multiple of this have one in common.
pub const SHORT_WAITS: usize = 256;

/// How many words there are at the symbol `mcount_words`, for a recorder that has attached: by these, calls of library functions
/// go on.
pub const WORDS: u64 = 4096;

/// The role of a function in recording: bits 24 to 31 of its number in a stub.
pub mod class {
    /// Calls beneath it are recorded, and it is, too.
    pub const UNDER: u32 = 1;
    /// Neither it nor what is beneath it is recorded.
    pub const NOT_UNDER: u32 = 2;
    /// Calls beneath it are recorded, and it isn't.
    pub const UNDER_HIDDEN: u32 = 3;
    /// The bits of these.
    pub const NESTING: u32 = 3;
    /// A bit besides: recording starts with its calls.
    pub const STARTS: u32 = 4;
    /// A bit besides: recording stops when it has been called.
    pub const STOPS: u32 = 8;
    /// A bit besides: the function may wait. Calls of it with fewer ticks than [`super::config::SHORTEST_WAIT`] are only
    /// counted.
    pub const WAITS: u32 = 16;
}

/// The recipes of a function's arguments and result: the number of words for each, two u32, then these words.
/// Where it is, is reported by a table of addresses at the end of the room for stubs, of which the last is
/// function 1's.
pub mod recipe {
    /// Copies bits 24 to 31 bytes of a source, bits 8 to 15.
    pub const COPY: u64 = 1;
    /// Copies the text that a source leads to, up to its zero.
    pub const TEXT: u64 = 2;
    /// Copies the text that a source leads to, of the length that the source in bits 16 to 23 has.
    pub const COUNTED: u64 = 3;
    /// The same where the source leads to pointer and length.
    pub const STRING: u64 = 4;
    /// Copies bits 24 to 31 bytes of the memory that a source leads to.
    pub const MEMORY: u64 = 5;

    /// Sources: %rdi, %rsi, %rdx, %rcx, %r8 and %r9 are 0 to 5.
    pub const GENERAL: u64 = 0;
    /// %xmm0 to %xmm7.
    pub const VECTOR: u64 = 8;
    /// %rax, at the exit.
    pub const RAX: u64 = 16;
    /// %rdx, at the exit.
    pub const RDX: u64 = 17;
    /// The top of the x87 stack.
    pub const X87: u64 = 18;
    /// The stack above the return address, that many bytes as bits 32 to 47 say; of lengths, bits 48 to 63.
    pub const STACK: u64 = 19;
    /// Where a result in memory goes, as a register said at the entry that functions don't keep (AArch64).
    pub const PLACE: u64 = 20;

    /// A bit of the second number of a recipe: the function's calls are recorded however short they are.
    pub const KEPT: u32 = 1 << 31;

    /// The most bytes of values that are recorded of a call.
    pub const MOST: usize = 492;
    /// The most bytes of a text.
    pub const TEXT_MOST: usize = 64;
}

/// The question of a thread that is going to forbid itself system calls: bytes from the symbol
/// `mcount_question`.
pub mod question {
    /// The thread that asks, as it knows itself; 0: none.
    pub const THREAD: u64 = 0;
    /// 1: nearly everything is forbidden; 2: what a filter says.
    pub const MODE: u64 = 8;
    /// The address of the filter's `struct sock_fprog`.
    pub const FILTER: u64 = 16;
    /// An address on the thread's stack.
    pub const STACK: u64 = 24;
    /// How far down the stack goes; 0: nothing is forbidden that the agent needs.
    pub const ANSWER: u64 = 32;
}

/// Where the fields of a request are: bytes from the symbol `mcount_request`. Its first word is the number of the
/// system call, then come six arguments.
pub mod request {
    /// The result of the system call.
    pub const RESULT: u64 = 56;
}
