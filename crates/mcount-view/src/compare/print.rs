//! Printing what is different between traces: as text, as JSON, as comma-separated values and as a table of
//! Markdown.

use super::{Change, Comparison, Kind, Row, Rule};
use crate::words::{counted, printable};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use std::io::{self, Write};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonFormat {
    /// Aligned columns.
    Text,
    /// One JSON object a function and line.
    Jsonl,
    /// Comma-separated values; the first line names them.
    Csv,
    /// A table for a comment on a change.
    Markdown,
}

/// Prints what is different.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    out: &mut dyn Write,
    comparison: &Comparison,
    rule: &Rule,
    format: ComparisonFormat,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    match format {
        ComparisonFormat::Text => text(&mut out, comparison, rule)?,
        ComparisonFormat::Jsonl => {
            for row in &comparison.rows {
                writeln!(out, "{}", Value::from_iter(fields(row, comparison.kind)))?;
            }
        }
        ComparisonFormat::Csv => csv(&mut out, comparison)?,
        ComparisonFormat::Markdown => markdown(&mut out, comparison, rule)?,
    }
    out.flush()
}

/// Noise in per cent. Beyond this, the number says no more than that nothing is known: of a function that two traces have one call of each, it may have
/// 30 digits.
fn noise_in_percent(part: f64) -> String {
    const MOST: f64 = 10.0;
    if part > MOST { format!(">{}", percent(MOST)) } else { percent(part) }
}

/// A part of 1 in per cent.
fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.1} %", part * 100.0) } else { String::new() }
}

fn signed(part: f64) -> String {
    if part.is_finite() { format!("{:+.1} %", part * 100.0) } else { String::new() }
}

/// Nanoseconds in the unit that has them in three digits before the point.
fn time(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        0.0..1e3 => (nanoseconds, "ns"),
        1e3..1e6 => (nanoseconds / 1e3, "us"),
        1e6..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s "),
    };
    format!("{number:.3} {unit}")
}

/// `300`, or `300 -> 330 (+10.0 %)`.
fn calls(calls: Change, kind: Kind) -> String {
    let Change { old, new, difference, .. } = calls;
    let number = |number: f64| match kind {
        Kind::Samples if number < 100.0 => format!("{number:.2}"),
        Kind::Samples => format!("{number:.0}"),
        Kind::Traces => number.to_string(),
    };
    let (old, new) = (number(old), number(new));
    if !calls.counts {
        return new;
    }
    match signed(difference) {
        part if part.is_empty() => format!("{old} -> {new}"),
        part => format!("{old} -> {new} ({part})"),
    }
}

/// The differences, in words for people.
fn change(row: &Row) -> String {
    let words = row.words();
    if words.is_empty() { "same".to_owned() } else { words.join(", ").replace('-', " ") }
}

fn function(row: &Row) -> String {
    let name = printable(&row.key.name);
    match row.key.module.as_str() {
        "" => name.into_owned(),
        module => format!("{name} ({})", printable(module)),
    }
}

/// A row as text: change, old and new time, difference, noise, calls, function.
fn cells(row: &Row, kind: Kind) -> [String; 7] {
    let [old, new, difference, noise] = row.time.map_or_else(Default::default, |change| {
        let noise = change.noise.map(noise_in_percent).unwrap_or_default();
        let [old, new] = row.shown.unwrap_or([change.old, change.new]);
        // Where slow calls hide it, the faster ones show a difference.
        let is_unlike =
            (new / old - 1.0 - change.difference).abs() > 0.01 + 0.2 * change.difference.abs();
        let of = change.share.filter(|_| is_unlike && !row.words().is_empty());
        let of = of.map(|share| format!(" (fastest {:.0} %)", share * 100.0)).unwrap_or_default();
        [time(old), time(new), format!("{}{of}", signed(change.difference)), noise]
    });
    [change(row), old, new, difference, noise, calls(row.calls, kind), function(row)]
}

fn headings(kind: Kind) -> [&'static str; 7] {
    let calls = match kind {
        Kind::Traces => "CALLS",
        Kind::Samples => "CALLS/s",
    };
    ["CHANGE", "OLD", "NEW", "DIFF", "NOISE", calls, "FUNCTION"]
}

