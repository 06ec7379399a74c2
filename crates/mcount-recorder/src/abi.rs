//! What `mcount trace` and the agent tell each other, word for word: the one writes it into the memory of the other.
//!
//! Both are compiled from this: the agent has these structures, and the tracer the offsets of their fields. `assembly.rs` compares
//! them with what the assembly has.

/// What the tracer tells the agent before the program runs: it finds it by the symbol `mcount_config`.
#[derive(Debug)]
#[repr(C)]
pub struct Config {
    /// Where the trace file is mapped, shared and writable.
    pub file: *mut u8,
    /// Bytes of that mapping.
    pub length: u64,
    /// Bits of [`flags`].
    pub flags: u64,
    /// Calls with fewer ticks aren't recorded, if the exit that looks at it is used.
    pub shortest: u64,
    /// The address of the exit of calls whose hook is after the prologue.
    pub pg_exit: u64,
    /// How many calls may be nested and recorded at the start of a thread.
    pub budget: u64,
    /// The same beneath a function that has [`class::UNDER`].
    pub depth: u64,
    /// Not 0: nothing is recorded until a function that has [`class::STARTS`] is called, or the tracer says so.
    pub is_paused: u64,
    /// Calls of functions that have [`class::WAITS`] with fewer ticks are only counted.
    pub shortest_wait: u64,
    /// The unwinders of the process, as far as they are known.
    pub unwinders: [Unwinder; config::UNWINDERS_COUNT],
    /// Which events are counted, if [`flags::COUNTERS`] is set.
    pub counters: [Counter; config::COUNTERS_COUNT],
}

impl Config {
    /// Nothing is known yet.
    pub const NONE: Self = Self {
        file: core::ptr::null_mut(),
        length: 0,
        flags: 0,
        shortest: 0,
        pg_exit: 0,
        budget: 0,
        depth: 0,
        is_paused: 0,
        shortest_wait: 0,
        unwinders: [Unwinder::NONE; config::UNWINDERS_COUNT],
        counters: [Counter::NONE; config::COUNTERS_COUNT],
    };
}

// SAFETY: the tracer writes it only while the program stands.
unsafe impl Sync for Config {}

/// An unwinder in the process: the code that calls personality routines, and what it lets them do.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Unwinder {
    /// The first address of its module.
    pub from: u64,
    /// The address behind that module.
    pub to: u64,
    /// The address of `_Unwind_GetIP`.
    pub get_ip: u64,
    /// The address of `_Unwind_SetIP`.
    pub set_ip: u64,
    /// The address of `_Unwind_SetGR`.
    pub set_gr: u64,
    /// The address of `_Unwind_Resume`.
    pub resume: u64,
}

impl Unwinder {
    /// There's none.
    pub const NONE: Self = Self { from: 0, to: 0, get_ip: 0, set_ip: 0, set_gr: 0, resume: 0 };
}

/// An event that's counted: `type` and `config` of `struct perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Its type, plus one; 0: none.
    pub kind: u64,
    /// Which one.
    pub config: u64,
}

impl Counter {
    /// There's none.
    pub const NONE: Self = Self { kind: 0, config: 0 };
}

/// The question of a thread that is going to forbid itself system calls: the tracer finds it by the symbol `mcount_question`.
#[derive(Debug)]
#[repr(C)]
pub struct Question {
    /// The thread that asks, as it knows itself; 0: none.
    pub thread: u64,
    /// 1: nearly everything is forbidden; 2: what a filter says.
    pub mode: u64,
    /// The address of the filter's `struct sock_fprog`.
    pub filter: u64,
    /// An address on the thread's stack.
    pub stack: u64,
    /// How far down the stack goes; 0: nothing is forbidden that the agent needs; [`question::NO_ANSWER`].
    pub answer: u64,
}

/// A system call that the tracer wants to be made, and the result: the tracer finds it by the symbol `mcount_request`.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    /// The number of the system call.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The result of the system call.
    pub result: i64,
}

/// The recipes of a function's arguments and result. The last words of the room for stubs are a table of the addresses of
/// recipes; the very last one is function 1's.
#[derive(Debug)]
#[repr(C)]
pub struct Recipe {
    /// How many words are for the arguments.
    pub arguments: u32,
    /// How many are for the result; and [`recipe::KEPT`].
    pub result: u32,
    /// How many say whether a call is recorded, when it begins; 0: it is.
    pub entry: u32,
    /// The same when it has returned.
    pub exit: u32,
    /// These words, in the order of their numbers.
    pub words: [u64; 0],
}

