//! Samples as a table: its columns, and its rows from the JSON lines that `mcount sample` writes.

use crate::compare::is_left_out;
use crate::parquet::{Column, Field, Kind, Texts};
use serde_json::Value;

/// The columns: a row is a function in a sample.
pub const FIELDS: &[Field] = &[
    Field::new("host", Kind::Text),
    Field::new("program", Kind::Text),
    Field::new("program_build", Kind::Text),
    Field::new("process", Kind::Number),
    Field::new("start", Kind::Time),
    Field::new("seconds", Kind::Real),
    Field::new("function", Kind::Text),
    Field::new("module", Kind::Text),
    Field::new("build", Kind::Text),
    Field::new("calls", Kind::Number),
    Field::new("windows", Kind::Number),
    Field::new("unfinished", Kind::Number),
    Field::new("calls_per_second", Kind::Real),
    Field::optional("calls_per_second_error", Kind::Real),
    Field::new("mean_ns", Kind::Real),
    Field::optional("mean_ns_error", Kind::Real),
    Field::new("share", Kind::Real),
    Field::optional("share_error", Kind::Real),
    Field::optional("median_ns", Kind::Real),
    Field::optional("p90_ns", Kind::Real),
    Field::optional("p99_ns", Kind::Real),
    Field::optional("self_share", Kind::Real),
    Field::optional("self_share_error", Kind::Real),
];

/// The rows of a file.
#[derive(Debug)]
pub struct Rows {
    /// The columns, as [`FIELDS`] has them.
    pub columns: Vec<Column>,
    /// Their texts.
    pub texts: Texts,
    /// How many rows they have.
    pub rows: u64,
}

/// The rows in JSON lines. Functions that were left out of the sample have none.
///
/// # Errors
///
/// A line isn't what `mcount sample` writes.
pub fn rows(bytes: &[u8]) -> Result<Rows, String> {
    let columns = FIELDS.iter().map(Column::new).collect();
    let mut all = Rows { columns, texts: Texts::default(), rows: 0 };
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        let line: Value = serde_json::from_slice(line).map_err(|_| wrong("isn't JSON"))?;
        if is_left_out(&line) {
            continue;
        }
        for (field, column) in FIELDS.iter().zip(&mut all.columns) {
            let value = line.get(field.name).filter(|value| !value.is_null());
            add(field, column, value, &mut all.texts)
                .ok_or_else(|| wrong(&format!("has no {}", field.name)))?;
        }
        all.rows += 1;
    }
    Ok(all)
}

/// Adds the value of a row; nothing if it isn't of the column's kind.
fn add(field: &Field, column: &mut Column, value: Option<&Value>, texts: &mut Texts) -> Option<()> {
    let number = match field.kind {
        Kind::Text => {
            column.text(texts.add(value?.as_str()?));
            return Some(());
        }
        _ if field.is_optional && value.is_none() => None,
        Kind::Real => Some(value?.as_f64()?.to_bits().cast_signed()),
        Kind::Time => Some(microseconds(value?.as_f64()?)),
        _ => Some(value?.as_i64()?),
    };
    match number {
        number if field.is_optional => column.maybe_number(number),
        Some(number) => column.number(number),
        None => return None,
    }
    Some(())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float that's too great becomes the greatest"
)]
fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::Values;

    /// What `mcount sample --format jsonl` prints of a function, but for some fields.
    fn line() -> Value {
        serde_json::json!({
            "host": "h", "program": "/p", "program_build": "aa", "process": 7, "start": 1.5,
            "seconds": 2.0, "function": "f", "module": "/p", "build": "aa", "calls": 9,
            "windows": 3, "unfinished": 0, "calls_per_second": 4.5,
            "calls_per_second_error": null, "mean_ns": 20.0, "share": 0.5, "median_ns": 19.0,
        })
    }

    #[test]
    fn a_line_is_a_row() {
        let left_out =
            serde_json::json!({"function": "g", "left_out": true, "calls_per_second": null});
        let text = format!("{}\n\n{}\n{left_out}\n", line(), line());
        let read = rows(text.as_bytes()).unwrap();
        assert_eq!(read.rows, 2);
        for (field, column) in FIELDS.iter().zip(&read.columns) {
            let present = column.present.iter().filter(|is| **is).count();
            assert_eq!(
                column.count(),
                if field.is_optional { present } else { 2 },
                "{}",
                field.name
            );
            assert_eq!(column.present.len(), if field.is_optional { 2 } else { 0 });
        }
        let Values::Numbers(start) = &read.columns[4].values else { panic!() };
        assert_eq!(start, &[1_500_000; 2]);
    }

    #[test]
    fn other_lines_are_named() {
        let without = |name: &str, value: Value| {
            let mut line = line();
            line[name] = value;
            line.to_string()
        };
        for (text, error) in [
            ("{".to_owned(), "line 1: isn't JSON"),
            ("[]".to_owned(), "line 1: has no host"),
            (format!("\n{}", without("calls", "many".into())), "line 2: has no calls"),
            (without("function", Value::Null), "line 1: has no function"),
            (without("p99_ns", "long".into()), "line 1: has no p99_ns"),
        ] {
            assert_eq!(rows(text.as_bytes()).unwrap_err(), error);
        }
    }
}
