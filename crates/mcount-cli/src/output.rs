//! Printing call sites: aligned text for people, one JSON object a line or comma-separated values for
//! programs; and counts of them.

use crate::debug::lines::Line;
use crate::inputs::Label;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use mcount::{CallSite, Kind, LateTable, Recording, Sites, Status};
use serde_json::json;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, StdoutLock, Write};
use std::path::Path;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    Text,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values (RFC 4180), the first line names them.
    Csv,
}

/// The sites of one file, with what is known of each.
#[derive(Debug)]
pub struct Listing {
    /// The sites.
    pub sites: Sites,
    /// For each of them.
    pub statuses: Vec<Status>,
    /// For each of them, where source lines were asked for.
    pub lines: Option<Vec<Option<Line>>>,
    /// They are the entries of a table, which need not be sites.
    pub is_table: bool,
}

/// A site, with what is known of it.
#[derive(Clone, Copy)]
struct Row<'l> {
    site: &'l CallSite,
    status: Status,
    /// Source lines were asked for.
    has_line: bool,
    line: Option<&'l Line>,
}

impl Listing {
    /// `sites` with the status that they themselves say.
    #[must_use]
    pub fn new(sites: Sites) -> Self {
        let statuses = sites.sites.iter().map(CallSite::status).collect();
        Self { sites, statuses, lines: None, is_table: false }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let with_status = self.sites.sites.iter().zip(&self.statuses).enumerate();
        with_status.map(|(at, (site, status))| Row {
            site,
            status: *status,
            has_line: self.lines.is_some(),
            line: self.lines.as_ref().and_then(|lines| lines.get(at)?.as_ref()),
        })
    }
}

/// Standard output. Text that `is_for_people` has colours where they are wanted; what programs read is
/// written byte for byte, for without a terminal the other way takes control characters out.
#[must_use]
pub fn stdout(is_for_people: bool) -> anstream::AutoStream<StdoutLock<'static>> {
    if is_for_people {
        anstream::stdout().lock()
    } else {
        anstream::AutoStream::always_ansi(io::stdout().lock())
    }
}

/// Prints the sites of the file or member `label`.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    out: &mut impl Write,
    format: Format,
    demangle: bool,
    label: &Label,
    listing: &Listing,
) -> io::Result<()> {
    match format {
        Format::Text => text(out, demangle, &label.to_string(), listing),
        Format::Jsonl => listing.rows().try_for_each(|row| jsonl(out, demangle, label, row)),
        Format::Csv => {
            let mut out = csv::Writer::from_writer(out);
            let records = listing.rows().map(|row| csv_record(demangle, label, row));
            for record in records {
                out.write_record(&record).map_err(io_error)?;
            }
            out.flush()
        }
    }
}

const CSV_HEADINGS: [&str; 15] = [
    "file",
    "member",
    "section",
    "offset",
    "address",
    "symbol",
    "symbol_offset",
    "kind",
    "hook",
    "size",
    "recorded",
    "excluded",
    "status",
    "source_file",
    "source_line",
];

/// Prints what comes before all sites in `format`.
///
/// # Errors
///
/// Those of `out`.
pub fn print_head(out: &mut impl Write, format: Format) -> io::Result<()> {
    if format != Format::Csv {
        return Ok(());
    }
    let mut out = csv::Writer::from_writer(out);
    out.write_record(CSV_HEADINGS).map_err(io_error)?;
    out.flush()
}

/// What `csv` fails with, when memory does not: the error of what it writes to.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn text_of(name: Option<&str>) -> String {
    name.unwrap_or_default().to_owned()
}

fn csv_record(demangle: bool, label: &Label, row: Row<'_>) -> [String; 15] {
    let site = row.site;
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    [
        label.file.to_string_lossy().into_owned(),
        label.member.clone().unwrap_or_default(),
        text_of(site.section.as_deref()),
        number(site.offset),
        number(site.address),
        name_of(site.symbol.as_deref().unwrap_or_default(), demangle).into_owned(),
        site.symbol_offset.map(|offset| offset.to_string()).unwrap_or_default(),
        site.kind.map(Kind::name).unwrap_or_default().to_owned(),
        text_of(site.hook.as_deref()),
        number(site.size),
        site.recorded.to_string(),
        site.excluded.to_string(),
        row.status.name().to_owned(),
        row.line.map(|line| line.file.to_string()).unwrap_or_default(),
        number(row.line.map(|line| line.line.into())),
    ]
}

