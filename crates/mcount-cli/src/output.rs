//! Printing call sites: aligned text for people, one JSON object a line or comma-separated values for
//! programs; and counts of them.

use crate::debug::lines::Line;
use crate::inputs::Label;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use mcount::{CallSite, Kind, LateTable, Recording, Sites};
use serde_json::json;
use std::fmt;
use std::io::{self, Write};
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

/// What an entry of a table, or a site, is in respect of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In the table, as it should be.
    Recorded,
    /// In the table, though the section policy leaves it out.
    RecordedExcluded,
    /// Not in the table, by the section policy.
    Excluded,
    /// A site that the table has not.
    Missing,
    /// An entry that leads into a function, and to no site.
    NotASite,
    /// An entry that no function covers.
    Stale,
    /// An entry that is zero: a function that was overridden had it.
    Dropped,
    /// An entry that leads to no section of the file.
    Nowhere,
}

impl Status {
    /// What the site itself says of it.
    #[must_use]
    pub fn of(site: &CallSite) -> Self {
        match (site.recorded, site.excluded) {
            (true, false) => Self::Recorded,
            (true, true) => Self::RecordedExcluded,
            (false, true) => Self::Excluded,
            (false, false) => Self::Missing,
        }
    }

    /// The name that output has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::RecordedExcluded => "recorded, excluded",
            Self::Excluded => "excluded",
            Self::Missing => "missing",
            Self::NotASite => "not a site",
            Self::Stale => "stale",
            Self::Dropped => "dropped",
            Self::Nowhere => "nowhere",
        }
    }
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
        let statuses = sites.sites.iter().map(Status::of).collect();
        Self { sites, statuses, lines: None }
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

fn csv_record(demangle: bool, label: &Label, row: Row<'_>) -> [String; 15] {
    let site = row.site;
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    [
        label.file.to_string_lossy().into_owned(),
        label.member.clone().unwrap_or_default(),
        site.section.clone().unwrap_or_default(),
        number(site.offset),
        number(site.address),
        site.symbol.as_deref().map(|name| name_of(name, demangle)).unwrap_or_default(),
        site.symbol_offset.map(|offset| offset.to_string()).unwrap_or_default(),
        site.kind.map(Kind::name).unwrap_or_default().to_owned(),
        site.hook.clone().unwrap_or_default(),
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
        "section": site.section,
        "offset": site.offset,
        "address": site.address,
        "symbol": site.symbol.as_deref().map(|name| name_of(name, demangle)),
        "symbol_offset": site.symbol_offset,
        "kind": site.kind.map(Kind::name),
        "hook": site.hook,
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
    Listing::new(sites_of(table)).rows().try_for_each(|row| jsonl(out, false, &label, row))
}

fn sites_of(table: &LateTable) -> Sites {
    Sites {
        machine: table.machine,
        bits: table.bits,
        big_endian: table.big_endian,
        sites: table.sites.clone(),
    }
}

/// Prints the sites of a linked image as text, with what they are known by.
///
/// # Errors
///
/// Those of `out`.
pub fn late_text(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let listing = Listing::new(sites_of(table));
    text(out, false, &path.display().to_string(), &listing)?;
    for (source, count) in &table.sources {
        writeln!(out, "by {}: {count}", source.name())?;
    }
    Ok(())
}

const HEADINGS: [&str; 7] = ["SECTION", "OFFSET", "FUNCTION", "KIND", "HOOK", "TABLE", "SOURCE"];

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
    let noun = if count == 1 { "site" } else { "sites" };
    let bold = Style::new().bold();
    writeln!(
        out,
        "{bold}{title}{bold:#}: {} {}-bit {order}, {count} {noun}",
        sites.machine, sites.bits
    )?;
    let rows: Vec<_> = listing.rows().map(|row| cells(row, demangle)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let is_image = sites.sites.iter().any(|site| site.section.is_some() && site.address.is_some());
    let mut headings = HEADINGS.map(str::to_owned);
    if let (Some(place), true) = (headings.get_mut(1), is_image) {
        "ADDRESS".clone_into(place);
    }
    if let (Some(last), true) = (headings.last_mut(), listing.lines.is_none()) {
        last.clear();
    }
    let mut widths = HEADINGS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    line(out, &headings, &widths, Style::new().dimmed())?;
    for (row, status) in rows.iter().zip(&listing.statuses) {
        let style = match status {
            Status::Recorded => Style::new(),
            Status::RecordedExcluded | Status::Excluded | Status::Dropped => Style::new().dimmed(),
            _ => AnsiColor::Yellow.on_default(),
        };
        line(out, row, &widths, style)?;
    }
    Ok(())
}

fn cells(row: Row<'_>, demangle: bool) -> [String; 7] {
    let dash = || "-".to_owned();
    let site = row.site;
    let offset = site.address.or(site.offset).unwrap_or(0);
    let source = row.line.map(|line| format!("{}:{}", printable(&line.file), line.line));
    [
        site.section.as_deref().map_or_else(dash, printable),
        format!("{offset:#x}"),
        site.symbol.as_deref().map_or_else(dash, |name| {
            let distance = site.symbol_offset.unwrap_or(0);
            let sign = if distance < 0 { '-' } else { '+' };
            let name = printable(&name_of(name, demangle));
            format!("{name}{sign}{:#x}", distance.unsigned_abs())
        }),
        site.kind.map_or("not a site", Kind::name).to_owned(),
        site.hook.as_deref().map_or_else(dash, printable),
        row.status.name().to_owned(),
        if row.has_line { source.unwrap_or_else(dash) } else { String::new() },
    ]
}

fn line(
    out: &mut impl Write,
    cells: &[String; 7],
    widths: &[usize; 7],
    style: Style,
) -> io::Result<()> {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        // Writing to a String cannot fail.
        let _ = fmt::Write::write_fmt(&mut text, format_args!("  {cell:width$}"));
    }
    writeln!(out, "{style}{}{style:#}", text.trim_end())
}

/// What was done to the file or member `label`.
///
/// # Errors
///
/// Those of `out`.
pub fn recorded(out: &mut impl Write, label: &Label, recording: &Recording) -> io::Result<()> {
    let done = if recording.changed { "recorded" } else { "unchanged" };
    let count = recording.recorded;
    writeln!(out, "{label}: {done}, {count} entries")?;
    for section in &recording.excluded {
        let (made, left) = (section.made_nops, section.left);
        writeln!(out, "  {}: excluded, {made} made NOPs, {left} left alone", section.name)?;
    }
    Ok(())
}

/// The name of a function, as in its source if `demangle`.
pub(crate) fn name_of(name: &str, demangle: bool) -> String {
    if !demangle {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::new();
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok()).unwrap_or(name.to_owned())
}

/// A name without what would move the cursor or begin a line.
pub(crate) fn printable(name: &str) -> String {
    let escape =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(escape).collect()
}
