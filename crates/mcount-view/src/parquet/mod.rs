//! Writes Parquet files (<https://parquet.apache.org/docs/file-format/>): flat tables of numbers and texts, in groups of rows that any
//! processor can make. Texts have a dictionary in each group, and LZ4 compresses all of it.
//!
//! It's written by hand, because all of it is smaller than one of the crates that the general one needs, and `mcount` should stay quick to
//! build. DuckDB, Arrow and Spark read the files in tests and chores.

mod pages;
mod thrift;

use pages::{Chunk, chunk};
use std::collections::HashMap;
use std::io::{self, Write};
use thrift::Struct;

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// What is in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Number,
    /// Whole numbers without a sign, such as addresses.
    Unsigned,
    /// Numbers with a part behind the point, added by [`Column::real`].
    Real,
    /// 1 if something holds, and else 0.
    Boolean,
    /// Microseconds since the beginning of 1970, UTC.
    Time,
    /// Texts of which many rows have the same.
    Text,
    /// Texts that most rows have for themselves, added by [`Column::maybe_own`].
    Recorded,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub kind: Kind,
    /// Rows can have none.
    pub is_optional: bool,
}

impl Field {
    /// A column in which each row has a value.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_optional: false }
    }

    /// A column in which rows can have none.
    #[must_use]
    pub const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_optional: true }
    }
}

/// The values of a column in a group of rows.
#[derive(Debug, Clone)]
pub enum Values {
    /// Whatever isn't text.
    Numbers(Vec<i64>),
    /// Texts, by their places in a list.
    Texts(Vec<u32>),
    /// Texts that are in no list.
    Own(Vec<String>),
    /// Nobody asks for them, and none is kept.
    Unwanted,
}

/// A column in a group of rows.
#[derive(Debug, Clone)]
pub struct Column {
    /// The values of those rows that have one.
    pub values: Values,
    /// Which rows have one, if the column is optional.
    pub present: Vec<bool>,
}

impl Column {
    /// An empty one.
    #[must_use]
    pub fn new(field: &Field) -> Self {
        let values = match field.kind {
            Kind::Text => Values::Texts(Vec::new()),
            Kind::Recorded => Values::Own(Vec::new()),
            _ => Values::Numbers(Vec::new()),
        };
        Self { values, present: Vec::new() }
    }

    /// An empty one with room for so many rows.
    #[must_use]
    pub fn with_room(field: &Field, rows: usize) -> Self {
        let mut column = Self::new(field);
        match &mut column.values {
            Values::Numbers(all) => all.reserve(rows),
            Values::Texts(all) => all.reserve(rows),
            Values::Own(_) | Values::Unwanted => return column,
        }
        column.present.reserve(if field.is_optional { rows } else { 0 });
        column
    }

    /// One that stays empty.
    #[must_use]
    pub fn unwanted() -> Self {
        Self { values: Values::Unwanted, present: Vec::new() }
    }

    /// How many rows have a value.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.values {
            Values::Numbers(all) => all.len(),
            Values::Texts(all) => all.len(),
            Values::Own(all) => all.len(),
            Values::Unwanted => 0,
        }
    }

    /// Adds a number.
    #[inline]
    pub fn number(&mut self, value: i64) {
        if let Values::Numbers(all) = &mut self.values {
            all.push(value);
        }
    }

    /// Adds a number with a part behind the point.
    pub fn real(&mut self, value: f64) {
        self.number(value.to_bits().cast_signed());
    }

    /// The same, or none, to an optional column.
    pub fn maybe_real(&mut self, value: Option<f64>) {
        self.maybe_number(value.map(|value| value.to_bits().cast_signed()));
    }

    /// Adds a text, by its place in the list of texts.
    #[inline]
    pub fn text(&mut self, place: u32) {
        if let Values::Texts(all) = &mut self.values {
            all.push(place);
        }
    }

    /// Adds a number, or none, to an optional column.
    #[inline]
    pub fn maybe_number(&mut self, value: Option<i64>) {
        self.note(value.is_some());
        if let Some(value) = value {
            self.number(value);
        }
    }

    /// Adds a text, or none, to an optional column.
    #[inline]
    pub fn maybe_text(&mut self, place: Option<u32>) {
        self.note(place.is_some());
        if let Some(place) = place {
            self.text(place);
        }
    }

    /// Adds a text that's in no list, or none. If nobody asks for it, it isn't made.
    pub fn maybe_own(&mut self, text: impl FnOnce() -> Option<String>) {
        if let Values::Own(all) = &mut self.values {
            let text = text();
            self.present.push(text.is_some());
            all.extend(text);
        }
    }

    /// Whether the next row has a value.
    #[inline]
    fn note(&mut self, is_present: bool) {
        if !matches!(self.values, Values::Unwanted) {
            self.present.push(is_present);
        }
    }
}

/// A list of texts, each once.
#[derive(Debug, Default)]
pub struct Texts {
    all: Vec<String>,
    places: HashMap<String, u32>,
}

