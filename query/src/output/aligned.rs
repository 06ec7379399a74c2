//! Aligned columns. The first rows decide how wide these are, so that a result of any length is printed as it comes.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use mcount_store::words::printable;
use std::io::{self, Write};

/// How many rows decide.
const ROWS: usize = 1000;

/// A table that's being printed.
pub(super) struct Aligned {
    /// Those of numbers are aligned at their end.
    are_numbers: Vec<bool>,
    /// The names, and rows that aren't printed yet.
    waiting: Vec<Vec<String>>,
    /// Of each column, once it's known.
    widths: Vec<usize>,
}

impl Aligned {
    pub(super) fn new(schema: &Schema) -> Self {
        let fields = schema.fields();
        let names = fields.iter().map(|field| printable(field.name()).into_owned());
        Self {
            are_numbers: fields.iter().map(|field| field.data_type().is_numeric()).collect(),
            waiting: vec![names.collect()],
            widths: Vec::new(),
        }
    }

    /// Adds rows.
    pub(super) fn add(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::new();
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>().map_err(io::Error::other)?;
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayFormatter<'_>| match column.value(row).try_to_string() {
                Ok(text) => Ok(printable(&text).into_owned()),
                Err(error) => Err(io::Error::other(error.to_string())),
            };
            self.waiting.push(columns.iter().map(cell).collect::<io::Result<_>>()?);
            if self.waiting.len() > ROWS {
                self.finish(out)?;
            }
        }
        Ok(())
    }

    /// Prints the rows that wait.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_empty() {
            let width = |column: usize| {
                let cells = self.waiting.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            };
            self.widths = (0..self.are_numbers.len()).map(width).collect();
        }
        let mut line = String::new();
        for row in self.waiting.drain(..) {
            line.clear();
            for ((cell, width), is_number) in row.iter().zip(&self.widths).zip(&self.are_numbers) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let blanks = width.saturating_sub(cell.chars().count());
                if *is_number {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
                line.push_str(cell);
                if !*is_number {
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn columns_are_aligned() {
        let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("f"), None, Some("a\nb")]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(100_000_000), Some(2), None]));
        let batch = RecordBatch::try_from_iter([("function", names), ("calls", counts)]).unwrap();
        let mut out = Vec::new();
        let mut table = Aligned::new(&batch.schema());
        table.add(&mut out, &batch).unwrap();
        table.finish(&mut out).unwrap();
        let expected = "function      calls\nf         100000000\n                  2\na\\nb\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
