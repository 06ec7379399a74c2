//! Which calls are recorded, and what of each.

use super::agent::Kind;
use super::counters::{self, CounterName};
use super::function_names::FunctionNames;
use super::given::GivenSignature;
use super::processor::{LIBRARY_CALLS, PROBES, VALUES, missing};
use super::waits;
use crate::pattern::Pattern;
use globset::GlobMatcher;
use mcount_agent::{class, flags};
use mcount_trace::condition::Condition;
use nix::libc;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;

/// A function with which what is recorded changes for the calls beneath it.
#[derive(Debug, Clone)]
pub struct Limit {
    /// Which functions.
    pub pattern: Pattern,
    /// Calls beneath it are recorded; if not, they aren't.
    pub is_recorded: bool,
}

/// Source files: a glob of their paths, as debug information has them, or of their names.
#[derive(Debug, Clone)]
pub struct FileGlob {
    text: String,
    matcher: GlobMatcher,
}

impl FileGlob {
    /// Reads a glob.
    ///
    /// # Errors
    ///
    /// It's malformed; the text says how.
    pub fn new(text: &str) -> Result<Self, String> {
        let glob = mcount::Glob::new(text).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }
}

/// Whether it's recorded when threads are off the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switches {
    /// It isn't.
    No,
    /// If the system allows it, and it costs little.
    IfPossible,
    /// It is, or it's said why not.
    Wanted,
}

/// How much is recorded of what arguments and results lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// How many pointers are followed, one in the other, and how many lists; 0: none of both.
    pub depth: u32,
    /// The most bytes of each text, list and structure.
    pub size: u8,
}

impl Reach {
    /// The most pointers that are followed, one in the other.
    pub const DEEPEST: u32 = 4;
}

impl Default for Reach {
    fn default() -> Self {
        Self { depth: 1, size: 64 }
    }
}

/// Patterns that mean a function which was seen; none at first.
#[derive(Debug, Clone, Default)]
pub struct Known(RefCell<BTreeSet<String>>);

/// Which calls are recorded, and what of each.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "options of the command line")]
pub struct Scope {
    /// Only these functions, unless empty.
    pub filter: Vec<Pattern>,
    /// Only functions of these source files, unless empty.
    pub files: Vec<FileGlob>,
    /// Only functions with so many bytes of code.
    pub sizes: RangeInclusive<u64>,
    /// Make hooks in these functions if they have none.
    pub probe: Vec<Pattern>,
    /// Record these markers of `<sys/sdt.h>`: `provider:name`.
    pub mark: Vec<Pattern>,
    /// Not these functions.
    pub exclude: Vec<Pattern>,
    /// Calls of these functions that leave a module, too.
    pub library: Vec<Pattern>,
    /// Calls that leave a module of library functions that may wait, if they take a while.
    pub waits: bool,
    /// Calls that leave a module are recorded only beneath the functions that were chosen.
    pub confines_waits: bool,
    /// Only beneath some functions, or not beneath others; the last that matches counts.
    pub limits: Vec<Limit>,
    /// Recording starts when one of these is called.
    pub start_at: Vec<Pattern>,
    /// Recording stops when one of these has been called.
    pub stop_at: Vec<Pattern>,
    /// Record the arguments of these functions.
    pub arguments: Vec<Pattern>,
    /// Record the results of these functions.
    pub results: Vec<Pattern>,
    /// How much of these is recorded.
    pub reach: Reach,
    /// Calls of these functions are recorded only if all of these hold that have the values for it.
    pub conditions: Vec<Condition>,
    /// What the arguments and results of functions are, whatever debug information says.
    pub signatures: Vec<GivenSignature>,
    /// How many calls, one in the other; [`Scope::ANY_DEPTH`] if that doesn't matter.
    pub depth: u64,
    /// Calls that took at least that many nanoseconds.
    pub min_duration: u64,
    /// Only entries.
    pub entries: bool,
    /// Without times.
    pub untimed: bool,
    /// Where calls return to, too.
    pub callers: bool,
    /// When threads were off the processor.
    pub switches: Switches,
    /// System calls.
    pub system_calls: bool,
    /// Functions of the kernel, by its own globs; those that begin with `!` say which aren't meant. Needs system calls.
    pub kernel: Vec<String>,
    /// How many calls of these, one in the other.
    pub kernel_depth: u32,
    /// Which events of the processor are counted.
    pub counters: Vec<CounterName>,
    /// Events of the kernel: its tracepoints, as `subsystem:name`, and page faults.
    pub events: Vec<Pattern>,
    /// Patterns that mean a function which was seen.
    pub known: Known,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            filter: Vec::new(),
            files: Vec::new(),
            sizes: Self::ANY_SIZE,
            probe: Vec::new(),
            mark: Vec::new(),
            exclude: Vec::new(),
            library: Vec::new(),
            waits: false,
            confines_waits: false,
            limits: Vec::new(),
            start_at: Vec::new(),
            stop_at: Vec::new(),
            arguments: Vec::new(),
            results: Vec::new(),
            reach: Reach::default(),
            conditions: Vec::new(),
            signatures: Vec::new(),
            depth: Self::ANY_DEPTH,
            min_duration: 0,
            entries: false,
            untimed: false,
            callers: false,
            switches: Switches::No,
            system_calls: false,
            kernel: Vec::new(),
            kernel_depth: u32::MAX,
            counters: Vec::new(),
            events: Vec::new(),
            known: Known::default(),
        }
    }
}

