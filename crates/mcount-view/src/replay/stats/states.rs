//! Splits the time of each function by the state of the thread: it runs, waits for a lock, a disk or the network, or has lost its
//! processor.
//!
//! Each moment in a traced function counts once: in the innermost function that isn't the system's. The function's own time includes its
//! system calls and its time off the processor.

use super::collect::Subject;
use super::groups::Group;
use super::print::{Numbers, for_programs};
use super::{Column, Manner, StatsFormat};
use crate::names::name_of;
use crate::replay::progress::Progress;
use crate::replay::short::{ShortNames, cut};
use crate::replay::time::Duration;
use crate::replay::visit::between;
use crate::replay::visit::visit_all;
use crate::replay::waits::{Kind, Waits, is_of_system};
use crate::words::printable;
use mcount_symbols::waiting::{Cause, cause};
use mcount_trace::{Call, Trace, Visitor};
use std::cmp::Reverse;
use std::io::{self, Write};
use std::ops::Range;

/// The states, in the order of columns: the heading in text, and the name in other formats.
const STATES: [(&str, &str); 8] = [
    ("RUNNING", "running_ns"),
    ("LOCK", "lock_ns"),
    ("DISK", "disk_ns"),
    ("NETWORK", "network_ns"),
    ("SLEEP", "sleep_ns"),
    ("JOIN", "join_ns"),
    ("OTHER", "other_ns"),
    ("PREEMPTED", "preempted_ns"),
];

const RUNNING: usize = 0;
const PREEMPTED: usize = 7;

/// The place of what's waited for.
fn place(cause: Cause) -> usize {
    match cause {
        Cause::Lock => 1,
        Cause::Disk => 2,
        Cause::Network => 3,
        Cause::Sleep => 4,
        Cause::End => 5,
        Cause::Other => 6,
    }
}

/// The width of a column, with the space after it.
const WIDTH: usize = 11;

/// Facts that follow from a function's name.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The system does it for its caller.
    is_systems: bool,
    /// The cause of its waits, if it waits.
    cause: Option<Cause>,
}

/// The facts of each function, by its place in the trace.
struct Functions(Vec<Known>);

impl Functions {
    fn of(trace: &Trace<'_>, waits: &Waits) -> Self {
        let known = |function: &mcount_trace::Function<'_>| {
            let text = String::from_utf8_lossy(function.name);
            if is_of_system(&text) {
                // Functions of the kernel do what the system call asks for.
                let call = text.strip_prefix("linux:");
                return Known { is_systems: true, cause: call.map(|call| cause(call, call)) };
            }
            let waits = waits.role(trace, function.number).is_wait();
            let symbol = text.split('@').next().unwrap_or_default();
            let cause = waits.then(|| cause(&name_of(symbol, true), symbol));
            Known { is_systems: false, cause }
        };
        Self(trace.functions.iter().map(known).collect())
    }

    fn get(&self, trace: &Trace<'_>, function: u32) -> Known {
        let place = trace.function_index(function).and_then(|at| self.0.get(at));
        place.copied().unwrap_or(Known { is_systems: false, cause: None })
    }
}

/// The calls of a function, and nanoseconds in each state. Until all is added up, what callees take can be gone before the rest is there.
#[derive(Debug, Clone, Default)]
struct Row {
    calls: u64,
    times: [i64; STATES.len()],
}

impl Row {
    fn add(&mut self, state: usize, time: i64) {
        if let Some(sum) = self.times.get_mut(state) {
            *sum = sum.saturating_add(time);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        for (state, time) in other.times.iter().enumerate() {
            self.add(state, *time);
        }
    }

    fn times(&self) -> [u64; STATES.len()] {
        self.times.map(|time| u64::try_from(time).unwrap_or(0))
    }

    fn whole(&self) -> u64 {
        self.times().into_iter().fold(0, u64::saturating_add)
    }
}

/// A call that encloses others.
#[derive(Debug, Clone, Copy)]
struct Enclosing {
    /// Where its time counts.
    row: usize,
    state: usize,
    /// The cause of waits in it.
    cause: Option<Cause>,
    is_wanted: bool,
}

/// Goes through the calls of some threads.
struct Collector<'c> {
    rows: Vec<Row>,
    functions: &'c Functions,
    /// `spend` says how long threads were in each call itself.
    is_told: bool,
    of: Subject<'c>,
}