fn text(out: &mut impl Write, comparison: &Comparison, rule: &Rule) -> io::Result<()> {
    let kind = comparison.kind;
    let lines: Vec<[String; 7]> = comparison.rows.iter().map(|row| cells(row, kind)).collect();
    let headings = headings(kind);
    if !lines.is_empty() {
        let widths: [usize; 7] = std::array::from_fn(|at| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            longest.max(headings.get(at).map_or(0, |heading| heading.len()))
        });
        line(out, &headings, &widths, Style::new())?;
        for (cells, row) in lines.iter().zip(&comparison.rows) {
            let style = match row.is_worse() {
                _ if row.words().is_empty() => Style::new(),
                true => AnsiColor::Red.on_default(),
                false => AnsiColor::Green.on_default(),
            };
            line(out, &cells.each_ref().map(String::as_str), &widths, style)?;
        }
    }
    writeln!(out, "{}", summary(comparison, rule))
}

fn line(
    out: &mut impl Write,
    [change, old, new, difference, noise, calls, function]: &[&str; 7],
    [wide, times, news, differences, noises, counts, _]: &[usize; 7],
    style: Style,
) -> io::Result<()> {
    writeln!(
        out,
        "{style}{change:wide$}{style:#}  {old:>times$}  {new:>news$}  {difference:>differences$}  \
         {noise:>noises$}  {calls:>counts$}  {function}"
    )
}

/// The compared traces, and the findings.
fn summary(comparison: &Comparison, rule: &Rule) -> String {
    let [old, new] = comparison.traces;
    let functions = counted(comparison.functions, "function", "functions");
    let (one, several) = match comparison.kind {
        Kind::Traces => ("trace", "traces"),
        Kind::Samples => ("sample", "samples"),
    };
    let traces = format!("{} against {new}", counted(old, one, several));
    let threshold = percent(rule.threshold);
    let found = match comparison.differences {
        0 => format!("No difference above {threshold} in {functions}"),
        some => format!("{some} of {functions} differ by more than {threshold}"),
    };
    let noise = comparison.noise.map(|noise| {
        let which = match comparison.kind {
            Kind::Traces => "those called often",
            Kind::Samples => "those with intervals",
        };
        format!("; in half of {which}, differences in time below {} are noise", percent(noise))
    });
    let disturbed = match comparison.disturbed {
        0 => String::new(),
        some => format!(" ({some} slower as a whole)"),
    };
    let left_out = match comparison.left_out {
        0 => String::new(),
        some => {
            let functions = counted(some, "function was", "functions were");
            format!("; {functions} left out of the samples of a side, so nothing is said of them")
        }
    };
    format!("{found}: {traces}{disturbed}{}{left_out}", noise.unwrap_or_default())
}

/// A row for programs.
fn fields(row: &Row, kind: Kind) -> [(&'static str, Value); 12] {
    let [old_calls, new_calls] = match kind {
        Kind::Traces => ["old_calls", "new_calls"],
        Kind::Samples => ["old_calls_per_second", "new_calls_per_second"],
    };
    let calls = row.calls;
    let time = |of: fn(Change) -> f64| row.time.map(of).filter(|number| number.is_finite());
    [
        ("function", json!(row.key.name)),
        ("module", json!(row.key.module)),
        ("changes", json!(row.words())),
        ("old_ns", json!(row.shown.map(|[old, _]| old))),
        ("new_ns", json!(row.shown.map(|[_, new]| new))),
        ("time_difference", json!(time(|time| time.difference))),
        ("time_noise", json!(row.time.and_then(|time| time.noise))),
        ("time_share", json!(row.time.and_then(|time| time.share))),
        (old_calls, json!(calls.old)),
        (new_calls, json!(calls.new)),
        ("calls_difference", json!(Some(calls.difference).filter(|part| part.is_finite()))),
        ("calls_noise", json!(calls.noise)),
    ]
}

fn csv(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let error = |error: csv::Error| io::Error::other(error);
    let none =
        Row { key: super::Key::default(), calls: Change::default(), time: None, shown: None };
    out.write_record(fields(&none, comparison.kind).map(|(name, _)| name)).map_err(error)?;
    for row in &comparison.rows {
        let cells = fields(row, comparison.kind).map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(text) => printable(&text).into_owned(),
            Value::Array(_) => row.words().join(" "),
            other => other.to_string(),
        });
        out.write_record(cells).map_err(error)?;
    }
    out.flush()
}

fn markdown(out: &mut impl Write, comparison: &Comparison, rule: &Rule) -> io::Result<()> {
    if !comparison.rows.is_empty() {
        writeln!(
            out,
            "| {} |\n|---|---:|---:|---:|---:|---:|---|",
            headings(comparison.kind).join(" | ").to_lowercase()
        )?;
        for row in &comparison.rows {
            let mut cells = cells(row, comparison.kind);
            if let Some(name) = cells.last_mut() {
                *name = format!("`{}`", name.replace('`', "'").replace('|', "\\|"));
            }
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}.", summary(comparison, rule))
}