impl Texts {
    /// The place of a text, which is added if it's new.
    pub fn add(&mut self, text: &str) -> u32 {
        if let Some(known) = self.places.get(text) {
            return *known;
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), next);
        next
    }

    /// The text at a place.
    #[must_use]
    pub fn get(&self, place: u32) -> &[u8] {
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        self.all.get(at).map_or(b"", String::as_bytes)
    }
}

/// A group of rows as it is in a file.
#[derive(Debug)]
pub struct Group {
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
    rows: u64,
}

impl Group {
    /// The group with these columns, which are those of `fields`.
    #[must_use]
    pub fn new(fields: &[Field], columns: &[Column], rows: u64, texts: &Texts) -> Self {
        let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
        for (field, column) in fields.iter().zip(columns) {
            chunks.push(chunk(&mut bytes, field, column, texts));
        }
        Self { bytes, chunks, rows }
    }
}

/// Writes a file. What's written without [`Writer::finish`] is no file of Parquet.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    fields: &'static [Field],
    offset: u64,
    /// The description of each group.
    groups: Vec<Struct>,
    rows: u64,
}

impl<W: Write> Writer<W> {
    /// A file with a table of these columns.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn new(mut out: W, fields: &'static [Field]) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, fields, offset: MAGIC.len() as u64, groups: Vec::new(), rows: 0 })
    }

    /// What the file is written to.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Adds a group of rows with the columns of the table.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn add(&mut self, group: &Group) -> io::Result<()> {
        self.out.write_all(&group.bytes)?;
        let chunks = self.fields.iter().zip(&group.chunks);
        let columns: Vec<Struct> =
            chunks.map(|(field, chunk)| chunk.describe(field, self.offset)).collect();
        let size: u64 = group.chunks.iter().map(|chunk| chunk.unpacked).sum();
        let mut row_group = Struct::new();
        row_group.structs(1, columns);
        row_group.i64(2, size);
        row_group.i64(3, group.rows);
        row_group.i64(5, self.offset);
        row_group.i64(6, group.bytes.len() as u64);
        self.groups.push(row_group);
        self.offset += group.bytes.len() as u64;
        self.rows += group.rows;
        Ok(())
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<W> {
        let mut file = Struct::new();
        file.i32(1, 2);
        file.structs(2, schema(self.fields));
        file.i64(3, self.rows);
        file.structs(4, self.groups);
        file.bytes(6, concat!("mcount version ", env!("CARGO_PKG_VERSION")).as_bytes());
        // The least and greatest values of columns are by the order of their types.
        let order = || {
            let mut order = Struct::new();
            order.inner(1, Struct::new());
            order
        };
        file.structs(7, self.fields.iter().map(|_| order()).collect());
        let footer = file.finish();
        self.out.write_all(&footer)?;
        let length = u32::try_from(footer.len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The elements of a schema: a root, and the columns in it.
fn schema(fields: &[Field]) -> Vec<Struct> {
    let mut root = Struct::new();
    root.bytes(4, b"schema");
    root.i32(5, i32::try_from(fields.len()).unwrap_or(i32::MAX));
    let field = |field: &Field| {
        let mut element = Struct::new();
        element.i32(1, field.kind.physical());
        element.i32(3, i32::from(field.is_optional));
        element.bytes(4, field.name.as_bytes());
        match field.kind {
            Kind::Number | Kind::Boolean | Kind::Real => {}
            Kind::Unsigned => {
                const UINT_64: i32 = 14;
                element.i32(6, UINT_64);
                // INTEGER, of 64 bits.
                let (mut logical, mut integer) = (Struct::new(), Struct::new());
                integer.byte(1, 64);
                integer.boolean(2, false);
                logical.inner(10, integer);
                element.inner(10, logical);
            }
            Kind::Time => {
                const MICROSECONDS: i32 = 10;
                element.i32(6, MICROSECONDS);
                // TIMESTAMP, in UTC and microseconds.
                let (mut logical, mut time, mut unit) =
                    (Struct::new(), Struct::new(), Struct::new());
                unit.inner(2, Struct::new());
                time.boolean(1, true);
                time.inner(2, unit);
                logical.inner(8, time);
                element.inner(10, logical);
            }
            Kind::Text | Kind::Recorded => {
                const UTF8: i32 = 0;
                element.i32(6, UTF8);
                let mut logical = Struct::new();
                logical.inner(1, Struct::new());
                element.inner(10, logical);
            }
        }
        element
    };
    std::iter::once(root).chain(fields.iter().map(field)).collect()
}

impl Kind {
    /// Its number among the types of values in files.
    fn physical(self) -> i32 {
        const BOOLEAN: i32 = 0;
        const INT64: i32 = 2;
        const DOUBLE: i32 = 5;
        const BYTE_ARRAY: i32 = 6;
        match self {
            Self::Boolean => BOOLEAN,
            Self::Number | Self::Unsigned | Self::Time => INT64,
            Self::Real => DOUBLE,
            Self::Text | Self::Recorded => BYTE_ARRAY,
        }
    }
}
