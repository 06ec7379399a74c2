//! Which calls of a trace are printed.

use super::Names;
use super::progress::Progress;
use super::values::{Recorded, is_failure};
use crate::pattern::Pattern;
use mcount_trace::condition::Condition;
use mcount_trace::{Call, Function, Slice, Trace};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

/// Which calls are wanted: those that all of these say.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Calls of these functions.
    pub functions: Vec<Pattern>,
    /// Calls made by these functions.
    pub callers: Vec<Pattern>,
    /// Calls of functions of these modules.
    pub modules: Vec<Pattern>,
    /// No calls of these functions: what they called counts as called by their callers.
    pub hidden: Vec<Pattern>,
    /// Calls of functions with so many bytes of code, at least and at most.
    pub sizes: RangeInclusive<u64>,
    /// Calls that returned an error.
    pub only_failed: bool,
    /// Calls for whose values these hold.
    pub conditions: Vec<Condition>,
    /// Calls of threads with these IDs or names.
    pub threads: Vec<Pattern>,
    /// Calls that took at least that many nanoseconds, or had not returned.
    pub min_duration: u64,
    /// Calls that fewer calls enclose.
    pub depth: Option<usize>,
    /// Calls that began that many nanoseconds after the trace, or later.
    pub from: u64,
    /// Calls that began before this time.
    pub to: Option<u64>,
}

/// Any size, known or not.
const ANY_SIZE: RangeInclusive<u64> = 0..=u64::MAX;

impl Default for Selection {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            callers: Vec::new(),
            modules: Vec::new(),
            hidden: Vec::new(),
            sizes: ANY_SIZE,
            only_failed: false,
            conditions: Vec::new(),
            threads: Vec::new(),
            min_duration: 0,
            depth: None,
            from: 0,
            to: None,
        }
    }
}

impl Selection {
    /// Hides in `trace` what's to be hidden.
    pub fn hide(&self, trace: &mut Trace<'_>) {
        if self.hidden.is_empty() {
            return;
        }
        let names = Names::new(trace);
        let is_hidden =
            |number: &u32| self.hidden.iter().any(|one| is_function(one, &names, *number));
        let numbers = trace.functions.iter().map(|function| function.number);
        let hidden: Vec<u32> = numbers.filter(is_hidden).collect();
        trace.hide(hidden);
    }

    /// The patterns that nothing of the trace is meant by, each with what it should have meant: a function, module or thread.
    #[must_use]
    pub fn unknown(&self, trace: &Trace<'_>) -> Vec<(&'static str, &str)> {
        let names = Names::new(trace);
        let functions = [
            ("function", &self.functions),
            ("function", &self.callers),
            ("module", &self.modules),
            ("function", &self.hidden),
        ];
        let threads = self.threads.iter().filter(|pattern| {
            !(0..trace.threads.len()).any(|thread| is_thread(pattern, trace, thread))
        });
        functions
            .into_iter()
            .flat_map(|(what, patterns)| patterns.iter().map(move |pattern| (what, pattern)))
            .filter(|(_, pattern)| {
                let is_it = |one: &Function<'_>| is_function(pattern, &names, one.number);
                !trace.functions.iter().any(is_it)
            })
            .chain(threads.map(|pattern| ("thread", pattern)))
            .map(|(what, pattern)| (what, pattern.text()))
            .collect()
    }

