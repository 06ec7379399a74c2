//! Printing rows: text, jsonl, csv.

use super::{By, Column, Group, Manner, Printed, StatsFormat};
use crate::replay::short::{ShortNames, cut};
use crate::replay::time::Duration;
use crate::replay::{csv::io_error, json_string};
use crate::words::{grouped, printable};
use serde_json::json;
use std::io::{self, Write};

/// The names of the times, in the order of columns.
const TIMES: [&str; 7] =
    ["total_ns", "self_ns", "mean_ns", "min_ns", "median_ns", "p99_ns", "max_ns"];

/// Those of the time in a function alone, behind them.
const SPLIT: [&str; 2] = ["running_ns", "waiting_ns"];

/// The headings of the columns before the numbers.
fn headings(by: By) -> &'static [&'static str] {
    match by {
        By::Function | By::State => &["function", "module", "address"],
        By::Module => &["module"],
        By::Source => &["source"],
        By::Thread => &["process", "thread", "name"],
        By::Caller => &["caller", "module", "address"],
    }
}

/// How wide a column of numbers is, with the space behind it.
const WIDTH: usize = 11;

/// How wide a counter's columns are at least.
const COUNTER: usize = 15;

/// Names have so much room before columns are left out for them.
const NAME: usize = 32;

/// The columns that are left out where there's no room, the first one first.
const DISPENSABLE: [Column; 6] =
    [Column::Min, Column::Median, Column::P99, Column::Max, Column::Mean, Column::Calls];

/// What stands above a column.
fn heading(column: Column, by: By) -> &'static str {
    match (column, by) {
        (Column::Calls, _) => "CALLS",
        (Column::Total, _) => "TOTAL",
        (Column::Own, _) => "SELF",
        (Column::Running, _) => "RUNNING",
        (Column::Waiting, _) => "WAITING",
        (Column::Mean, _) => "MEAN",
        (Column::Min, _) => "MIN",
        (Column::Median, _) => "MEDIAN",
        (Column::P99, _) => "P99",
        (Column::Max, _) => "MAX",
        (Column::Name, By::Function | By::State) => "FUNCTION",
        (Column::Name, By::Module) => "MODULE",
        (Column::Name, By::Source) => "SOURCE",
        (Column::Name, By::Thread) => "THREAD",
        (Column::Name, By::Caller) => "CALLER",
    }
}

/// The columns of numbers, where names have up to `longest` characters.
fn columns(manner: Manner, is_split: bool, longest: usize) -> Vec<Column> {
    let own: &[Column] =
        if is_split { &[Column::Running, Column::Waiting] } else { &[Column::Own] };
    let behind = [Column::Mean, Column::Min, Column::Median, Column::P99, Column::Max];
    let mut columns = [&[Column::Calls, Column::Total], own, &behind].concat();
    let Some(width) = manner.width else { return columns };
    for gone in DISPENSABLE {
        if columns.len() * WIDTH + longest.min(NAME) <= width {
            break;
        }
        columns.retain(|column| *column != gone || manner.sort == gone);
    }
    columns
}

pub(super) fn text(
    out: &mut impl Write,
    manner: Manner,
    (rows, counters): (&[Printed<'_>], &[String]),
    short: &ShortNames,
) -> io::Result<()> {
    let name = |row: &Printed<'_>| match row.group.function() {
        Some(number) => printable(short.get(number)).into_owned(),
        None => printable(&row.group.name()).into_owned(),
    };
    let names: Vec<String> = rows.iter().map(name).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let is_split = rows.iter().any(|row| row.split.is_some());
    let of_counters: usize = counters.iter().map(|name| 2 * COUNTER.max(name.len() + 6)).sum();
    let manner =
        Manner { width: manner.width.map(|width| width.saturating_sub(of_counters)), ..manner };
    let columns = columns(manner, is_split, longest);
    let room = manner.width.map(|width| width.saturating_sub(columns.len() * WIDTH));
    for column in &columns {
        write!(out, "{:>10} ", heading(*column, manner.by))?;
    }
    let counters = counters.iter().flat_map(|name| {
        let name = printable(name).to_uppercase();
        [format!("SELF {name}"), name].into_iter().rev()
    });
    let counters: Vec<String> = counters.collect();
    for name in &counters {
        write!(out, "{name:>COUNTER$} ")?;
    }
    writeln!(out, "{}", heading(Column::Name, manner.by))?;
    for (row, name) in rows.iter().zip(&names) {
        for column in &columns {
            match column {
                Column::Calls => write!(out, "{:>10} ", row.calls)?,
                _ if row.times.is_none() => write!(out, "{:>10} ", "-")?,
                _ => write!(out, "{} ", Duration(row.value(*column, true)))?,
            }
        }
        let counted =
            row.counted.iter().flat_map(|pair| pair.map_or([None; 2], |pair| pair.map(Some)));
        for (number, name) in counted.zip(&counters) {
            let width = COUNTER.max(name.chars().count());
            write!(out, "{:>width$} ", number.map_or_else(|| "-".to_owned(), grouped))?;
        }
        writeln!(out, "{}", cut(name, room.unwrap_or(usize::MAX)))?;
    }
    Ok(())
}

/// A row for programs: what it's of, how many calls, and times in nanoseconds, in the order of their names.
pub(super) struct Numbers<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) calls: u64,
    pub(super) times: Vec<Option<u64>>,
}

