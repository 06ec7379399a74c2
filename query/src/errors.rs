//! What's wrong with a query, in one line.

use crate::table::Table;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use std::io;

/// What queries can name.
pub(crate) struct Known {
    tables: Vec<&'static str>,
    columns: Vec<&'static str>,
}

impl Known {
    pub(crate) fn of(tables: &[Table]) -> Self {
        let columns = tables.iter().flat_map(|table| table.shape.fields.iter());
        Self {
            tables: tables.iter().map(|table| table.shape.name).collect(),
            columns: columns.map(|field| field.name).collect(),
        }
    }
}

/// An error for people.
pub(crate) fn plain(error: &DataFusionError, known: &Known) -> io::Error {
    let root = root(error);
    if let DataFusionError::IoError(error) = root {
        return io::Error::new(error.kind(), error.to_string());
    }
    let text = match root {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                unknown_column(field, valid_fields, known)
            }
            error => error.to_string(),
        },
        DataFusionError::Plan(text) => planned(text, known),
        DataFusionError::ResourcesExhausted(text) => {
            let first = text.lines().next().unwrap_or_default();
            format!("the query needs more memory than --memory allows: {first}")
        }
        DataFusionError::ExecutionJoin(error) => format!("the query has failed: {error}"),
        DataFusionError::External(error) => error.to_string(),
        error => error.message().into_owned(),
    };
    io::Error::other(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What an error is about, without where it came from.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => root(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, root),
        DataFusionError::Shared(inner) => root(inner),
        other => match other.find_root() {
            found if std::ptr::eq(found, other) => other,
            found => root(found),
        },
    }
}

/// Errors that are texts only.
fn planned(text: &str, known: &Known) -> String {
    let missing = text.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
    if let Some(name) = missing {
        let name = name.rsplit('.').next().unwrap_or(name);
        return format!("there is no table '{name}': there's {}", known.tables.join(", "));
    }
    match text.split_once(" not supported: ") {
        Some(("DDL" | "DML" | "Statement", what)) => {
            format!("only queries are accepted, and this is {what}")
        }
        _ => text.to_owned(),
    }
}

/// A column that isn't there, and similar ones.
fn unknown_column(field: &Column, valid: &[Column], known: &Known) -> String {
    let name = field.name();
    let valid = valid.iter().map(Column::name);
    let mut all: Vec<&str> = valid.chain(known.columns.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let distance = |other: &&str| strsim::damerau_levenshtein(name, other);
    let is_similar =
        |other: &&str| distance(other) <= 3 || other.contains(name) || name.contains(*other);
    let mut similar: Vec<&str> = all.iter().copied().filter(is_similar).collect();
    similar.sort_by_key(distance);
    similar.truncate(3);
    if similar.is_empty() {
        return format!("there is no column '{name}': there's {}", all.join(", "));
    }
    format!("there is no column '{name}': did you mean {}?", similar.join(", "))
}