impl Scope {
    /// Calls of any depth: more than any stack has room for.
    pub const ANY_DEPTH: u64 = 1 << 30;

    /// Functions of any size, known or not.
    pub const ANY_SIZE: RangeInclusive<u64> = 0..=u64::MAX;

    /// Can what is asked for be recorded on this processor?
    ///
    /// # Errors
    ///
    /// Something can't.
    pub(super) fn check(&self) -> io::Result<()> {
        let has_markers = PROBES.is_some_and(|probes| probes.has_markers);
        let wanted = [
            (!self.probe.is_empty(), PROBES.is_some(), "probes"),
            (!self.mark.is_empty(), has_markers, "markers of <sys/sdt.h>"),
            (self.has_values(), VALUES.is_some(), "arguments and results"),
            (!self.library.is_empty(), LIBRARY_CALLS.is_some(), "calls of library functions"),
        ];
        match wanted.into_iter().find(|(is_wanted, is_there, _)| *is_wanted && !is_there) {
            Some((.., what)) => Err(io::Error::other(missing(what))),
            None => counters::check(&self.counters),
        }
    }

    /// Does the kernel tell of what the program does, hooks or not?
    pub(super) fn has_kernel(&self) -> bool {
        self.system_calls || !self.events.is_empty()
    }

    fn is_limited(&self) -> bool {
        self.depth != Self::ANY_DEPTH
            || !self.limits.is_empty()
            || self.has_triggers()
            || self.confines_waits
    }

    /// If some functions are chosen, and nothing else is asked for, waits elsewhere aren't recorded.
    pub fn confine_waits(&mut self) {
        let is_chosen =
            !self.filter.is_empty() || !self.files.is_empty() || self.sizes != Self::ANY_SIZE;
        self.confines_waits =
            is_chosen && self.has_waits() && self.library.is_empty() && !self.is_limited();
    }

    fn has_triggers(&self) -> bool {
        !(self.start_at.is_empty() && self.stop_at.is_empty())
    }

    /// Is nothing recorded before something happens?
    pub(super) fn is_paused(&self) -> bool {
        !self.start_at.is_empty()
    }

    /// Does it say more than which functions?
    pub(super) fn is_more_than_patterns(&self) -> bool {
        self.is_limited()
            || self.has_values()
            || !self.counters.is_empty()
            || self.min_duration != 0
            || self.sizes != Self::ANY_SIZE
            || self.entries
            || self.untimed
            || self.switches == Switches::Wanted
            || self.has_kernel()
            || !self.library.is_empty()
            || !self.mark.is_empty()
    }

