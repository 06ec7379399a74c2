//! How often the functions of a trace were called, or those of its modules, source files, threads or callers, and
//! how long that took.

mod collect;
mod durations;
mod groups;
mod print;
mod sources;

use super::progress::Progress;
use super::select::Filter;
use super::{Names, Selection};
use collect::{Collector, Row};
use groups::{Group, Groups};
use mcount_trace::Trace;
use rayon::prelude::*;
use std::io::{self, Write};

/// What rows are sorted by: a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names of columns")]
pub enum Column {
    Calls,
    Total,
    #[value(name = "self", alias = "own")]
    Own,
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
    /// Names of C++ are without arguments.
    pub has_simple_names: bool,
}

/// Calls that a processor takes at a time: few enough that all have work, too many for it to matter where they begin.
const STRETCH: u64 = 500_000;

/// Prints a row for each function, or whatever else has one, of which `selection` has calls. Returns what is to be
/// warned of.
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
) -> io::Result<Vec<String>> {
    let names = Names::with(trace, manner.has_simple_names);
    let groups = Groups::new(&names, manner.by);
    let filter = selection.filter(trace);
    let rows = collect(trace, &filter, &groups, progress);
    let rows = rows.iter().zip(groups.all()).filter(|(row, _)| row.calls() > 0);
    let is_timed = trace.has_times() && !trace.header.has_only_entries;
    let new = |(row, group)| Printed::new(row, group, is_timed);
    let mut rows: Vec<Printed<'_>> = rows.map(new).collect();
    rows.sort_by(|a, b| {
        b.value(manner.sort).cmp(&a.value(manner.sort)).then(a.group.key().cmp(&b.group.key()))
    });
    let mut out = io::BufWriter::new(out);
    match manner.format {
        StatsFormat::Text => print::text(&mut out, manner.by, &rows)?,
        StatsFormat::Jsonl => print::jsonl(&mut out, manner.by, &rows)?,
        StatsFormat::Csv => print::csv(&mut out, manner.by, &rows)?,
    }
    out.flush()?;
    Ok(groups.into_warnings())
}

/// A row for each group. Stretches of threads are looked at by all processors.
fn collect(
    trace: &Trace<'_>,
    filter: &Filter<'_>,
    groups: &Groups<'_>,
    progress: &Progress<'_>,
) -> Vec<Row> {
    let stretches = trace.stretches(STRETCH, |thread| filter.has_thread(thread));
    let latest = trace.nanoseconds(trace.latest());
    let new = || Collector::new(filter, groups, latest);
    let collectors = stretches.par_iter().fold(new, |mut collector, stretch| {
        trace.visit(stretch, &mut collector);
        progress.add(stretch.calls);
        collector
    });
    collectors.reduce(new, Collector::merge).rows
}

/// A row as it is printed.
struct Printed<'g> {
    calls: u64,
    /// In the order of [`print::TIMES`]; none if the trace hasn't recorded any.
    times: Option<[u64; 7]>,
    group: &'g Group<'g>,
}

impl<'g> Printed<'g> {
    fn new(row: &Row, group: &'g Group<'g>, is_timed: bool) -> Self {
        Self { calls: row.calls(), times: is_timed.then(|| row.times()), group }
    }

    /// What rows with more of it come first by.
    fn value(&self, column: Column) -> u64 {
        let Some([total, own, mean, min, median, p99, max]) = self.times else {
            return if column == Column::Name { 0 } else { self.calls };
        };
        match column {
            Column::Calls => self.calls,
            Column::Total => total,
            Column::Own => own,
            Column::Mean => mean,
            Column::Min => min,
            Column::Median => median,
            Column::P99 => p99,
            Column::Max => max,
            Column::Name => 0,
        }
    }
}
