//! A sample as a table of Parquet, with the columns that JSON lines have as fields.

use super::host;
use crate::trace::attach::{Named, Progress};
use mcount_view::parquet::{Column, Group, Texts, Writer};
use mcount_view::sample::table::FIELDS;
use mcount_view::sample::{Estimate, Row};
use std::io;
use std::time::SystemTime;

/// The file. `unfinished` says how many calls of a function hadn't ended.
pub(super) fn file(
    rows: &[(Row, Named)],
    progress: &Progress,
    unfinished: impl Fn(u32) -> u64,
) -> io::Result<Vec<u8>> {
    let mut texts = Texts::default();
    let mut columns: Vec<Column> = FIELDS.iter().map(Column::new).collect();
    let same = [&*host(), &*progress.program, &*progress.build].map(|text| texts.add(text));
    let start = progress.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = i64::try_from(start.as_micros()).unwrap_or(i64::MAX);
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    for (row, named) in rows {
        let [function, module, build] =
            [&named.function, &named.module, &named.build].map(|text| texts.add(text));
        let mut next = columns.iter_mut();
        let mut put = |fill: &dyn Fn(&mut Column)| next.next().map_or((), fill);
        for text in same {
            put(&|column| column.text(text));
        }
        put(&|column| column.number(progress.process.into()));
        put(&|column| column.number(start));
        put(&|column| column.real(progress.running.as_secs_f64()));
        for text in [function, module, build] {
            put(&|column| column.text(text));
        }
        for count in [row.calls, row.windows, unfinished(row.function)] {
            put(&|column| column.number(number(count)));
        }
        for Estimate { value, error } in [row.per_second, row.mean, row.share] {
            put(&|column| column.real(value));
            put(&|column| column.maybe_real(error.filter(|error| error.is_finite())));
        }
        let own = [row.own.map(|own| own.value), row.own.and_then(|own| own.error)];
        for number in row.percentiles.into_iter().chain(own) {
            put(&|column| column.maybe_real(number.filter(|number| number.is_finite())));
        }
    }
    let mut writer = Writer::new(Vec::new(), FIELDS)?;
    if !rows.is_empty() {
        writer.add(&Group::new(FIELDS, &columns, rows.len() as u64, &texts))?;
    }
    writer.finish()
}
