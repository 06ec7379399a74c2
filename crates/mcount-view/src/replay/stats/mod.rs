//! How often the functions of a trace were called, or those of its modules, source files, threads or callers, and
//! how long that took.

mod collect;
mod counted;
mod durations;
mod groups;
mod holders;
mod lock_waits;
mod print;
mod states;
mod summary;

use super::progress::Progress;
use super::short::ShortNames;
use super::visit::visit_all;
use super::waits::Waits;
use super::{Names, Selection};
use collect::{Collector, Row, Subject};
use counted::Counted;
use groups::{Group, Groups};
use mcount_trace::Trace;
use std::io::{self, Write};

/// What rows are sorted by: a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names of columns")]
pub enum Column {
    Calls,
    Total,
    #[value(name = "self", alias = "own")]
    Own,
    Running,
    Waiting,
    Mean,
    Min,
    Median,
    P99,
    Max,
    #[value(alias = "function")]
    Name,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StatsFormat {
    /// Aligned columns.
    Text,
    /// One JSON object a row and line.
    Jsonl,
    /// Comma-separated values; the first line names them.
    Csv,
}

/// The kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the words say it")]
pub enum By {
    Function,
    Module,
    Source,
    Thread,
    Caller,
    State,
}

/// The output, and its form.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The kind of rows.
    pub by: By,
    /// What rows are sorted by.
    pub sort: Column,
    /// The format.
    pub format: StatsFormat,
    /// Names of C++ are without arguments in every format.
    pub has_simple_names: bool,
    /// Text has whole names, not short ones.
    pub has_full_names: bool,
    /// How wide text may be, in characters; without it, text has all columns and no name is cut.
    pub width: Option<usize>,
}

impl Manner {
    /// Whether what is printed begins with a summary in words, which also says what is missing: where it's text with a row for
    /// each function, and whole call paths are wanted.
    #[must_use]
    pub fn has_summary(&self, selection: &Selection) -> bool {
        self.format == StatsFormat::Text && self.by == By::Function && selection.has_whole_paths()
    }
}