impl<'c> Collector<'c> {
    fn new(of: Subject<'c>, functions: &'c Functions) -> Self {
        let rows = vec![Row::default(); of.groups.all().len()];
        Self { rows, functions, is_told: false, of }
    }

    fn merge(mut self, other: &Self) -> Self {
        for (row, other) in self.rows.iter_mut().zip(&other.rows) {
            row.merge(other);
        }
        self
    }

    /// A call as an enclosing one.
    fn enclosing(&self, call: &Call, caller: Option<Enclosing>, is_wanted: bool) -> Enclosing {
        let Subject { trace, groups, waits, .. } = self.of;
        let Known { is_systems, cause } = self.functions.get(trace, call.function);
        let kind = waits.kind(trace, call.function);
        // A function of a library knows better what its system call waits for: a `join` waits by a futex as well.
        let of_caller = caller.and_then(|caller| caller.cause);
        let cause = match (is_systems, of_caller, cause) {
            (true, Some(known), _) if known != Cause::Other => Some(known),
            (true, known, None | Some(Cause::Other)) => known.or(cause),
            _ => cause,
        };
        let waits = match kind {
            Kind::OffCpu | Kind::Waits => true,
            // Of a call that hadn't ended, nothing says until when the thread was off the processor.
            Kind::Runs => {
                cause.is_some() && (call.end.is_none() || !waits.has_off_cpu && is_systems)
            }
            Kind::Preempted => false,
        };
        let state = match kind {
            Kind::Preempted => PREEMPTED,
            _ if waits => place(cause.unwrap_or(Cause::Other)),
            _ => RUNNING,
        };
        let (row, is_wanted) = match caller.filter(|_| is_systems) {
            Some(caller) => (caller.row, caller.is_wanted),
            None => (groups.of(call), is_wanted),
        };
        Enclosing { row, state, cause, is_wanted }
    }
}

impl Visitor for Collector<'_> {
    type Mark = Enclosing;

    fn enter(&mut self, call: &Call, caller: Option<Enclosing>) -> Enclosing {
        let Subject { filter, groups, latest, .. } = self.of;
        let (start, end) = filter.times(call);
        if filter.is_too_late(start) {
            return self.enclosing(call, None, false);
        }
        let own = self.enclosing(call, caller, filter.is_wanted(call, start, end));
        let duration = end.unwrap_or(latest).saturating_sub(start);
        let time = i64::try_from(duration).unwrap_or(i64::MAX);
        if let Some(row) = self.rows.get_mut(own.row).filter(|_| own.is_wanted) {
            row.add(own.state, if self.is_told { 0 } else { time });
            row.calls += u64::from(own.row == groups.of(call));
        }
        let caller = caller.filter(|caller| caller.is_wanted && !self.is_told);
        if let Some((caller, row)) =
            caller.and_then(|caller| Some((caller, self.rows.get_mut(caller.row)?)))
        {
            row.add(caller.state, time.saturating_neg());
        }
        own
    }

    fn enclose(&mut self, call: &Call, caller: Option<Enclosing>) -> Enclosing {
        let filter = self.of.filter;
        let (start, end) = filter.times(call);
        let is_wanted = !filter.is_too_late(start) && filter.is_wanted(call, start, end);
        self.enclosing(call, caller, is_wanted)
    }

    fn leave(&mut self, _: Enclosing, _: u64) {}

    fn begin(&mut self, told: Option<Range<u64>>) {
        self.is_told = told.is_some();
    }

    fn spend(&mut self, mark: Enclosing, from: u64, to: u64) {
        let duration = between(self.of.trace, from, to);
        if let Some(row) = self.rows.get_mut(mark.row).filter(|_| mark.is_wanted) {
            row.add(mark.state, i64::try_from(duration).unwrap_or(i64::MAX));
        }
    }
}

