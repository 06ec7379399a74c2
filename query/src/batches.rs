//! Rows as Arrow has them, from the columns that Parquet files are made of.

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use mcount_view::parquet::{Column, Field, Kind, Texts, Values};
use std::sync::Arc;

/// Makes batches of some columns of a table.
pub(crate) struct Maker<'t> {
    /// The columns of files.
    fields: &'static [Field],
    /// Which columns are asked for, by their places; the build is behind those of files.
    wanted: &'t [usize],
    /// What these are.
    schema: SchemaRef,
    texts: &'t Texts,
    /// Of each text, its place among those of a column in a batch that's being made.
    keys: Vec<Option<i32>>,
}

impl<'t> Maker<'t> {
    pub(crate) fn new(
        fields: &'static [Field],
        wanted: &'t [usize],
        schema: SchemaRef,
        texts: &'t Texts,
    ) -> Self {
        Self { fields, wanted, schema, texts, keys: Vec::new() }
    }

    /// A batch of so many rows, all of one build.
    pub(crate) fn batch(
        &mut self,
        columns: &[Column],
        build: &str,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.wanted.len());
        for place in self.wanted {
            arrays.push(match self.fields.get(*place).zip(columns.get(*place)) {
                Some((field, column)) => self.array(field, column)?,
                None => listed([build].into_iter(), vec![Some(0); rows])?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }

    fn array(&mut self, field: &Field, column: &Column) -> Result<ArrayRef> {
        let present = &column.present;
        Ok(match &column.values {
            Values::Texts(places) => return self.texts(places, present),
            Values::Own(all) => Arc::new(
                spread(all.iter().map(String::as_str), present).collect::<StringViewArray>(),
            ),
            Values::Unwanted => Arc::new(StringViewArray::new_null(present.len())),
            Values::Numbers(all) => {
                let all = spread(all.iter().copied(), present);
                match field.kind {
                    Kind::Unsigned => Arc::new(
                        all.map(|value| value.map(i64::cast_unsigned)).collect::<UInt64Array>(),
                    ),
                    Kind::Real => Arc::new(
                        all.map(|value| value.map(|bits| f64::from_bits(bits.cast_unsigned())))
                            .collect::<Float64Array>(),
                    ),
                    Kind::Boolean => Arc::new(
                        all.map(|value| value.map(|value| value != 0)).collect::<BooleanArray>(),
                    ),
                    Kind::Time => {
                        Arc::new(all.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
                    }
                    Kind::Number | Kind::Text | Kind::Recorded => {
                        Arc::new(all.collect::<Int64Array>())
                    }
                }
            }
        })
    }

    /// Texts by their places. A batch has a copy of each text once: it's counted as memory of the batch.
    fn texts(&mut self, places: &[u32], present: &[bool]) -> Result<ArrayRef> {
        let (mut distinct, mut keys) = (Vec::new(), Vec::with_capacity(places.len()));
        for place in places {
            let at = usize::try_from(*place).unwrap_or(usize::MAX);
            if self.keys.len() <= at {
                self.keys.resize(at + 1, None);
            }
            let Some(key) = self.keys.get_mut(at) else { continue };
            let next = i32::try_from(distinct.len()).unwrap_or(i32::MAX);
            keys.push(*key.get_or_insert_with(|| {
                distinct.push(*place);
                next
            }));
        }
        for place in &distinct {
            let at = usize::try_from(*place).unwrap_or(usize::MAX);
            if let Some(key) = self.keys.get_mut(at) {
                *key = None;
            }
        }
        let text = |place: &u32| std::str::from_utf8(self.texts.get(*place)).unwrap_or_default();
        listed(distinct.iter().map(text), spread(keys.into_iter(), present).collect())
    }
}

/// Texts, by their places in a list.
fn listed<'t>(texts: impl Iterator<Item = &'t str>, places: Vec<Option<i32>>) -> Result<ArrayRef> {
    let texts = Arc::new(StringArray::from_iter_values(texts));
    let array = DictionaryArray::try_new(Int32Array::from(places), texts)?;
    Ok(cast(&array, &DataType::Utf8View)?)
}

/// The values of rows, of which those without one are left out of `values`. If none can be, `present` is empty.
fn spread<T>(
    mut values: impl ExactSizeIterator<Item = T>,
    present: &[bool],
) -> impl Iterator<Item = Option<T>> {
    let rows = if present.is_empty() { values.len() } else { present.len() };
    (0..rows).map(move |row| {
        let has_value = present.get(row).is_none_or(|is| *is);
        has_value.then(|| values.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::shapes;
    use datafusion::arrow::util::display::array_value_to_string;
    use mcount_view::sample::table::rows;

    #[test]
    fn rows_without_a_value_have_none() {
        let line = r#"{"host":"h","program":"/p","program_build":"aa","process":7,"start":1.5,"seconds":2.0,
            "function":"f","module":"/m","build":"bb","calls":9,"windows":3,"unfinished":0,
            "calls_per_second":4.5,"mean_ns":20.0,"share":0.5,"MORE":1}"#;
        let line = line.replace('\n', "");
        let more = line.replace("\"MORE\"", "\"p99_ns\"").replace("\"f\"", "\"g\"");
        let read = rows(format!("{line}\n{more}\n").as_bytes()).unwrap();
        let shape = shapes().remove(0);
        let wanted: Vec<usize> = (0..shape.fields.len()).collect();
        let (fields, schema, texts) = (shape.fields, shape.schema(), &read.texts);
        let mut maker = Maker::new(fields, &wanted, schema, texts);
        let batch = maker.batch(&read.columns, "", 2).unwrap();
        let cell = |name: &str, row: usize| {
            array_value_to_string(batch.column_by_name(name).unwrap(), row).unwrap()
        };
        for (name, first, second) in [
            ("function", "f", "g"),
            ("build", "bb", "bb"),
            ("process", "7", "7"),
            ("start", "1970-01-01T00:00:01.500Z", "1970-01-01T00:00:01.500Z"),
            ("calls_per_second", "4.5", "4.5"),
            ("p99_ns", "", "1.0"),
        ] {
            assert_eq!([cell(name, 0), cell(name, 1)], [first, second], "{name}");
        }
    }
}
