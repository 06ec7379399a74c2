//! One JSON object a call and line. The names of a function are made into JSON once, and numbers are
//! all that is formatted for each call.

use super::parallel::Format;
use super::values::{self, Recorded};
use super::{Names, end_name};
use mcount_trace::Call;

/// A line for each call.
pub(super) struct Lines;

impl Format for Lines {
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>) {
        let mut values = Recorded::of(names.trace);
        for call in calls {
            add(out, names, &mut values, &call);
        }
    }
}

fn add(line: &mut Vec<u8>, names: &Names<'_, '_>, values: &mut Recorded<'_>, call: &Call) {
    let (pid, tid) = names.ids(call);
    let (start, end) = names.times(call);
    number(line, "{\"process\":", u64::from(pid));
    number(line, ",\"thread\":", u64::from(tid));
    number(line, ",\"depth\":", call.depth as u64);
    line.extend(names.function(call.function).jsonl.as_bytes());
    let caller = call.caller.map(|caller| names.function(caller));
    line.extend(caller.map_or("null", |caller| &caller.json).as_bytes());
    number(line, ",\"start_ns\":", start);
    match end {
        Some(end) => number(line, ",\"duration_ns\":", end.saturating_sub(start)),
        None => line.extend(b",\"duration_ns\":null"),
    }
    match call.how {
        Some(how) => {
            line.extend(b",\"end\":\"");
            line.extend(end_name(how).as_bytes());
            line.push(b'"');
        }
        None => line.extend(b",\"end\":null"),
    }
    if let Some(arguments) = values.arguments(call) {
        line.extend(b",\"arguments\":");
        line.extend(values::arguments_json(&arguments).as_bytes());
    }
    if let Some(result) = values.result(call) {
        line.extend(b",\"result\":");
        line.extend(values::result_json(&result).as_bytes());
    }
    line.extend(b"}\n");
}

fn number(line: &mut Vec<u8>, key: &str, value: u64) {
    line.extend(key.as_bytes());
    line.extend(itoa::Buffer::new().format(value).as_bytes());
}
