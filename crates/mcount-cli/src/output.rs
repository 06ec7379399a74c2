//! Printing call sites: aligned text for people, one JSON object a line for programs.

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
    sites: &Sites,
) -> io::Result<()> {
    match format {
        Format::Text => text(out, demangle, &label.to_string(), sites),
        Format::Jsonl => sites.sites.iter().try_for_each(|site| jsonl(out, demangle, label, site)),
    }
}

fn jsonl(out: &mut impl Write, demangle: bool, label: &Label, site: &CallSite) -> io::Result<()> {
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
    });
    writeln!(out, "{line}")
}

/// Prints the sites of a linked image, a JSON object a line.
///
/// # Errors
///
/// Those of `out`.
pub fn late_jsonl(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let label = Label::of(path);
    table.sites.iter().try_for_each(|site| jsonl(out, false, &label, site))
}

/// Prints the sites of a linked image as text, with what they are known by.
///
/// # Errors
///
/// Those of `out`.
pub fn late_text(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let sites = Sites {
        machine: table.machine,
        bits: table.bits,
        big_endian: table.big_endian,
        sites: table.sites.clone(),
    };
    text(out, false, &path.display().to_string(), &sites)?;
    for (source, count) in &table.sources {
        writeln!(out, "by {}: {count}", source.name())?;
    }
    Ok(())
}

const HEADINGS: [&str; 6] = ["SECTION", "OFFSET", "FUNCTION", "KIND", "HOOK", "TABLE"];

/// Prints `sites` under a line that begins with `title`.
///
/// # Errors
///
/// Those of `out`.
pub fn text(out: &mut impl Write, demangle: bool, title: &str, sites: &Sites) -> io::Result<()> {
    let order = if sites.big_endian { "big endian" } else { "little endian" };
    let count = sites.sites.len();
    let noun = if count == 1 { "site" } else { "sites" };
    let bold = Style::new().bold();
    writeln!(
        out,
        "{bold}{title}{bold:#}: {} {}-bit {order}, {count} {noun}",
        sites.machine, sites.bits
    )?;
    let rows: Vec<_> = sites.sites.iter().map(|site| row(site, demangle)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let is_image = sites.sites.iter().any(|site| site.section.is_some() && site.address.is_some());
    let mut widths = HEADINGS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut headings = HEADINGS.map(str::to_owned);
    if let (Some(place), true) = (headings.get_mut(1), is_image) {
        "ADDRESS".clone_into(place);
    }
    line(out, &headings, &widths, Style::new().dimmed())?;
    for (row, site) in rows.iter().zip(&sites.sites) {
        let style = match (site.recorded, site.excluded) {
            (true, false) => Style::new(),
            (_, true) => Style::new().dimmed(),
            (false, false) => AnsiColor::Yellow.on_default(),
        };
        line(out, row, &widths, style)?;
    }
    Ok(())
}

fn row(site: &CallSite, demangle: bool) -> [String; 6] {
    let dash = || "-".to_owned();
    let offset = site.address.or(site.offset).unwrap_or(0);
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
        match (site.recorded, site.excluded) {
            (true, false) => "recorded",
            (true, true) => "recorded, excluded",
            (false, true) => "excluded",
            (false, false) => "missing",
        }
        .to_owned(),
    ]
}

fn line(
    out: &mut impl Write,
    cells: &[String; 6],
    widths: &[usize; 6],
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
fn name_of(name: &str, demangle: bool) -> String {
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