    /// The role of a function that sets markers, if otherwise it were `class`: it's recorded wherever it's
    /// called.
    pub(super) fn class_of_marks(&self, class: u32) -> u32 {
        if self.is_limited() { class & !class::NESTING | class::UNDER } else { class }
    }

    /// Are functions, calls or places wanted that get a hook only if they're asked for?
    pub(super) fn makes_hooks(&self) -> bool {
        !(self.probe.is_empty() && self.mark.is_empty() && self.library.is_empty())
    }

    /// Does it matter what functions are called?
    pub(super) fn has_patterns(&self) -> bool {
        let all = [self.filter.is_empty(), self.exclude.is_empty(), self.limits.is_empty()];
        all.contains(&false)
            || !self.files.is_empty()
            || self.has_triggers()
            || self.sizes != Self::ANY_SIZE
    }

    /// Is a function wanted that has so many bytes of code, or 0 if that isn't known?
    pub(super) fn has_size(&self, size: u64) -> bool {
        self.sizes == Self::ANY_SIZE || size != 0 && self.sizes.contains(&size)
    }

    /// Are arguments or results recorded?
    pub(super) fn has_values(&self) -> bool {
        !(self.arguments.is_empty() && self.results.is_empty())
    }

    /// The system calls that the agent makes only for what is recorded of calls.
    pub(super) fn further_system_calls(&self) -> Vec<i64> {
        let of_counters = [libc::SYS_perf_event_open, libc::SYS_close];
        let of_counters = of_counters.iter().filter(|_| !self.counters.is_empty());
        let of_values = self.has_values().then_some(libc::SYS_process_vm_readv);
        of_counters.copied().chain(of_values).collect()
    }

    /// Whether arguments and result of this function are recorded.
    pub(super) fn values(&self, of: &FunctionNames<'_>) -> (bool, bool) {
        (self.matches(&self.arguments, of), self.matches(&self.results, of))
    }

    /// The signature that's given for this function. Of several, the last one counts.
    pub(super) fn signature(&self, of: &FunctionNames<'_>) -> Option<&GivenSignature> {
        self.signatures.iter().rev().find(|one| of.are_meant_by(&one.pattern))
    }

    /// Does one of `patterns` mean this function? All of them are looked at: each is to be known as one that means
    /// something.
    fn matches(&self, patterns: &[Pattern], of: &FunctionNames<'_>) -> bool {
        self.find(patterns, of).is_some()
    }