/// Why nothing can be said of `trace` with these rows, if it can't.
#[must_use]
pub fn lack(trace: &Trace<'_>, by: By) -> Option<&'static str> {
    if by == By::State { states::lack(trace, &Waits::of(trace)) } else { None }
}

/// Prints a row for each function, or whatever else has one, of which `selection` has calls. `missing` says what the trace lacks, in
/// sentences, once it was read. Returns what is to be warned of.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    out: &mut dyn Write,
    trace: &Trace<'_>,
    selection: &Selection,
    manner: Manner,
    progress: &Progress<'_>,
    missing: impl FnOnce(&Trace<'_>) -> Vec<String>,
) -> io::Result<Vec<String>> {
    let is_text = manner.format == StatsFormat::Text;
    let names = Names::with(trace, manner.has_simple_names && !(is_text && manner.has_full_names));
    let groups = Groups::new(&names, manner.by);
    let filter = selection.filter(trace);
    let latest = trace.nanoseconds(trace.latest());
    let waits = Waits::of(trace);
    let of = Subject { trace, filter: &filter, groups: &groups, waits: &waits, latest };
    if manner.by == By::State {
        let mut out = io::BufWriter::new(out);
        let short = |functions: &[u32]| {
            ShortNames::new(&names, functions.iter().copied(), manner.has_full_names)
        };
        states::print(&mut out, of, manner, progress, short)?;
        out.flush()?;
        return Ok(groups.into_warnings());
    }
    let found = collect(of, progress);
    let counted = Counted::of(of, progress);
    let is_timed = trace.has_times() && !trace.header.has_only_entries;
    let mut rows = printed(&found, of, &counted, is_timed);
    rows.sort_by(|a, b| {
        let value = |row: &Printed<'_>| row.value(manner.sort, is_text);
        value(b).cmp(&value(a)).then(a.group.key().cmp(&b.group.key()))
    });
    let mut out = io::BufWriter::new(out);
    match manner.format {
        StatsFormat::Text => {
            let of_rows = rows.iter().filter_map(|row| row.group.function());
            let of_places = found.places.keys().flat_map(|at| [Some(at.function), at.caller]);
            let functions = of_rows.chain(of_places.flatten());
            let short = ShortNames::new(&names, functions, manner.has_full_names);
            if manner.has_summary(selection) {
                let summary =
                    summary::Summary { of, rows: &rows, found: &found, short: &short, is_timed };
                summary.write(&mut out, missing(trace))?;
            }
            print::text(&mut out, manner, (&rows, &counted.names), &short)?;
        }
        StatsFormat::Jsonl | StatsFormat::Csv => {
            let numbers: Vec<_> = rows.iter().map(print::Numbers::of).collect();
            let names = print::names_of_counters(&counted.names);
            let names = print::names_of_times().into_iter().chain(names.iter().map(String::as_str));
            print::for_programs(&mut out, manner, &names.collect::<Vec<_>>(), &numbers)?;
        }
    }
    out.flush()?;
    drop(found);
    Ok(groups.into_warnings())
}

/// What is known of the calls of a function. Times are nanoseconds, and there are none if the trace has none.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "for `mcount tui`"))]
pub(crate) struct FunctionRow {
    pub(crate) function: u32,
    pub(crate) calls: u64,
    /// In it and in what it called, in it alone, and of one call: mean and longest.
    pub(crate) total: Option<u64>,
    pub(crate) own: Option<u64>,
    pub(crate) mean: Option<u64>,
    pub(crate) max: Option<u64>,
    /// Of the time in it alone, running and waiting, if the trace knows.
    pub(crate) split: Option<[u64; 2]>,
}

/// A row for each function that was called, in no order.
#[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "for `mcount tui`"))]
pub(crate) fn of_functions(
    names: &Names<'_, '_>,
    selection: &Selection,
    progress: &Progress<'_>,
) -> Vec<FunctionRow> {
    let trace = names.trace;
    let groups = Groups::new(names, By::Function);
    let filter = selection.filter(trace);
    let latest = trace.nanoseconds(trace.latest());
    let waits = Waits::of(trace);
    let of = Subject { trace, filter: &filter, groups: &groups, waits: &waits, latest };
    let found = collect(of, progress);
    let is_timed = trace.has_times() && !trace.header.has_only_entries;
    let rows = found.rows.iter().zip(groups.all()).filter(|(row, _)| row.calls() > 0);
    rows.filter_map(|(row, group)| {
        let times = is_timed.then(|| row.times());
        Some(FunctionRow {
            function: group.function()?,
            calls: row.calls(),
            total: times.map(|[total, ..]| total),
            own: times.map(|[_, own, ..]| own),
            mean: times.map(|[_, _, mean, ..]| mean),
            max: times.map(|[.., max]| max),
            split: (is_timed && waits.is_known()).then(|| row.split()),
        })
    })
    .collect()
}

/// A row for each group, and where threads waited.
fn collect<'c>(of: Subject<'c>, progress: &Progress<'_>) -> Collector<'c> {
    visit_all(of.trace, of.filter, progress, || Collector::new(of), Collector::merge)
}

/// A row for each group that has calls.
fn printed<'g>(
    found: &Collector<'_>,
    of: Subject<'g>,
    counted: &Counted,
    is_timed: bool,
) -> Vec<Printed<'g>> {
    let is_split = is_timed && of.waits.is_known();
    let rows = found.rows.iter().zip(of.groups.all()).enumerate();
    let rows = rows.filter(|(_, (row, _))| row.calls() > 0);
    let new = |(place, (row, group))| Printed {
        counted: counted.get(place),
        ..Printed::new(row, group, is_timed, is_split)
    };
    rows.map(new).collect()
}

/// A row as it is printed.
struct Printed<'g> {
    calls: u64,
    /// In the order of [`print::TIMES`]; none if the trace hasn't recorded any.
    times: Option<[u64; 7]>,
    /// Of the time in these calls alone, running and waiting; none if the trace doesn't know.
    split: Option<[u64; 2]>,
    /// What each counter says, in all and in these calls alone.
    counted: Vec<Option<[u64; 2]>>,
    group: &'g Group<'g>,
}

impl<'g> Printed<'g> {
    fn new(row: &Row, group: &'g Group<'g>, is_timed: bool, is_split: bool) -> Self {
        let (times, split) = (is_timed.then(|| row.times()), is_split.then(|| row.split()));
        Self { calls: row.calls(), times, split, counted: Vec::new(), group }
    }

    /// What rows with more of it come first by. In text, the time in a function alone is what it ran and waited.
    fn value(&self, column: Column, is_text: bool) -> u64 {
        let Some([total, own, mean, min, median, p99, max]) = self.times else {
            return if column == Column::Name { 0 } else { self.calls };
        };
        let whole = |[running, waiting]: [u64; 2]| running.saturating_add(waiting);
        match column {
            Column::Calls => self.calls,
            Column::Total => total,
            Column::Own => self.split.filter(|_| is_text).map_or(own, whole),
            Column::Running => self.split.map_or(own, |[running, _]| running),
            Column::Waiting => self.split.map_or(0, |[_, waiting]| waiting),
            Column::Mean => mean,
            Column::Min => min,
            Column::Median => median,
            Column::P99 => p99,
            Column::Max => max,
            Column::Name => 0,
        }
    }
}
