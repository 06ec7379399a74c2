//! Printing call sites, and counts of them: a file a format, behind [`Export`].

mod csv;
mod jsonl;
mod parquet;
mod text;

pub(crate) use self::csv::write_all as csv_lines;
pub(crate) use self::parquet::Table as ParquetTable;
use crate::debug::lines::Line;
use crate::inputs::Label;
pub(crate) use crate::names::name_of;
use crate::words::counted;
pub(crate) use crate::words::printable;
use clap::ValueEnum;
use mcount::{CallSite, LateTable, Recording, Sites, Status};
use std::io::{self, StdoutLock, Write};
use std::path::Path;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SiteFormat {
    /// Aligned columns.
    Text,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values (RFC 4180), the first line names them.
    Csv,
    /// A table for DuckDB and Spark.
    Parquet,
}

impl SiteFormat {
    /// What prints it.
    #[must_use]
    pub fn export(self) -> Box<dyn Export> {
        match self {
            Self::Text => Box::new(text::Text),
            Self::Jsonl => Box::new(jsonl::Jsonl),
            Self::Csv => Box::new(csv::Csv),
            Self::Parquet => Box::new(parquet::Sites::default()),
        }
    }
}

/// What is printed to.
pub type Out<'o> = &'o mut dyn Write;

/// A thing, and how many sites it has.
pub type Count = (String, usize);

/// What the sites of a file are called.
#[derive(Debug, Clone, Copy)]
pub struct Named<'n> {
    /// The file or member.
    pub label: &'n Label,
    /// Functions are called what their source calls them.
    pub demangle: bool,
}

impl<'n> Named<'n> {
    /// By the names that files have.
    #[must_use]
    pub fn of(label: &'n Label) -> Self {
        Self { label, demangle: false }
    }
}

/// One format.
pub trait Export {
    /// Prints what comes before everything else.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Prints the sites of a file or member.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn sites(&mut self, out: Out<'_>, of: Named<'_>, listing: &Listing) -> io::Result<()>;

    /// Prints how many sites each of several things has; `what` says what they are.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn counts(&mut self, out: Out<'_>, what: &str, counts: &[Count]) -> io::Result<()>;

    /// Prints what comes after all sites.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn tail(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The sites of one file, with what is known of each.
#[derive(Debug)]
pub struct Listing {
    /// The sites, or the entries of the tables.
    pub sites: Sites,
    /// The source line of each, if source lines were asked for.
    pub lines: Option<Vec<Option<Line>>>,
    /// Whether BTF has the function of each, if that was asked for.
    pub btf: Option<Vec<bool>>,
    /// How many functions tell of their calls themselves, if that was asked for.
    pub instrumented: usize,
}

/// A site, with what is known of it.
#[derive(Clone, Copy)]
struct Row<'l> {
    site: &'l CallSite,
    status: Status,
    /// Source lines were asked for.
    has_line: bool,
    line: Option<&'l Line>,
    /// Whether BTF has its function, if that was asked for.
    btf: Option<bool>,
}

impl Listing {
    /// `sites` without source lines.
    #[must_use]
    pub fn new(sites: Sites) -> Self {
        Self { sites, lines: None, btf: None, instrumented: 0 }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.sites.sites.iter().enumerate().map(|(at, site)| Row {
            site,
            status: self.sites.status(site),
            has_line: self.lines.is_some(),
            line: self.lines.as_ref().and_then(|lines| lines.get(at)?.as_ref()),
            btf: self.btf.as_ref().and_then(|btf| btf.get(at).copied()),
        })
    }
}

/// Standard output. Text that `is_for_people` has colours where they are wanted. What programs read is
/// written byte for byte: a stream with colours drops control characters when it isn't a terminal.
#[must_use]
pub fn stdout(is_for_people: bool) -> anstream::AutoStream<StdoutLock<'static>> {
    if is_for_people {
        anstream::stdout().lock()
    } else {
        anstream::AutoStream::always_ansi(io::stdout().lock())
    }
}

/// Prints the sites of a linked image, a JSON object a line.
///
/// # Errors
///
/// Those of `out`.
pub fn late_jsonl(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    SiteFormat::Jsonl.export().sites(
        out,
        Named::of(&Label::of(path)),
        &Listing::new(table.to_sites()),
    )
}

/// Prints the sites of a linked image as text, and how they were found.
///
/// # Errors
///
/// Those of `out`.
pub fn late_text(out: &mut impl Write, path: &Path, table: &LateTable) -> io::Result<()> {
    let listing = Listing::new(table.to_sites());
    SiteFormat::Text.export().sites(out, Named::of(&Label::of(path)), &listing)?;
    for (source, count) in &table.sources {
        writeln!(out, "by {}: {count}", source.name())?;
    }
    Ok(())
}

/// Says what was done to the file or member `label`.
///
/// # Errors
///
/// Those of `out`.
pub fn recorded(out: &mut dyn Write, label: &Label, recording: &Recording) -> io::Result<()> {
    let done = if recording.changed { "recorded" } else { "unchanged" };
    let count = counted(recording.recorded, "entry", "entries");
    write!(out, "{}: {done}, {count}", printable(&label.to_string()))?;
    if recording.split != 0 {
        let split = counted(recording.split, "patchable entry", "patchable entries");
        write!(out, "; list of {split} split")?;
    }
    writeln!(out)?;
    for section in &recording.excluded {
        let made = counted(section.made_nops, "NOP", "NOPs");
        let left = counted(section.left, "call", "calls");
        let name = printable(&section.name);
        write!(out, "  {name}: excluded, {made} made, {left} left alone")?;
        if section.dropped != 0 {
            write!(out, ", {} dropped", counted(section.dropped, "entry", "entries"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