    /// The symbol by which the first of `patterns` means this function that does. All of them are looked at, as above.
    fn find<'n>(&self, patterns: &[Pattern], of: &FunctionNames<'n>) -> Option<&'n str> {
        let found = patterns.iter().filter_map(|one| Some((one.text(), of.meant_by(one)?)));
        let found: Vec<_> = found.collect();
        self.known.0.borrow_mut().extend(found.iter().map(|(text, _)| (*text).to_owned()));
        found.first().map(|(_, symbol)| *symbol)
    }

    /// Is this function to get a hook? The name that says so.
    pub(super) fn probes<'n>(&self, of: &FunctionNames<'n>) -> Option<&'n str> {
        self.find(&self.probe, of)
    }

    /// The name by which `--filter` means this function, if it does.
    pub(super) fn filters<'n>(&self, of: &FunctionNames<'n>) -> Option<&'n str> {
        self.find(&self.filter, of)
    }

    /// Is the marker with this name, `provider:name`, recorded?
    pub(super) fn marks(&self, name: &str, module: &str) -> bool {
        let found = self.mark.iter().filter(|one| one.is_match(name, name, module));
        let found: Vec<String> = found.map(|one| known_mark(one.text())).collect();
        let is_found = !found.is_empty();
        self.known.0.borrow_mut().extend(found);
        is_found
    }

    /// The kind of routines that record it.
    pub(super) fn kind(&self) -> Kind {
        match (self.entries, self.untimed) {
            (true, true) => Kind::UntimedEntries,
            (true, false) => Kind::Entries,
            _ if self.is_limited() => Kind::Limited,
            _ if self.min_duration != 0 => Kind::Long,
            (false, true) => Kind::Untimed,
            _ if self.callers => Kind::Callers,
            (false, false) => Kind::Calls,
        }
    }

    /// Does it take the returns of calls to know what is recorded?
    pub(super) fn needs_returns(&self) -> bool {
        self.is_limited() || self.min_duration != 0
    }

    /// The flags of the agent's configuration.
    pub(super) fn flags(&self) -> u64 {
        let all = [
            (self.untimed, flags::UNTIMED),
            (self.entries, flags::ENTRIES),
            (self.is_limited(), flags::LIMITED),
            (self.callers, flags::CALLERS),
            (!self.counters.is_empty(), flags::COUNTERS),
        ];
        all.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag)
    }

    /// How many calls, one in the other, are recorded from the start of a thread on.
    pub(super) fn budget(&self) -> u64 {
        let is_beneath = self.confines_waits || self.limits.iter().any(|limit| limit.is_recorded);
        if is_beneath { 0 } else { self.depth }
    }

    /// Is the function one of those that aren't to be traced?
    pub(super) fn leaves_out(&self, of: &FunctionNames<'_>) -> bool {
        self.matches(&self.exclude, of)
    }

    /// Whether the function is to be armed, and what it is for those beneath it. `is_fit`: by its file and its size, it's
    /// wanted.
    pub(super) fn choose(&self, of: &FunctionNames<'_>, is_fit: bool) -> (bool, u32) {
        let (is_in, is_out) = (self.matches(&self.filter, of), self.matches(&self.exclude, of));
        let is_wanted = (self.filter.is_empty() || is_in) && is_fit && !is_out;
        let class = self.class(of, is_wanted);
        let is_root = self.confines_waits && is_wanted;
        let class = if is_root { class & !class::NESTING | class::UNDER } else { class };
        (is_wanted || class != 0, class)
    }

    /// The role of a function for those beneath it, which is itself recorded if `is_wanted`.
    fn class(&self, of: &FunctionNames<'_>, is_wanted: bool) -> u32 {
        let limit = self.limits.iter().rev();
        let limit = limit.filter(|limit| self.matches(std::slice::from_ref(&limit.pattern), of));
        // All of them are looked at here, too.
        let limit = limit.fold(None, |last, limit| last.or(Some(limit)));
        let class = match limit.map(|limit| limit.is_recorded) {
            None => 0,
            Some(false) => class::NOT_UNDER,
            Some(true) if is_wanted => class::UNDER,
            Some(true) => class::UNDER_HIDDEN,
        };
        let starts = if self.matches(&self.start_at, of) { class::STARTS } else { 0 };
        let stops = if self.matches(&self.stop_at, of) { class::STOPS } else { 0 };
        class | starts | stops
    }

    /// Are calls of library functions recorded that wait? How long they take has to be seen.
    pub(super) fn has_waits(&self) -> bool {
        self.waits && !self.entries && !self.untimed && LIBRARY_CALLS.is_some()
    }

    /// Are calls of library functions recorded?
    pub(super) fn has_library(&self) -> bool {
        self.has_waits() || !self.library.is_empty()
    }

    /// The role of a library function for those beneath it, if its calls are recorded.
    pub(super) fn choose_library(&self, symbol: &str, module: &str) -> Option<u32> {
        let of = FunctionNames::new([symbol], module);
        let found = self.library.iter().filter(|one| of.are_meant_by(one));
        let found: Vec<String> = found.map(|one| known_library(one.text())).collect();
        let may_wait = || waits::may_wait(&crate::names::name_of(symbol, true), symbol);
        let is_wait = found.is_empty() && self.has_waits() && may_wait();
        if found.is_empty() && !is_wait || self.leaves_out(&of) {
            return None;
        }
        self.known.0.borrow_mut().extend(found);
        let waits = if is_wait { class::WAITS } else { 0 };
        Some(self.class(&of, true) | waits)
    }

    /// Is this one of the source files that are wanted?
    pub(super) fn has_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_it = |one: &&FileGlob| one.matcher.is_match(path) || one.matcher.is_match(name);
        let found: Vec<&FileGlob> = self.files.iter().filter(is_it).collect();
        self.known.0.borrow_mut().extend(found.iter().map(|one| known_file(&one.text)));
        !found.is_empty()
    }

    /// Patterns of which one has to mean a function, or nothing is recorded; empty if one does. `is_filtered`: those of `--filter`
    /// are among them.
    pub(super) fn unmet(&self, is_filtered: bool) -> Vec<&str> {
        let under = self.limits.iter().filter(|limit| limit.is_recorded);
        let filter = if is_filtered { self.filter.as_slice() } else { &[] };
        let groups: [Vec<&str>; 3] = [
            filter.iter().map(Pattern::text).collect(),
            self.start_at.iter().map(Pattern::text).collect(),
            under.map(|limit| limit.pattern.text()).collect(),
        ];
        let known = self.known.0.borrow();
        let is_met = |group: &Vec<&str>| group.iter().any(|text| known.contains(*text));
        groups.into_iter().filter(|group| !is_met(group)).flatten().collect()
    }

    /// The messages about patterns that match nothing.
    pub(super) fn warnings(&self) -> Vec<String> {
        let functions = self.unknown().into_iter();
        let functions = functions.map(|text| format!("warning: no function matches {text}"));
        let known = self.known.0.borrow();
        let files = self.files.iter().filter(|one| !known.contains(&known_file(&one.text)));
        let files =
            files.map(|one| format!("warning: no function is in a file that matches {}", one.text));
        let conditions = self.conditions.iter().map(Condition::text);
        let conditions = conditions.filter(|text| !known.contains(&known_condition(text)));
        let conditions = conditions.map(|text| {
            format!("warning: --if '{text}': no function of --args and --results has such values")
        });
        let library = self.library.iter().map(Pattern::text);
        let library = library.filter(|text| !known.contains(&known_library(text)));
        let library = library.map(|text| format!("warning: no library function matches {text}"));
        let marks = self.mark.iter().map(Pattern::text);
        let marks = marks.filter(|text| !known.contains(&known_mark(text)));
        let marks = marks.map(|text| format!("warning: no marker matches {text}"));
        functions.chain(files).chain(library).chain(conditions).chain(marks).collect()
    }

    /// A condition is about a function that was seen.
    pub(super) fn meets(&self, condition: &Condition) {
        self.known.0.borrow_mut().insert(known_condition(condition.text()));
    }

    /// The patterns that mean no function that was seen.
    fn unknown(&self) -> Vec<&str> {
        let limits = self.limits.iter().map(|limit| &limit.pattern);
        let values = self.arguments.iter().chain(&self.results);
        let values = values.chain(&self.start_at).chain(&self.stop_at);
        let all = self.filter.iter().chain(&self.exclude).chain(&self.probe);
        let all = all.chain(limits).chain(values);
        let known = self.known.0.borrow();
        all.map(Pattern::text).filter(|text| !known.contains(*text)).collect()
    }
}

/// How it's kept in mind that a glob of source files means something.
fn known_file(text: &str) -> String {
    format!("file {text}")
}

/// The same of a condition.
fn known_condition(text: &str) -> String {
    format!("condition {text}")
}

/// The same of a pattern of markers.
fn known_mark(text: &str) -> String {
    format!("marker {text}")
}

/// The same of a pattern of library functions, which may mean nothing as one of others.
fn known_library(text: &str) -> String {
    format!("library {text}")
}