impl<'g> Numbers<'g> {
    pub(super) fn of(row: &Printed<'g>) -> Self {
        let times = row.times.map_or([None; TIMES.len()], |times| times.map(Some));
        let split = row.split.map_or([None; SPLIT.len()], |split| split.map(Some));
        let counted =
            row.counted.iter().flat_map(|pair| pair.map_or([None; 2], |pair| pair.map(Some)));
        let times = times.into_iter().chain(split).chain(counted).collect();
        Self { group: row.group, calls: row.calls, times }
    }
}

/// The names of what [`Numbers::of`] has.
pub(super) fn names_of_times() -> Vec<&'static str> {
    TIMES.into_iter().chain(SPLIT).collect()
}

/// The names of what counters say, which follow these.
pub(super) fn names_of_counters(counters: &[String]) -> Vec<String> {
    counters.iter().flat_map(|name| [name.clone(), format!("self_{name}")]).collect()
}

/// Prints rows in the format that is asked for, if it's one for programs. `names` are those of times.
pub(super) fn for_programs(
    out: &mut impl Write,
    manner: Manner,
    names: &[&str],
    rows: &[Numbers<'_>],
) -> io::Result<()> {
    match manner.format {
        StatsFormat::Csv => csv(out, (manner.by, names), rows),
        StatsFormat::Jsonl | StatsFormat::Text => jsonl(out, (manner.by, names), rows),
    }
}

fn jsonl(out: &mut impl Write, (by, names): (By, &[&str]), rows: &[Numbers<'_>]) -> io::Result<()> {
    for row in rows {
        let values = match row.group {
            Group::Function(_, name) => {
                vec![name.json.clone(), name.module_json.clone(), json!(name.address).to_string()]
            }
            Group::File(path) => vec![json_string(path)],
            Group::Thread { pid, tid, name } => {
                vec![pid.to_string(), tid.to_string(), json_string(name)]
            }
            Group::Nobody => vec!["null".to_owned(); headings(by).len()],
        };
        for (at, (name, value)) in headings(by).iter().zip(values).enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            write!(out, "{before}\"{name}\":{value}")?;
        }
        write!(out, ",\"calls\":{}", row.calls)?;
        for (name, time) in names.iter().zip(&row.times) {
            match time {
                Some(time) => write!(out, ",\"{name}\":{time}")?,
                None => write!(out, ",\"{name}\":null")?,
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn csv(out: &mut impl Write, (by, names): (By, &[&str]), rows: &[Numbers<'_>]) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let headings = headings(by);
    out.write_record(headings.iter().chain(&["calls"]).chain(names)).map_err(io_error)?;
    for row in rows {
        let values = match row.group {
            Group::Function(_, name) => {
                let address = name.address.map(|address| address.to_string());
                vec![name.text.clone(), name.module.clone(), address.unwrap_or_default()]
            }
            Group::File(path) => vec![path.clone()],
            Group::Thread { pid, tid, name } => {
                vec![pid.to_string(), tid.to_string(), name.clone()]
            }
            Group::Nobody => vec![String::new(); headings.len()],
        };
        let number = |time: &Option<u64>| time.map(|time| time.to_string()).unwrap_or_default();
        let numbers = std::iter::once(row.calls.to_string()).chain(row.times.iter().map(number));
        out.write_record(values.into_iter().chain(numbers)).map_err(io_error)?;
    }
    out.flush()
}