/// Why a trace has nothing to print here, if it hasn't.
pub(super) fn lack(trace: &Trace<'_>, waits: &Waits) -> Option<&'static str> {
    if !trace.has_times() || trace.header.has_only_entries {
        Some("the trace has no durations")
    } else if waits.is_known() {
        None
    } else {
        Some(
            "when threads waited isn't known: trace again without --plain, or with --context-switches",
        )
    }
}

/// Prints a row for each function of a trace that doesn't [lack](lack) anything.
///
/// # Errors
///
/// Those of `out`.
pub(super) fn print<'g>(
    out: &mut impl Write,
    of: Subject<'g>,
    manner: Manner,
    progress: &Progress<'_>,
    short: impl Fn(&[u32]) -> ShortNames,
) -> io::Result<()> {
    let trace = of.trace;
    let functions = Functions::of(trace, of.waits);
    let new = || Collector::new(of, &functions);
    let found = visit_all(trace, of.filter, progress, new, |one, other| one.merge(&other));
    let rows = found.rows.iter().zip(of.groups.all()).filter(|(row, _)| row.calls > 0);
    let mut rows: Vec<(&Row, &'g Group<'g>)> =
        rows.filter(|(_, group)| group.function().is_some()).collect();
    let key = |row: &Row| {
        let times = row.times();
        let waiting = times.get(RUNNING + 1..PREEMPTED).unwrap_or_default();
        match manner.sort {
            Column::Calls => row.calls,
            Column::Running => times.first().copied().unwrap_or(0),
            Column::Waiting => waiting.iter().copied().fold(0, u64::saturating_add),
            Column::Name => 0,
            _ => row.whole(),
        }
    };
    let functions: Vec<u32> = rows.iter().filter_map(|(_, group)| group.function()).collect();
    let names = short(&functions);
    let name = |group: &Group<'_>| {
        group
            .function()
            .map_or_else(String::new, |number| printable(names.get(number)).into_owned())
    };
    rows.sort_by_cached_key(|(row, group)| (Reverse(key(row)), name(group)));
    if manner.format == StatsFormat::Text {
        return text(out, manner, &rows, name);
    }
    let numbers = |(row, group): &(&Row, &'g Group<'g>)| {
        let times = std::iter::once(row.whole()).chain(row.times()).map(Some).collect();
        Numbers { group, calls: row.calls, times }
    };
    let numbers: Vec<_> = rows.iter().map(numbers).collect();
    let titles: Vec<&str> =
        std::iter::once("self_ns").chain(STATES.iter().map(|(_, title)| *title)).collect();
    for_programs(out, manner, &titles, &numbers)
}

fn text(
    out: &mut impl Write,
    manner: Manner,
    rows: &[(&Row, &Group<'_>)],
    name: impl Fn(&Group<'_>) -> String,
) -> io::Result<()> {
    // What no function did has no column.
    let is_used = |state: &usize| {
        *state == RUNNING
            || rows.iter().any(|(row, _)| row.times().get(*state).is_some_and(|time| *time > 0))
    };
    let states: Vec<usize> = (0..STATES.len()).filter(is_used).collect();
    let columns = states.len() + 2;
    let room = manner.width.map(|width| width.saturating_sub(columns * WIDTH));
    write!(out, "{:>10} {:>10} ", "CALLS", "SELF")?;
    for (heading, _) in states.iter().filter_map(|state| STATES.get(*state)) {
        write!(out, "{heading:>10} ")?;
    }
    writeln!(out, "FUNCTION")?;
    for (row, group) in rows {
        write!(out, "{:>10} {} ", row.calls, Duration(row.whole()))?;
        for time in states.iter().filter_map(|state| row.times().get(*state).copied()) {
            if time == 0 {
                write!(out, "{:>10} ", "-")?;
            } else {
                write!(out, "{} ", Duration(time))?;
            }
        }
        writeln!(out, "{}", cut(&name(group), room.unwrap_or(usize::MAX)))?;
    }
    Ok(())
}