/// Where the fields of [`Config`] are: bytes from the symbol `mcount_config`.
pub mod config {
    use super::Config;
    use core::mem::offset_of;

    /// [`Config::file`].
    pub const FILE: u64 = offset_of!(Config, file) as u64;
    /// [`Config::length`].
    pub const LENGTH: u64 = offset_of!(Config, length) as u64;
    /// [`Config::flags`].
    pub const FLAGS: u64 = offset_of!(Config, flags) as u64;
    /// [`Config::shortest`].
    pub const SHORTEST: u64 = offset_of!(Config, shortest) as u64;
    /// [`Config::pg_exit`].
    pub const PG_EXIT: u64 = offset_of!(Config, pg_exit) as u64;
    /// [`Config::budget`].
    pub const BUDGET: u64 = offset_of!(Config, budget) as u64;
    /// [`Config::depth`].
    pub const DEPTH: u64 = offset_of!(Config, depth) as u64;
    /// [`Config::is_paused`].
    pub const PAUSED: u64 = offset_of!(Config, is_paused) as u64;
    /// [`Config::shortest_wait`].
    pub const SHORTEST_WAIT: u64 = offset_of!(Config, shortest_wait) as u64;
    /// [`Config::unwinders`].
    pub const UNWINDERS: u64 = offset_of!(Config, unwinders) as u64;
    /// [`Config::counters`].
    pub const COUNTERS: u64 = offset_of!(Config, counters) as u64;
    /// How many counters there is room for.
    pub const COUNTERS_COUNT: usize = 4;
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
    /// So are counters.
    pub const COUNTERS: u64 = 64;
    /// So is where calls return to.
    pub const CALLERS: u64 = 128;
}

/// How many counts there are at the symbol `mcount_short_waits`: how many calls of functions that may wait were too short to
/// be recorded. Functions whose numbers differ by a multiple of this have one in common.
pub const SHORT_WAITS: usize = 256;

/// How many words there are at the symbol `mcount_words`, for a tracer that has attached: by these, calls of library functions
/// go on.
pub const WORDS: usize = 4096;

/// A table of functions that tell of their calls themselves, in the program: the symbol `mcount_instrumented` leads to the last one.
///
/// Its first word is the address of the one before, and its second one how many bits the number of its last place has. A place has two words:
/// the address of a function, 0 if it's free, and what a stub would say of it.
pub mod instrumented {
    /// Bytes before the first place.
    pub const HEAD: u64 = 16;

    /// Bytes of a place.
    pub const PLACE: u64 = 16;

    /// A bit of the second word: the function's calls aren't recorded now.
    pub const IDLE: u64 = 1 << 63;

    /// The first place where the function at this address may be; if it isn't there, it's in one of the next ones, of which the first follows
    /// the last, before one that's free.
    #[inline]
    #[must_use]
    pub const fn place(function: u64, bits: u64) -> u64 {
        function.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & ((1 << bits) - 1)
    }
}

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
    /// A bit besides: the function may wait. Calls of it with fewer ticks than [`Config::shortest_wait`](super::Config) are only
    /// counted.
    pub const WAITS: u32 = 16;
}

pub use mcount_cpu::recipe;

/// Where the fields of [`Question`] are: bytes from the symbol `mcount_question`.
pub mod question {
    use super::Question;
    use core::mem::offset_of;

    /// [`Question::thread`].
    pub const THREAD: u64 = offset_of!(Question, thread) as u64;
    /// [`Question::mode`].
    pub const MODE: u64 = offset_of!(Question, mode) as u64;
    /// [`Question::filter`].
    pub const FILTER: u64 = offset_of!(Question, filter) as u64;
    /// [`Question::stack`].
    pub const STACK: u64 = offset_of!(Question, stack) as u64;
    /// [`Question::answer`].
    pub const ANSWER: u64 = offset_of!(Question, answer) as u64;

    /// An answer: there's no tracer any more.
    pub const NO_ANSWER: u64 = u64::MAX;
}

/// Where the fields of [`Request`] are: bytes from the symbol `mcount_request`.
pub mod request {
    use super::Request;
    use core::mem::offset_of;

    /// [`Request::result`].
    pub const RESULT: u64 = offset_of!(Request, result) as u64;

    /// A number: there is nothing more to do.
    pub const NOTHING: u64 = u64::MAX;
}