fn jsonl(out: &mut impl Write, demangle: bool, label: &Label, row: Row<'_>) -> io::Result<()> {
    let site = row.site;
    let line = json!({
        "file": label.file.to_string_lossy(),
        "member": label.member,
        "section": site.section.as_deref(),
        "offset": site.offset,
        "address": site.address,
        "symbol": site.symbol.as_deref().map(|name| name_of(name, demangle)),
        "symbol_offset": site.symbol_offset,
        "kind": site.kind.map(Kind::name),
        "hook": site.hook.as_deref(),
        "size": site.size,
        "recorded": site.recorded,
        "excluded": site.excluded,
        "status": row.status.name(),
        "source_file": row.line.map(|line| &*line.file),
        "source_line": row.line.map(|line| line.line),
    });
    writeln!(out, "{line}")
}

/// Prints how many sites each of several things has.
///
/// # Errors
///
/// Those of `out`.
pub fn counts(
    out: &mut impl Write,
    format: Format,
    what: &str,
    counts: &[(String, usize)],
) -> io::Result<()> {
    match format {
        Format::Text => {
            let largest = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
            let width = largest.to_string().len();
            counts
                .iter()
                .try_for_each(|(key, count)| writeln!(out, "{count:width$}  {}", printable(key)))
        }
        Format::Jsonl => counts
            .iter()
            .try_for_each(|(key, count)| writeln!(out, "{}", json!({ what: key, "count": count }))),
        Format::Csv => {
            let mut out = csv::Writer::from_writer(out);
            out.write_record([what, "count"]).map_err(io_error)?;
            for (key, count) in counts {
                out.write_record([key.as_str(), &count.to_string()]).map_err(io_error)?;
            }
            out.flush()
        }
    }
}

/// Prints the sites of a linked image, a JSON object a line.
///
/// # Errors
///
/// Those of `out`.
pub fn late_jsonl(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let label = Label::of(path);
    Listing::new(table.to_sites()).rows().try_for_each(|row| jsonl(out, false, &label, row))
}

/// Prints the sites of a linked image as text, with what they are known by.
///
/// # Errors
///
/// Those of `out`.
pub fn late_text(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let listing = Listing::new(table.to_sites());
    text(out, false, &path.display().to_string(), &listing)?;
    for (source, count) in &table.sources {
        writeln!(out, "by {}: {count}", source.name())?;
    }
    Ok(())
}

/// Prints `listing` under a line that begins with `title`.
///
/// # Errors
///
/// Those of `out`.
pub fn text(
    out: &mut impl Write,
    demangle: bool,
    title: &str,
    listing: &Listing,
) -> io::Result<()> {
    let sites = &listing.sites;
    let order = if sites.big_endian { "big endian" } else { "little endian" };
    let count = sites.sites.len();
    let noun = match (listing.is_table, count) {
        (false, 1) => "site",
        (false, _) => "sites",
        (true, 1) => "entry",
        (true, _) => "entries",
    };
    let bold = Style::new().bold();
    let title = printable(title);
    writeln!(
        out,
        "{bold}{title}{bold:#}: {} {}-bit {order}, {count} {noun}",
        sites.machine, sites.bits
    )?;
    if sites.sites.is_empty() {
        return Ok(());
    }
    let is_image = sites.sites.iter().any(|site| site.section.is_some() && site.address.is_some());
    let mut cells = Cells::default();
    for row in listing.rows() {
        cells.add(row, demangle);
    }
    let headings = [
        "SECTION",
        if is_image { "ADDRESS" } else { "OFFSET" },
        "FUNCTION",
        "KIND",
        "HOOK",
        "TABLE",
        if listing.lines.is_some() { "SOURCE" } else { "" },
    ];
    let widths = cells.widths(headings);
    let mut text = String::new();
    line(out, &mut text, headings, &widths, Style::new().dimmed())?;
    for (row, status) in cells.rows().zip(&listing.statuses) {
        let style = match status {
            Status::Recorded => Style::new(),
            Status::RecordedExcluded | Status::Excluded | Status::Dropped => Style::new().dimmed(),
            _ => AnsiColor::Yellow.on_default(),
        };
        line(out, &mut text, row, &widths, style)?;
    }
    Ok(())
}

