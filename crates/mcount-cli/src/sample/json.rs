//! A sample as JSON lines: one for each function.

use super::text::of_function;
use super::{Table, host};
use crate::trace::attach::{Named, Progress};
use mcount_view::sample::{Called, Row};
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// What the line of a function begins with: which one, of which process, when and where.
fn of_named(progress: &Progress, named: &Named) -> Map<String, Value> {
    let start = progress.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let fields = [
        ("start", json!(start.as_secs_f64())),
        ("seconds", json!(progress.running.as_secs_f64())),
        ("host", json!(host())),
        ("program", json!(progress.program)),
        ("program_build", json!(&*progress.build)),
        ("process", json!(progress.process)),
        ("function", json!(&*named.function)),
        ("module", json!(&*named.module)),
        ("build", json!(&*named.build)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Table {
    pub(super) fn json(&mut self, progress: &Progress) -> Vec<String> {
        let rows = self.rows(progress);
        let called = self.called(progress);
        let line = |(row, named): &(Row, Named)| {
            let [median, p90, p99] = row.percentiles;
            let of = of_function(&called, row.function);
            let mut line = of_named(progress, named);
            let Value::Object(estimates) = json!({
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
            }) else {
                return Value::Object(line);
            };
            line.extend(estimates);
            if self.has_callers {
                line.insert("callers".to_owned(), of.map(|one| self.caller(one)).collect());
            }
            Value::Object(line)
        };
        let left_out = self.left_out.functions().filter_map(|one| self.functions.get(&one));
        let left_out = left_out.map(|named| {
            let mut line = of_named(progress, named);
            line.insert("left_out".to_owned(), Value::Bool(true));
            // Nothing is known of its calls, which isn't the same as none.
            line.insert("calls_per_second".to_owned(), Value::Null);
            Value::Object(line)
        });
        rows.iter().map(line).chain(left_out).map(|line| line.to_string()).collect()
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
