//! The tables there are, with their columns as Arrow has them. The columns themselves are where Parquet is written.

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef, TimeUnit};
use mcount_view::parquet::{Field, Kind};
use mcount_view::replay::tables::TABLES;
use mcount_view::sample::table::FIELDS;
use std::sync::Arc;

/// The column that folders of Parquet have as a part of their path.
pub(crate) const BUILD: &str = "build";

/// A kind of table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// The columns that files have.
    pub(crate) fields: &'static [Field],
    /// There's also the build of the program.
    pub(crate) has_build: bool,
}

/// All of them.
pub(crate) fn shapes() -> Vec<Shape> {
    let of_traces = TABLES.map(|(name, fields)| Shape { name, fields, has_build: true });
    let samples = Shape { name: "samples", fields: FIELDS, has_build: false };
    [samples].into_iter().chain(of_traces).collect()
}

impl Shape {
    /// The columns of files.
    pub(crate) fn of_files(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.iter().map(column).collect::<Vec<_>>()))
    }

    /// The column that files lack.
    pub(crate) fn of_folders(&self) -> Option<ArrowField> {
        self.has_build.then(|| ArrowField::new(BUILD, DataType::Utf8View, true))
    }

    /// All columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.fields.iter().map(column).chain(self.of_folders());
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }
}

/// A column. Any can lack values, because a file of Parquet may be somebody else's.
fn column(field: &Field) -> ArrowField {
    let kind = match field.kind {
        Kind::Number => DataType::Int64,
        Kind::Unsigned => DataType::UInt64,
        Kind::Real => DataType::Float64,
        Kind::Boolean => DataType::Boolean,
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Kind::Text | Kind::Recorded => DataType::Utf8View,
    };
    ArrowField::new(field.name, kind, true)
}
