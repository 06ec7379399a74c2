//! What the rows say, in three lines: what took the time, what it waited for, what the trace lacks.

use super::collect::{Collector, Subject};
use super::holders::holder;
use super::{Column, Printed};
use crate::replay::short::ShortNames;
use crate::replay::time::Duration;
use crate::replay::waits::{Kind, Role, given_up, is_of_system};
use crate::words::{counted, printable};
use mcount_trace::layout::off_cpu::GIVEN_UP;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How many functions a line names at most.
const NAMED: usize = 3;

/// How many callers of one of them.
const CALLERS: usize = 2;

/// A function that threads waited in, and its callers, each with the time in nanoseconds.
struct Place {
    function: u32,
    time: u64,
    callers: Vec<(u64, Option<u32>)>,
}

/// What it's made of.
pub(super) struct Summary<'s> {
    pub(super) of: Subject<'s>,
    pub(super) rows: &'s [Printed<'s>],
    pub(super) found: &'s Collector<'s>,
    pub(super) short: &'s ShortNames,
    /// Calls have durations.
    pub(super) is_timed: bool,
}

impl Summary<'_> {
    /// Writes it, and an empty line. `missing` says what the trace lacks, in sentences.
    pub(super) fn write(&self, out: &mut impl Write, missing: Vec<String>) -> io::Result<()> {
        writeln!(out, "{}\n{}", self.time(), self.waiting())?;
        writeln!(out, "{}\n", self.missing(missing))
    }

    /// A part of the time of all threads, in words.
    fn part(&self, column: Column) -> u64 {
        let all = self.rows.iter().map(|row| row.value(column, true));
        all.fold(0, u64::saturating_add)
    }

    fn is_split(&self) -> bool {
        self.is_timed && self.of.waits.is_known()
    }

    fn name(&self, function: u32) -> String {
        printable(self.short.get(function)).into_owned()
    }

    /// What took the time.
    fn time(&self) -> String {
        let threads = counted(self.of.filter.threads(), "thread", "threads");
        let (column, head) = if self.is_split() {
            let (whole, running) = (self.part(Column::Own), self.part(Column::Running));
            let waiting = self.part(Column::Waiting);
            let spent = format!(
                "{threads} spent {} in traced functions, {} running and {} waiting. Most running time: ",
                time(whole),
                percent(running, whole),
                percent(waiting, whole)
            );
            (Column::Running, spent)
        } else if self.is_timed {
            let whole = time(self.part(Column::Own));
            (Column::Own, format!("{threads} spent {whole} in traced functions. Most time: "))
        } else {
            let calls = counted(self.part(Column::Calls), "call", "calls");
            (Column::Calls, format!("{threads} made {calls}. Most calls: "))
        };
        let whole = self.part(if self.is_timed { Column::Own } else { Column::Calls });
        let mut most: Vec<(u64, u32)> = self
            .rows
            .iter()
            .filter_map(|row| Some((row.value(column, true), row.group.function()?)))
            .filter(|(value, _)| *value > 0)
            .collect();
        most.sort_by_key(|(value, function)| (Reverse(*value), *function));
        if most.is_empty() {
            return "No call in the trace took any time.".to_owned();
        }
        let parts = most.iter().take(NAMED).map(|(value, function)| {
            format!("{} ({})", self.name(*function), percent(*value, whole))
        });
        format!("{head}{}.", parts.collect::<Vec<_>>().join(", "))
    }

    /// What the threads waited for.
    fn waiting(&self) -> String {
        if !self.is_timed {
            return "What the threads waited for isn't known: the trace has no durations."
                .to_owned();
        }
        if !self.of.waits.is_known() {
            return "What the threads waited for isn't known: the trace has neither time off the CPU \
                    nor library calls that wait."
                .to_owned();
        }
        let whole = self.part(Column::Own);
        let places = self.places();
        let Some(longest) = places.first().map(|place| place.time) else {
            return "The threads waited for nothing.".to_owned();
        };
        let threads = self.of.filter.threads();
        let owner = if threads == 1 { "the thread's" } else { "all threads'" };
        let head = format!("{} of {owner} time was spent waiting ", percent(longest, whole));
        let is_worth = |(at, place): &(usize, &Place)| *at == 0 || place.time * 100 >= whole;
        let named: Vec<&Place> = places
            .iter()
            .take(NAMED)
            .enumerate()
            .filter(is_worth)
            .map(|(_, place)| place)
            .collect();
        let parts = named.iter().enumerate().map(|(at, place)| {
            let share = if at == 0 { String::new() } else { percent(place.time, whole) + " " };
            format!("{share}{}", self.place(place, whole))
        });
        let waiting = capital(&(head + &parts.collect::<Vec<_>>().join("; ") + "."));
        waiting + &self.holder(&named)
    }

    /// Where threads waited, the longest first. That they waited for each other's end says least.
    fn places(&self) -> Vec<Place> {
        let mut functions: BTreeMap<u32, Vec<(u64, Option<u32>)>> = BTreeMap::new();
        for (at, time) in &self.found.places {
            if let Some(time) = u64::try_from(*time).ok().filter(|time| *time > 0) {
                functions.entry(at.function).or_default().push((time, at.caller));
            }
        }
        let mut places: Vec<Place> = functions
            .into_iter()
            .map(|(function, mut callers)| {
                callers.sort_by_key(|(time, caller)| (Reverse(*time), *caller));
                let time = callers.iter().map(|(time, _)| *time).fold(0, u64::saturating_add);
                Place { function, time, callers }
            })
            .collect();
        let is_join = |place: &Place| self.role(place.function) == Role::Join;
        places.sort_by_key(|place| (is_join(place), Reverse(place.time), place.function));
        places
    }

    fn role(&self, function: u32) -> Role {
        self.of.waits.role(self.of.trace, function)
    }

    /// Which function had the lock meanwhile, if they waited for one, and that can be seen.
    fn holder(&self, places: &[&Place]) -> String {
        let lock = places.iter().find(|place| self.role(place.function) == Role::Lock);
        let Some((lock, found)) =
            lock.and_then(|lock| Some((lock, holder(self.of, self.found, lock.function)?)))
        else {
            return String::new();
        };
        let caller = found.caller.filter(|caller| *caller != found.function);
        let caller = caller.map(|caller| format!(", called by {}", self.name(caller)));
        format!(
            " During {} % of the longest waits in {}, another thread was in {}{}.",
            found.percent,
            self.name(lock.function),
            self.name(found.function),
            caller.unwrap_or_default()
        )
    }

    /// Where threads waited: a function and its callers.
    fn place(&self, place: &Place, whole: u64) -> String {
        let Place { function, time, ref callers } = *place;
        let known: Vec<(u64, u32)> =
            callers.iter().filter_map(|(time, caller)| Some((*time, (*caller)?))).collect();
        let (place, before) = match self.of.waits.kind(self.of.trace, function) {
            Kind::Preempted => ("for a free processor".to_owned(), ", in "),
            Kind::OffCpu => ("outside of traced functions".to_owned(), ", in "),
            Kind::Runs | Kind::Waits => (format!("in {}", self.name(function)), ", called by "),
        };
        let sum = known.iter().map(|(time, _)| *time).fold(0, u64::saturating_add);
        let names: Vec<String> = match known.as_slice() {
            // Of most of it nobody knows who called, so the others say nothing of it.
            [_, ..] if u128::from(sum) * 2 < u128::from(time) => return place,
            [] if self.role(function) == Role::Plain => return place + &self.perhaps(function),
            [] if place.starts_with("in ") => return place + ", outside of traced functions",
            [] => return place,
            // The others don't matter.
            [(most, caller), ..] if u128::from(*most) * 10 >= u128::from(time) * 9 => {
                vec![self.name(*caller)]
            }
            several => {
                let named = several.iter().take(CALLERS);
                let named = named.map(|(time, caller)| {
                    format!("{} ({})", self.name(*caller), percent(*time, whole))
                });
                let others = several.len().saturating_sub(CALLERS);
                let others = (others > 0).then(|| counted(others, "other", "others"));
                named.chain(others).collect()
            }
        };
        format!("{place}{before}{}{}", names.join(" and "), self.perhaps(function))
    }

    /// What a function of the program waited in, perhaps: library functions that it called so often that they weren't recorded.
    fn perhaps(&self, function: u32) -> String {
        if self.role(function) != Role::Plain {
            return String::new();
        }
        let given_up = given_up(self.of.trace);
        let called = self.found.places.keys().filter(|at| at.caller == Some(function));
        let called: Vec<String> = called.map(|at| self.name(at.function)).collect();
        let is_called = |name: &&String| called.contains(name);
        let known: Vec<&String> = given_up.iter().filter(is_called).collect();
        // It may have called them before, without waiting.
        let names = if known.is_empty() { given_up.iter().collect() } else { known };
        let (Some(first), true) = (names.first(), self.of.waits.has_off_cpu) else {
            return String::new();
        };
        let all = names.iter().take(NAMED).map(|name| name.as_str()).collect::<Vec<_>>();
        format!(" (perhaps in {}; to see: --library-calls {first})", all.join(" or "))
    }

    /// The functions of the program that waited for long without the trace saying what for.
    fn unexplained(&self) -> Option<String> {
        let whole = self.part(Column::Own);
        let places = self.places();
        let is_one = |place: &&Place| {
            self.role(place.function) == Role::Plain
                && self.of.waits.kind(self.of.trace, place.function) == Kind::Runs
                && place.time.saturating_mul(10) >= whole
                // A system call says itself what for.
                && !is_of_system(&self.name(place.function))
                && self.perhaps(place.function).is_empty()
        };
        let names: Vec<String> = places
            .iter()
            .take(NAMED)
            .filter(is_one)
            .map(|place| self.name(place.function))
            .collect();
        let is_asked = !self.of.waits.has_off_cpu || self.of.waits.has_all_library_calls();
        let wait = if names.len() == 1 { "waits" } else { "wait" };
        (!is_asked && !names.is_empty())
            .then(|| format!("what {} {wait} in (try --library-calls '*')", names.join(" and ")))
    }

    /// What the trace lacks.
    fn missing(&self, mut missing: Vec<String>) -> String {
        let is_told = missing
            .iter()
            .any(|note| note.contains("context switches") || note.starts_with(GIVEN_UP));
        let mut lacks = Vec::new();
        if self.of.trace.header.has_only_entries {
            lacks.push("durations and callers: only entries were recorded".to_owned());
        } else if self.of.trace.has_times() {
            if !self.of.waits.has_off_cpu && !is_told {
                lacks.push("time off the CPU (--context-switches)".to_owned());
            }
            if !self.of.waits.has_library_calls && !self.of.waits.has_off_cpu {
                lacks.push("library calls that wait (--library-calls)".to_owned());
            }
            lacks.extend(self.unexplained());
        }
        if missing.is_empty() && lacks.is_empty() {
            return "Nothing is missing from the trace, as far as it tells.".to_owned();
        }
        let lacks = (!lacks.is_empty()).then(|| format!("The trace lacks {}", lacks.join(" and ")));
        let head = if lacks.is_none() { "The trace isn't complete: " } else { "" };
        for note in &mut missing {
            *note = printable(note).into_owned();
        }
        let all: Vec<String> = lacks.into_iter().chain(missing).collect();
        format!("{head}{}.", all.join("; "))
    }
}

/// `1.500 s`.
fn time(nanoseconds: u64) -> String {
    let text = Duration(nanoseconds).to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A part of a whole: `68 %`.
fn percent(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    match (part * 100 + whole / 2) / whole {
        0 if part > 0 => "less than 1 %".to_owned(),
        100 if part < whole => "more than 99 %".to_owned(),
        hundredths => format!("{hundredths} %"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}