    /// The names in conditions that no function of the trace has a value of.
    #[must_use]
    pub fn unknown_values(&self, trace: &Trace<'_>) -> Vec<&str> {
        let names = self.conditions.iter().flat_map(|condition| condition.root.names());
        let mut unknown: Vec<&str> = names.filter(|name| !trace.has_value(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Whether calls are wanted together with all that they're called by: it's a matter of threads and times alone.
    #[must_use]
    pub fn has_whole_paths(&self) -> bool {
        self.functions.is_empty()
            && self.callers.is_empty()
            && self.modules.is_empty()
            && self.hidden.is_empty()
            && self.sizes == ANY_SIZE
            && !self.only_failed
            && self.conditions.is_empty()
            && self.min_duration == 0
            && self.depth.is_none()
    }

    /// Is a function meant that has so many bytes, or 0 if that isn't known?
    fn has_size(&self, size: u64) -> bool {
        self.sizes == ANY_SIZE || size != 0 && self.sizes.contains(&size)
    }

    /// The calls for whose values the conditions hold.
    fn matching(&self, trace: &Trace<'_>) -> Matching {
        let is_wanted = |at: &usize| {
            self.threads.is_empty() || self.threads.iter().any(|one| is_thread(one, trace, *at))
        };
        // Arguments are found in the order of starts.
        let of_thread = |at: usize| {
            let (mut found, mut recorded) = (Matching::default(), Recorded::of(trace));
            for call in trace.thread_calls(at).into_iter().flatten() {
                let arguments = recorded.arguments(&call).unwrap_or_default();
                let result = recorded.result(&call);
                let holds = |one: &Condition| one.holds(&arguments, result.as_ref());
                if self.conditions.iter().all(holds) {
                    found.add(&call);
                }
            }
            found
        };
        let threads: Vec<usize> = (0..trace.threads.len()).filter(is_wanted).collect();
        threads.into_par_iter().map(of_thread).reduce(Matching::default, Matching::merge)
    }

    /// Its meaning in a trace.
    #[must_use]
    pub(crate) fn filter<'s>(&self, trace: &'s Trace<'s>) -> Filter<'s> {
        let names = Names::new(trace);
        let is_everything =
            self.functions.is_empty() && self.modules.is_empty() && self.sizes == ANY_SIZE;
        let by_function = chosen(&self.functions, &names);
        let by_module = chosen(&self.modules, &names);
        let both = by_function.into_iter().zip(by_module).map(|(one, other)| one && other);
        let sizes = trace.functions.iter().map(|function| function.size);
        let all = both.zip(sizes).map(|(is_meant, size)| is_meant && self.has_size(size));
        let threads = (0..trace.threads.len()).map(|at| {
            self.threads.is_empty() || self.threads.iter().any(|one| is_thread(one, trace, at))
        });
        Filter {
            trace,
            threads: threads.collect(),
            functions: (!is_everything).then(|| all.collect()),
            callers: (!self.callers.is_empty()).then(|| chosen(&self.callers, &names)),
            min_duration: self.min_duration,
            depth: self.depth.unwrap_or(usize::MAX),
            from: self.from,
            to: self.to,
            matching: (!self.conditions.is_empty()).then(|| self.matching(trace)),
            results: self.only_failed.then(|| Recorded::of(trace)),
            is_all: is_everything
                && self.callers.is_empty()
                && !self.only_failed
                && self.conditions.is_empty()
                && self.depth.is_none()
                && (self.min_duration, self.from, self.to) == (0, 0, None),
        }
    }
}

/// Of each function of a trace, whether one of `patterns` means it. Without patterns, all are meant.
fn chosen(patterns: &[Pattern], names: &Names<'_, '_>) -> Vec<bool> {
    let numbers = names.trace.functions.iter().map(|function| function.number);
    let chosen = numbers.map(|number| {
        patterns.is_empty() || patterns.iter().any(|one| is_function(one, names, number))
    });
    chosen.collect()
}

/// Whether `pattern` means the function with this number.
pub(super) fn is_function(pattern: &Pattern, names: &Names<'_, '_>, number: u32) -> bool {
    let symbol = names.trace.function(number).map_or(&b""[..], |function| function.name);
    let name = names.function(number);
    pattern.is_match(&name.text, &String::from_utf8_lossy(symbol), &name.module)
}

fn is_thread(pattern: &Pattern, trace: &Trace<'_>, at: usize) -> bool {
    trace.threads.get(at).is_some_and(|thread| {
        let name = String::from_utf8_lossy(thread.name);
        pattern.is_match(&thread.tid.to_string(), &name, "")
    })
}

/// Some calls of a trace: bits, by where they were recorded.
#[derive(Debug, Default)]
struct Matching(HashMap<u64, u64>);

impl Matching {
    fn place(call: &Call) -> (u64, u64) {
        let number = call.number();
        (number / 64, 1 << (number % 64))
    }

    fn add(&mut self, call: &Call) {
        let (word, bit) = Self::place(call);
        *self.0.entry(word).or_default() |= bit;
    }

    fn merge(mut self, other: Self) -> Self {
        for (word, bits) in other.0 {
            *self.0.entry(word).or_default() |= bits;
        }
        self
    }

    fn has(&self, call: &Call) -> bool {
        let (word, bit) = Self::place(call);
        self.0.get(&word).is_some_and(|bits| bits & bit != 0)
    }
}

/// A selection, of one trace.
pub(crate) struct Filter<'s> {
    trace: &'s Trace<'s>,
    threads: Vec<bool>,
    /// For each function of the trace, if not all are wanted.
    functions: Option<Vec<bool>>,
    callers: Option<Vec<bool>>,
    min_duration: u64,
    depth: usize,
    from: u64,
    to: Option<u64>,
    /// The calls for whose values the conditions hold, if there are any.
    matching: Option<Matching>,
    /// The results of calls, if only some are wanted.
    results: Option<Recorded<'s>>,
    /// All calls of these threads are wanted.
    is_all: bool,
}

impl Filter<'_> {
    /// The calls that are wanted, by start.
    pub(super) fn calls<'p>(
        &'p self,
        progress: &'p Progress<'_>,
    ) -> impl Iterator<Item = Call> + 'p {
        let calls = self.trace.calls_from(self.from, |at| self.has_thread(at));
        self.wanted(progress.over(calls))
    }

    /// Slices of time with about `size` calls each, which have all calls that are wanted.
    pub(super) fn slices(&self, size: u64) -> Vec<Slice> {
        self.trace.slices(size, (self.from, self.to), |at| self.has_thread(at))
    }

    /// How many threads have calls that may be wanted. The trace has a thread twice if its thread-local storage came to
    /// another place, as it does while a static program starts.
    pub(super) fn threads(&self) -> usize {
        let is_wanted = |at: &usize| self.has_thread(*at) && self.trace.count(*at) > 0;
        let wanted = (0..self.threads.len()).filter(is_wanted);
        let same = wanted.filter_map(|at| {
            let thread = self.trace.threads.get(at)?;
            Some((thread.pid, thread.tid, thread.start))
        });
        same.collect::<HashSet<_>>().len()
    }

    /// The calls of a slice that are wanted, by start.
    pub(super) fn calls_within(&self, slice: Slice) -> impl Iterator<Item = Call> {
        self.wanted(self.trace.calls_within(slice, |at| self.has_thread(at)))
    }

    /// The calls of a thread that are wanted, by start.
    pub(super) fn calls_of_thread(&self, thread: usize) -> impl Iterator<Item = Call> {
        let calls = self.trace.thread_calls(thread).filter(|_| self.has_thread(thread));
        self.wanted(calls.into_iter().flatten())
    }

    /// Those of `calls` that are wanted, which come by start.
    fn wanted(&self, calls: impl Iterator<Item = Call>) -> impl Iterator<Item = Call> {
        let calls = calls.take_while(|call| {
            self.to.is_none() || !self.is_too_late(self.trace.nanoseconds(call.start))
        });
        calls.filter(|call| {
            if self.is_all {
                return true;
            }
            let (start, end) = self.times(call);
            self.is_wanted(call, start, end)
        })
    }

    fn is_in(&self, functions: Option<&Vec<bool>>, number: Option<u32>) -> bool {
        functions.is_none_or(|wanted| {
            let at = number.and_then(|number| self.trace.function_index(number));
            at.and_then(|at| wanted.get(at).copied()).unwrap_or(false)
        })
    }

    /// Whether calls that start then, in nanoseconds since the start of the trace, and later are not wanted.
    #[inline]
    pub(crate) fn is_too_late(&self, start: u64) -> bool {
        self.to.is_some_and(|to| start >= to)
    }

    /// Start and end of a call, in nanoseconds since the start of the trace.
    #[expect(
        clippy::inline_always,
        reason = "each call goes through it, and the compiler leaves it out of line"
    )]
    #[inline(always)]
    pub(crate) fn times(&self, call: &Call) -> (u64, Option<u64>) {
        (self.trace.nanoseconds(call.start), call.end.map(|end| self.trace.nanoseconds(end)))
    }

    /// Whether calls of a thread are wanted.
    pub(crate) fn has_thread(&self, thread: usize) -> bool {
        self.threads.get(thread).copied().unwrap_or(false)
    }

    /// Whether a call of a wanted thread is wanted that isn't too late and has these times.
    #[expect(
        clippy::inline_always,
        reason = "each call goes through it, and the compiler leaves it out of line"
    )]
    #[inline(always)]
    pub(crate) fn is_wanted(&self, call: &Call, start: u64, end: Option<u64>) -> bool {
        self.is_all || self.is_asked_for(call, start, end)
    }

    fn is_asked_for(&self, call: &Call, start: u64, end: Option<u64>) -> bool {
        call.depth < self.depth
            && start >= self.from
            && self.is_in(self.functions.as_ref(), Some(call.function))
            && self.is_in(self.callers.as_ref(), call.caller)
            && (self.min_duration == 0
                || end.is_none_or(|end| end.saturating_sub(start) >= self.min_duration))
            && self.matching.as_ref().is_none_or(|calls| calls.has(call))
            && self.has_failed(call)
    }

    /// Whether a call returned an error, if only such calls are wanted.
    fn has_failed(&self, call: &Call) -> bool {
        let failed = |results: &Recorded<'_>| results.result(call).as_ref().is_some_and(is_failure);
        self.results.as_ref().is_none_or(failed)
    }
}
