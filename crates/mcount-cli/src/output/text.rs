//! Aligned columns for people, with colours on a terminal.

use super::{Count, Export, Listing, Named, Out, Row, name_of, printable};
use crate::inputs::Label;
use crate::words::counted;
use anstyle::{AnsiColor, Style};
use mcount::{Kind, Status};
use std::fmt;
use std::io::{self, Write};

/// Aligned columns.
pub(super) struct Text;

impl Export for Text {
    fn sites(&mut self, out: Out<'_>, of: Named<'_>, listing: &Listing) -> io::Result<()> {
        title(out, of.label, listing)?;
        if listing.sites.sites.is_empty() { Ok(()) } else { table(out, of.demangle, listing) }
    }

    fn counts(&mut self, out: Out<'_>, _what: &str, counts: &[Count]) -> io::Result<()> {
        let largest = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let width = largest.to_string().len();
        counts
            .iter()
            .try_for_each(|(key, count)| writeln!(out, "{count:width$}  {}", printable(key)))
    }
}

/// The list, and how much of it is printed.
fn title(out: &mut dyn Write, label: &Label, listing: &Listing) -> io::Result<()> {
    let sites = &listing.sites;
    let order = if sites.big_endian { "big endian" } else { "little endian" };
    let (one, many) = if sites.is_table { ("entry", "entries") } else { ("site", "sites") };
    let count = counted(sites.sites.len(), one, many);
    let bold = Style::new().bold();
    let name = label.to_string();
    let name = printable(&name);
    writeln!(out, "{bold}{name}{bold:#}: {} {}-bit {order}, {count}", sites.machine, sites.bits)
}

/// The sites, a line each, under a line of headings.
fn table(out: &mut dyn Write, demangle: bool, listing: &Listing) -> io::Result<()> {
    let sites = &listing.sites.sites;
    let is_image = sites.iter().any(|site| site.section.is_some() && site.address.is_some());
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
        if listing.btf.is_some() { "BTF" } else { "" },
        if listing.lines.is_some() { "SOURCE" } else { "" },
    ];
    let widths = cells.widths(headings);
    let mut text = String::new();
    line(out, &mut text, headings, &widths, Style::new().dimmed())?;
    for (cells, row) in cells.rows().zip(listing.rows()) {
        line(out, &mut text, cells, &widths, style(row.status))?;
    }
    Ok(())
}

/// Lines without a finding are plain or dimmed; lines that deserve a look are yellow.
fn style(status: Status) -> Style {
    match status {
        Status::Recorded => Style::new(),
        Status::RecordedExcluded | Status::Excluded | Status::Dropped => Style::new().dimmed(),
        _ => AnsiColor::Yellow.on_default(),
    }
}

/// In a line of text.
const COLUMNS: usize = 8;

/// The cells of many lines, one after the other.
#[derive(Default)]
struct Cells {
    text: String,
    /// Where each cell ends in `text`.
    ends: Vec<[usize; COLUMNS]>,
}

impl Cells {
    /// Adds the cells of a line.
    fn add(&mut self, row: Row<'_>, demangle: bool) {
        let site = row.site;
        let ends = [
            self.cell(format_args!("{}", printable(site.section.as_deref().unwrap_or("-")))),
            self.cell(format_args!("{:#x}", site.address.or(site.offset).unwrap_or(0))),
            self.function(row, demangle),
            self.cell(format_args!("{}", site.kind.map_or("not a site", Kind::name))),
            self.cell(format_args!("{}", printable(site.hook.as_deref().unwrap_or("-")))),
            self.cell(format_args!("{}", row.status.name())),
            self.cell(format_args!(
                "{}",
                row.btf.map_or("", |known| if known { "yes" } else { "no" })
            )),
            match row.line {
                Some(line) => self.cell(format_args!("{}:{}", printable(&line.file), line.line)),
                None => self.cell(format_args!("{}", if row.has_line { "-" } else { "" })),
            },
        ];
        self.ends.push(ends);
    }

    /// Adds the cell that says where in which function a site is.
    fn function(&mut self, row: Row<'_>, demangle: bool) -> usize {
        let Some(name) = &row.site.symbol else { return self.cell(format_args!("-")) };
        let distance = row.site.symbol_offset.unwrap_or(0);
        let sign = if distance < 0 { '-' } else { '+' };
        let name = name_of(name, demangle);
        let name = printable(&name);
        self.cell(format_args!("{name}{sign}{:#x}", distance.unsigned_abs()))
    }

    /// Adds a cell; where it ends.
    fn cell(&mut self, text: fmt::Arguments<'_>) -> usize {
        // Writing to a String cannot fail.
        let _ = fmt::Write::write_fmt(&mut self.text, text);
        self.text.len()
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
    out: &mut dyn Write,
    text: &mut String,
    cells: [&str; COLUMNS],
    widths: &[usize; COLUMNS],
    style: Style,
) -> io::Result<()> {
    text.clear();
    let mut missing = 0;
    // A column that nothing is in takes no room.
    for (cell, width) in cells.into_iter().zip(widths).filter(|(_, width)| **width != 0) {
        text.extend(std::iter::repeat_n(' ', missing + 2));
        text.push_str(cell);
        missing = width.saturating_sub(characters(cell));
    }
    let text = text.trim_end();
    if style.is_plain() { writeln!(out, "{text}") } else { writeln!(out, "{style}{text}{style:#}") }
}
