//! Printing rows: text, jsonl, csv.

use super::{By, Group, Printed};
use crate::replay::time::Duration;
use crate::replay::{csv::io_error, json_string};
use serde_json::json;
use std::io::{self, Write};

/// The names of the times, in the order of columns.
const TIMES: [&str; 7] =
    ["total_ns", "self_ns", "mean_ns", "min_ns", "median_ns", "p99_ns", "max_ns"];

/// The headings of the columns before the numbers.
fn headings(by: By) -> &'static [&'static str] {
    match by {
        By::Function => &["function", "module", "address"],
        By::Module => &["module"],
        By::Source => &["source"],
        By::Thread => &["process", "thread", "name"],
        By::Caller => &["caller", "module", "address"],
    }
}

pub(super) fn text(out: &mut impl Write, by: By, rows: &[Printed<'_>]) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {}",
        "CALLS",
        "TOTAL",
        "SELF",
        "MEAN",
        "MIN",
        "MEDIAN",
        "P99",
        "MAX",
        match by {
            By::Function => "FUNCTION",
            By::Module => "MODULE",
            By::Source => "SOURCE",
            By::Thread => "THREAD",
            By::Caller => "CALLER",
        }
    )?;
    for row in rows {
        write!(out, "{:>10} ", row.calls)?;
        match row.times {
            Some(times) => {
                for time in times {
                    write!(out, "{} ", Duration(time))?;
                }
            }
            None => (0..TIMES.len()).try_for_each(|_| write!(out, "{:>10} ", "-"))?,
        }
        writeln!(out, "{}", crate::words::printable(&row.group.name()))?;
    }
    Ok(())
}

pub(super) fn jsonl(out: &mut impl Write, by: By, rows: &[Printed<'_>]) -> io::Result<()> {
    for row in rows {
        let values = match row.group {
            Group::Function(name) => {
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
        for (at, name) in TIMES.into_iter().enumerate() {
            match row.times.and_then(|times| times.get(at).copied()) {
                Some(time) => write!(out, ",\"{name}\":{time}")?,
                None => write!(out, ",\"{name}\":null")?,
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

pub(super) fn csv(out: &mut impl Write, by: By, rows: &[Printed<'_>]) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let headings = headings(by);
    let names = headings.iter().copied().chain(["calls"]).chain(TIMES);
    out.write_record(names).map_err(io_error)?;
    for row in rows {
        let values = match row.group {
            Group::Function(name) => {
                let address = name.address.map(|address| address.to_string());
                vec![name.text.clone(), name.module.clone(), address.unwrap_or_default()]
            }
            Group::File(path) => vec![path.clone()],
            Group::Thread { pid, tid, name } => {
                vec![pid.to_string(), tid.to_string(), name.clone()]
            }
            Group::Nobody => vec![String::new(); headings.len()],
        };
        let times = row.times.map(|times| times.map(|time| time.to_string()));
        let numbers = std::iter::once(row.calls.to_string()).chain(times.unwrap_or_default());
        out.write_record(values.into_iter().chain(numbers)).map_err(io_error)?;
    }
    out.flush()
}
