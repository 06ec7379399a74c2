//! Comma-separated values (RFC 4180). The first line names the columns.

use super::{Count, Export, Listing, Named, Out, Row, name_of};
use crate::inputs::Label;
use mcount::Kind;
use std::io::{self, Write};

/// Comma-separated values.
pub(super) struct Csv;

const HEADINGS: [&str; 16] = [
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
    "btf",
];

impl Export for Csv {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write_all(out, [HEADINGS])
    }

    fn sites(&mut self, out: Out<'_>, of: Named<'_>, listing: &Listing) -> io::Result<()> {
        write_all(out, listing.rows().map(|row| record(of.demangle, of.label, row)))
    }

    fn counts(&mut self, out: Out<'_>, what: &str, counts: &[Count]) -> io::Result<()> {
        write_all(out, [[what, "count"]])?;
        write_all(out, counts.iter().map(|(key, count)| [key.clone(), count.to_string()]))
    }
}

/// Writes lines of fields.
pub(crate) fn write_all<const COLUMNS: usize, F: AsRef<[u8]>>(
    out: &mut dyn Write,
    records: impl IntoIterator<Item = [F; COLUMNS]>,
) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    for record in records {
        out.write_record(record).map_err(io_error)?;
    }
    out.flush()
}

/// What `csv` fails with, when memory does not: the error of what it writes to.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        _ => io::Error::other("cannot be written as comma-separated values"),
    }
}

fn record(demangle: bool, label: &Label, row: Row<'_>) -> [String; 16] {
    let site = row.site;
    [
        label.file.to_string_lossy().into_owned(),
        label.member.clone().unwrap_or_default(),
        text(site.section.as_deref()),
        number(site.offset),
        number(site.address),
        name_of(site.symbol.as_deref().unwrap_or_default(), demangle).into_owned(),
        site.symbol_offset.map(|offset| offset.to_string()).unwrap_or_default(),
        text(site.kind.map(Kind::name)),
        text(site.hook.as_deref()),
        number(site.size),
        site.recorded.to_string(),
        site.excluded.to_string(),
        row.status.name().to_owned(),
        text(row.line.map(|line| &*line.file)),
        number(row.line.map(|line| line.line.into())),
        row.btf.map(|is_known| is_known.to_string()).unwrap_or_default(),
    ]
}

/// Empty where there is nothing.
fn text(field: Option<&str>) -> String {
    field.unwrap_or_default().to_owned()
}

/// Empty where there is nothing.
fn number(field: Option<u64>) -> String {
    field.map(|number| number.to_string()).unwrap_or_default()
}
