//! A sample as JSON lines: one for each function.

use super::text::of_function;
use super::{Table, host};
use crate::trace::attach::{Named, Progress};
use mcount_view::sample::{Called, Row};
use serde_json::{Value, json};
use std::time::SystemTime;

impl Table {
    pub(super) fn json(&mut self, progress: &Progress) -> Vec<String> {
        let rows = self.rows(progress);
        let called = self.called(progress);
        let host = host();
        let start = progress.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let line = |(row, named): &(Row, Named)| {
            let [median, p90, p99] = row.percentiles;
            let of = of_function(&called, row.function);
            let mut line = json!({
                "start": start.as_secs_f64(),
                "seconds": progress.running.as_secs_f64(),
                "host": host,
                "program": progress.program,
                "program_build": &*progress.build,
                "process": progress.process,
                "function": &*named.function,
                "module": &*named.module,
                "build": &*named.build,
                "calls": row.calls,
                "windows": row.windows,
                "calls_per_second": row.per_second.value,
                "calls_per_second_error": row.per_second.error,
                "mean_ns": row.mean.value,
                "mean_ns_error": row.mean.error,
                "median_ns": median,
                "p90_ns": p90,
                "p99_ns": p99,
                "share": row.share.value,
                "share_error": row.share.error,
                "self_share": row.own.map(|own| own.value),
                "self_share_error": row.own.and_then(|own| own.error),
                "unfinished": self.unfinished.get(&row.function).copied().unwrap_or(0),
            });
            if self.has_callers
                && let Some(line) = line.as_object_mut()
            {
                line.insert("callers".to_owned(), of.map(|one| self.caller(one)).collect());
            }
            line.to_string()
        };
        rows.iter().map(line).collect()
    }

    /// What is known of calls by one caller. Without a function, it's code of the module that isn't sampled.
    fn caller(&self, called: &Called) -> Value {
        let (function, module) = self.caller_names(called.caller);
        json!({
            "function": function,
            "module": module,
            "calls": called.calls,
            "calls_per_second": called.per_second.value,
            "calls_per_second_error": called.per_second.error,
            "share": called.share.value,
            "share_error": called.share.error,
        })
    }
}
