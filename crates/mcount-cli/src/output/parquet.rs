//! Tables for DuckDB and Spark: the columns of comma-separated values, with types.

use super::{Count, Export, Listing, Named, Out, Row, name_of};
use crate::inputs::Label;
use mcount::Kind as SiteKind;
use mcount_view::parquet::{Column, Field, Group, Kind, Texts, Writer};
use std::io::{self, Write};

/// Rows of a group.
const ROWS: u64 = 1 << 16;

/// A table that is being written.
pub(crate) struct Table {
    fields: &'static [Field],
    /// None if the file couldn't be begun: memory was short.
    writer: Option<Writer<Vec<u8>>>,
    columns: Vec<Column>,
    texts: Texts,
    rows: u64,
}

impl Table {
    /// One with these columns.
    pub(crate) fn new(fields: &'static [Field]) -> Self {
        let columns = fields.iter().map(Column::new).collect();
        let writer = Writer::new(Vec::new(), fields).ok();
        Self { fields, writer, columns, texts: Texts::default(), rows: 0 }
    }

    /// Adds a text to a column.
    pub(crate) fn text(&mut self, column: usize, text: &str) {
        let place = self.texts.add(text);
        if let Some(column) = self.columns.get_mut(column) {
            column.text(place);
        }
    }

    /// Adds a number to a column.
    pub(crate) fn number(&mut self, column: usize, value: i64) {
        if let Some(column) = self.columns.get_mut(column) {
            column.number(value);
        }
    }

    /// Adds a text, or none, to an optional column.
    pub(crate) fn maybe_text(&mut self, column: usize, text: Option<&str>) {
        let place = text.map(|text| self.texts.add(text));
        if let Some(column) = self.columns.get_mut(column) {
            column.maybe_text(place);
        }
    }

    /// Adds a number, or none, to an optional column.
    pub(crate) fn maybe_number(&mut self, column: usize, value: Option<i64>) {
        if let Some(column) = self.columns.get_mut(column) {
            column.maybe_number(value);
        }
    }

    /// All columns of a row have what they get.
    pub(crate) fn end_row(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.rows += 1;
        if self.rows >= ROWS { self.flush(out) } else { Ok(()) }
    }

    /// Writes the rows that there are.
    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.rows > 0 {
            writer.add(&Group::new(self.fields, &self.columns, self.rows, &self.texts))?;
            self.columns = self.fields.iter().map(Column::new).collect();
            (self.texts, self.rows) = (Texts::default(), 0);
        }
        out.write_all(writer.out())?;
        writer.out().clear();
        Ok(())
    }

    /// Writes all that's left.
    pub(crate) fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)?;
        let Some(writer) = self.writer else { return Ok(()) };
        out.write_all(&writer.finish()?)?;
        out.flush()
    }
}

/// The call sites of all files are one table.
#[derive(Default)]
pub(super) struct Sites(Option<Table>);

const FIELDS: &[Field] = &[
    Field::new("file", Kind::Text),
    Field::optional("member", Kind::Text),
    Field::optional("section", Kind::Text),
    Field::optional("offset", Kind::Unsigned),
    Field::optional("address", Kind::Unsigned),
    Field::optional("symbol", Kind::Text),
    Field::optional("symbol_offset", Kind::Number),
    Field::optional("kind", Kind::Text),
    Field::optional("hook", Kind::Text),
    Field::optional("size", Kind::Unsigned),
    Field::new("recorded", Kind::Boolean),
    Field::new("excluded", Kind::Boolean),
    Field::new("status", Kind::Text),
    Field::optional("source_file", Kind::Text),
    Field::optional("source_line", Kind::Number),
    Field::optional("btf", Kind::Boolean),
];

impl Export for Sites {
    fn sites(&mut self, out: Out<'_>, of: Named<'_>, listing: &Listing) -> io::Result<()> {
        let table = self.0.get_or_insert_with(|| Table::new(FIELDS));
        listing.rows().try_for_each(|row| add(table, out, of.demangle, of.label, row))
    }

    fn counts(&mut self, out: Out<'_>, what: &str, counts: &[Count]) -> io::Result<()> {
        let mut table = Table::new(count_fields(what));
        for (key, count) in counts {
            table.text(0, key);
            table.number(1, i64::try_from(*count).unwrap_or(i64::MAX));
            table.end_row(out)?;
        }
        table.finish(out)
    }

    fn tail(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.0.take().unwrap_or_else(|| Table::new(FIELDS)).finish(out)
    }
}

/// The columns of counts of these things.
fn count_fields(what: &str) -> &'static [Field] {
    const fn of(what: &'static str) -> [Field; 2] {
        [Field::new(what, Kind::Text), Field::new("count", Kind::Number)]
    }
    const SECTIONS: &[Field] = &of("section");
    const FUNCTIONS: &[Field] = &of("function");
    const SOURCE_FILES: &[Field] = &of("source_file");
    const FOLDERS: &[Field] = &of("source_dir");
    const FILES: &[Field] = &of("file");
    match what {
        "section" => SECTIONS,
        "function" => FUNCTIONS,
        "source_file" => SOURCE_FILES,
        "source_dir" => FOLDERS,
        _ => FILES,
    }
}

fn add(
    table: &mut Table,
    out: &mut dyn Write,
    demangle: bool,
    label: &Label,
    row: Row<'_>,
) -> io::Result<()> {
    let site = row.site;
    let symbol = site.symbol.as_deref().map(|name| name_of(name, demangle));
    table.text(0, &label.file.to_string_lossy());
    table.maybe_text(1, label.member.as_deref());
    table.maybe_text(2, site.section.as_deref());
    table.maybe_number(3, site.offset.map(u64::cast_signed));
    table.maybe_number(4, site.address.map(u64::cast_signed));
    table.maybe_text(5, symbol.as_deref());
    table.maybe_number(6, site.symbol_offset);
    table.maybe_text(7, site.kind.map(SiteKind::name));
    table.maybe_text(8, site.hook.as_deref());
    table.maybe_number(9, site.size.map(u64::cast_signed));
    table.number(10, i64::from(site.recorded));
    table.number(11, i64::from(site.excluded));
    table.text(12, row.status.name());
    table.maybe_text(13, row.line.map(|line| &*line.file));
    table.maybe_number(14, row.line.map(|line| i64::from(line.line)));
    table.maybe_number(15, row.btf.map(i64::from));
    table.end_row(out)
}