/// In a line of text.
const COLUMNS: usize = 7;

/// The cells of many lines, one behind the other.
#[derive(Default)]
struct Cells {
    text: String,
    /// Where each cell ends in `text`.
    ends: Vec<[usize; COLUMNS]>,
}

impl Cells {
    fn add(&mut self, row: Row<'_>, demangle: bool) {
        let site = row.site;
        let mut ends = [0; COLUMNS];
        let mut cell = 0;
        let mut add = |text: &mut String, parts: fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = fmt::Write::write_fmt(text, parts);
            if let Some(end) = ends.get_mut(cell) {
                *end = text.len();
            }
            cell += 1;
        };
        let text = &mut self.text;
        add(text, format_args!("{}", printable(site.section.as_deref().unwrap_or("-"))));
        add(text, format_args!("{:#x}", site.address.or(site.offset).unwrap_or(0)));
        match &site.symbol {
            Some(name) => {
                let distance = site.symbol_offset.unwrap_or(0);
                let sign = if distance < 0 { '-' } else { '+' };
                let name = name_of(name, demangle);
                let name = printable(&name);
                add(text, format_args!("{name}{sign}{:#x}", distance.unsigned_abs()));
            }
            None => add(text, format_args!("-")),
        }
        add(text, format_args!("{}", site.kind.map_or("not a site", Kind::name)));
        add(text, format_args!("{}", printable(site.hook.as_deref().unwrap_or("-"))));
        add(text, format_args!("{}", row.status.name()));
        match row.line {
            Some(line) => add(text, format_args!("{}:{}", printable(&line.file), line.line)),
            None => add(text, format_args!("{}", if row.has_line { "-" } else { "" })),
        }
        self.ends.push(ends);
    }

    fn rows(&self) -> impl Iterator<Item = [&str; COLUMNS]> {
        let mut start = 0;
        self.ends.iter().map(move |ends| {
            ends.map(|end| self.text.get(std::mem::replace(&mut start, end)..end).unwrap_or(""))
        })
    }

    /// How wide each column is, in characters, with `headings` over it.
    fn widths(&self, headings: [&str; COLUMNS]) -> [usize; COLUMNS] {
        let mut widths = headings.map(str::len);
        for row in self.rows() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(characters(cell));
            }
        }
        widths
    }
}

fn characters(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Prints a line of `cells`; `text` is room to make it in.
fn line(
    out: &mut impl Write,
    text: &mut String,
    cells: [&str; COLUMNS],
    widths: &[usize; COLUMNS],
    style: Style,
) -> io::Result<()> {
    text.clear();
    let mut missing = 0;
    for (cell, width) in cells.into_iter().zip(widths) {
        text.extend(std::iter::repeat_n(' ', missing + 2));
        text.push_str(cell);
        missing = width.saturating_sub(characters(cell));
    }
    let text = text.trim_end();
    if style.is_plain() { writeln!(out, "{text}") } else { writeln!(out, "{style}{text}{style:#}") }
}

/// What was done to the file or member `label`.
///
/// # Errors
///
/// Those of `out`.
pub fn recorded(out: &mut impl Write, label: &Label, recording: &Recording) -> io::Result<()> {
    let done = if recording.changed { "recorded" } else { "unchanged" };
    let count = recording.recorded;
    let noun = if count == 1 { "entry" } else { "entries" };
    writeln!(out, "{}: {done}, {count} {noun}", printable(&label.to_string()))?;
    for section in &recording.excluded {
        let (made, left) = (section.made_nops, section.left);
        let name = printable(&section.name);
        writeln!(out, "  {name}: excluded, {made} made NOPs, {left} left alone")?;
    }
    Ok(())
}

/// The name of a function, as in its source if `demangle`.
pub(crate) fn name_of(name: &str, demangle: bool) -> Cow<'_, str> {
    if !demangle {
        return name.into();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    let options = cpp_demangle::DemangleOptions::new();
    let symbol = cpp_demangle::Symbol::new(name).ok();
    let plain = symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok());
    plain.map_or(name.into(), Cow::from)
}

/// A name without what would move the cursor or begin a line.
pub(crate) fn printable(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    let escape =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(escape).collect()
}
