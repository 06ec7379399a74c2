//! Which calls are waiting: those that stand for time off the processor, or, in a trace without these, calls of library
//! functions that wait.

use crate::names::name_of;
use mcount_symbols::waiting::may_wait;
use mcount_trace::layout::off_cpu::GIVEN_UP;
use mcount_trace::{Function, Trace};

/// What a recorder calls time off the processor; there is more behind it if the thread could have gone on.
pub(super) const OFF_CPU: &str = "linux:schedule";

/// What the time in a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The thread runs, as far as the trace knows.
    Runs,
    /// A library function that waits, in a trace that doesn't know when threads were off the processor.
    Waits,
    /// The thread is off the processor: its caller waits.
    OffCpu,
    /// Another thread has the processor.
    Preempted,
}

/// What a trace knows of waiting.
#[derive(Debug)]
pub(crate) struct Waits {
    /// By the place of the function in the trace.
    kinds: Vec<Kind>,
    /// The trace says when threads were off the processor.
    pub(crate) has_off_cpu: bool,
    /// It has calls of library functions that wait.
    pub(crate) has_library_calls: bool,
}

impl Waits {
    /// What `trace` knows.
    pub(crate) fn of(trace: &Trace<'_>) -> Self {
        let kinds: Vec<Kind> = trace.functions.iter().map(|one| kind(trace, one)).collect();
        let is_given_up = trace.notes.iter().any(|note| note.starts_with(GIVEN_UP.as_bytes()));
        let is_off_cpu = |kind: &Kind| matches!(kind, Kind::OffCpu | Kind::Preempted);
        let has_off_cpu = !is_given_up && kinds.iter().any(is_off_cpu);
        let has_library_calls = kinds.contains(&Kind::Waits);
        let mut waits = Self { kinds, has_off_cpu, has_library_calls };
        if has_off_cpu {
            // The kernel knows better when these waited.
            for kind in waits.kinds.iter_mut().filter(|kind| **kind == Kind::Waits) {
                *kind = Kind::Runs;
            }
        }
        waits
    }

    /// Whether the trace tells waiting from running.
    pub(crate) fn is_known(&self) -> bool {
        self.has_off_cpu || self.has_library_calls
    }

    /// What the time in the function with this number is.
    #[inline]
    pub(crate) fn kind(&self, trace: &Trace<'_>, function: u32) -> Kind {
        let place = trace.function_index(function).and_then(|at| self.kinds.get(at));
        place.copied().unwrap_or(Kind::Runs)
    }
}

/// Beginnings of the file names of libraries that have functions which wait. Without them, a function of the program that's called
/// `poll` or `wait` would be one of these.
const LIBRARIES: [&str; 8] =
    ["libc.", "libc-", "libpthread", "librt", "libanl", "ld-", "libstdc++", "libc++"];

fn kind(trace: &Trace<'_>, function: &Function<'_>) -> Kind {
    let symbol = String::from_utf8_lossy(function.name);
    match symbol.strip_prefix(OFF_CPU) {
        Some("") => return Kind::OffCpu,
        Some(_) => return Kind::Preempted,
        None => {}
    }
    let path = trace.module(function.module).map_or(&b""[..], |module| module.path);
    let path = String::from_utf8_lossy(path);
    let file = path.rsplit('/').next().unwrap_or_default();
    // A recorder doesn't always know which library has a function.
    let is_library = file.is_empty() || LIBRARIES.iter().any(|name| file.starts_with(name));
    // Symbols can have versions.
    let symbol = symbol.split('@').next().unwrap_or_default();
    if is_library && may_wait(&name_of(symbol, true), symbol) { Kind::Waits } else { Kind::Runs }
}
