//! Which calls are waiting: those that stand for time off the processor, or, in a trace without these, calls of library
//! functions that wait.

use crate::names::name_of;
use mcount_symbols::waiting::{is_join, is_lock, may_wait};
use mcount_trace::layout::note;
use mcount_trace::layout::off_cpu::GIVEN_UP;
use mcount_trace::{Function, Trace};

/// What a recorder calls time off the processor; there is more behind it if the thread could have gone on.
pub(super) const OFF_CPU: &str = "linux:schedule";

/// Is this the name of a system call, or of a function of the kernel?
pub(super) fn is_of_system(name: &str) -> bool {
    ["linux:", "kernel:"].iter().any(|prefix| {
        // Programs have namespaces that are called so.
        name.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(':'))
    })
}

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

/// What is known of a function by its name and module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It's the program's, or of a library that has no functions which wait.
    Plain,
    /// It's of a library that has functions which wait, and isn't one of them.
    Library,
    /// It waits for another thread that has a lock.
    Lock,
    /// It waits for the end of a thread or process.
    Join,
    /// It waits for something else.
    Wait,
}

impl Role {
    /// Whether it's a library function that waits.
    pub(crate) fn is_wait(self) -> bool {
        matches!(self, Self::Lock | Self::Join | Self::Wait)
    }
}

/// What a trace knows of waiting.
#[derive(Debug)]
pub(crate) struct Waits {
    /// By the place of the function in the trace.
    kinds: Vec<Kind>,
    roles: Vec<Role>,
    /// The trace says when threads were off the processor.
    pub(crate) has_off_cpu: bool,
    /// It has calls of library functions that wait.
    pub(crate) has_library_calls: bool,
}

impl Waits {
    /// What `trace` knows.
    pub(crate) fn of(trace: &Trace<'_>) -> Self {
        let both = trace.functions.iter().map(|one| known(trace, one));
        let (kinds, roles): (Vec<Kind>, Vec<Role>) = both.unzip();
        let lacks_off_cpu = trace.notes.iter().any(|one| one.starts_with(GIVEN_UP.as_bytes()));
        let is_off_cpu = |kind: &Kind| matches!(kind, Kind::OffCpu | Kind::Preempted);
        // Who recorded it was killed, and calls went on being recorded.
        let is_cut = !trace.header.is_finished;
        let has_off_cpu = kinds.iter().any(is_off_cpu) && !lacks_off_cpu && !is_cut;
        let has_library_calls = kinds.contains(&Kind::Waits);
        let mut waits = Self { kinds, roles, has_off_cpu, has_library_calls };
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

    /// What is known of the function with this number.
    pub(crate) fn role(&self, trace: &Trace<'_>, function: u32) -> Role {
        let place = trace.function_index(function).and_then(|at| self.roles.get(at));
        place.copied().unwrap_or(Role::Plain)
    }

    /// Whether library calls were recorded that don't wait, too.
    pub(crate) fn has_all_library_calls(&self) -> bool {
        self.roles.contains(&Role::Library)
    }
}

/// The names of functions whose waits the recorder gave up at some time: they were called too often.
pub(crate) fn given_up(trace: &Trace<'_>) -> Vec<String> {
    let texts = trace.notes.iter().filter_map(|text| {
        let rest = text.strip_prefix(note::WAITS_GIVEN_UP.as_bytes())?;
        Some(String::from_utf8_lossy(rest).split_once(": ")?.1.to_owned())
    });
    let mut names: Vec<String> =
        texts.flat_map(|names| names.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect();
    names.sort();
    names.dedup();
    names
}

/// Beginnings of the file names of libraries that have functions which wait. Without them, a function of the program that's called
/// `poll` or `wait` would be one of these.
const LIBRARIES: [&str; 8] =
    ["libc.", "libc-", "libpthread", "librt", "libanl", "ld-", "libstdc++", "libc++"];

fn known(trace: &Trace<'_>, function: &Function<'_>) -> (Kind, Role) {
    let symbol = String::from_utf8_lossy(function.name);
    match symbol.strip_prefix(OFF_CPU) {
        Some("") => return (Kind::OffCpu, Role::Wait),
        Some(_) => return (Kind::Preempted, Role::Wait),
        None => {}
    }
    let path = trace.module(function.module).map_or(&b""[..], |module| module.path);
    let path = String::from_utf8_lossy(path);
    let file = path.rsplit('/').next().unwrap_or_default();
    // A recorder doesn't always know which library has a function.
    if !(file.is_empty() || LIBRARIES.iter().any(|name| file.starts_with(name))) {
        return (Kind::Runs, Role::Plain);
    }
    // Symbols can have versions.
    let symbol = symbol.split('@').next().unwrap_or_default();
    let name = name_of(symbol, true);
    match (may_wait(&name, symbol), is_lock(&name, symbol), is_join(&name, symbol)) {
        (false, ..) => (Kind::Runs, Role::Library),
        (_, true, _) => (Kind::Waits, Role::Lock),
        (.., true) => (Kind::Waits, Role::Join),
        _ => (Kind::Waits, Role::Wait),
    }
}
