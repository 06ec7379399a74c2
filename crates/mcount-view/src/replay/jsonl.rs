//! One JSON object a call and line. The names of a function are made into JSON once, and numbers are
//! all that is formatted for each call.

use super::digits::{Times, number};
use super::parallel::Printer;
use super::values::{self, Recorded};
use super::{Names, SourceLines, end_name, json_string};
use mcount_trace::{Call, End};

/// A line for each call, with the source line of its function or without.
pub(super) struct Lines<'l>(pub(super) Option<&'l SourceLines>);

impl Printer for Lines<'_> {
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>) {
        let (mut times, mut values) = (Times::default(), Recorded::of(names.trace));
        for call in calls {
            add(out, names, (&mut times, &mut values), &call);
            if let Some(lines) = self.0 {
                source(out, lines, &call);
            }
            out.extend(b"}\n");
        }
    }
}

fn add(
    line: &mut Vec<u8>,
    names: &Names<'_, '_>,
    (times, values): (&mut Times, &mut Recorded<'_>),
    call: &Call,
) {
    let (start, end) = names.times(call);
    let [thread, _] = names.thread(call);
    line.extend_from_slice(thread.as_bytes());
    number(line, call.depth as u64);
    line.extend_from_slice(names.function(call.function).jsonl.as_bytes());
    let caller = call.caller.map(|caller| names.function(caller));
    line.extend_from_slice(caller.map_or("null", |caller| &caller.json).as_bytes());
    line.extend_from_slice(b",\"start_ns\":");
    times.number(line, start);
    line.extend_from_slice(b",\"duration_ns\":");
    match end {
        Some(end) => number(line, end.saturating_sub(start)),
        None => line.extend_from_slice(b"null"),
    }
    match call.how {
        Some(End::Return) => line.extend_from_slice(b",\"end\":\"return\""),
        Some(how) => {
            line.extend_from_slice(b",\"end\":\"");
            line.extend_from_slice(end_name(how).as_bytes());
            line.push(b'"');
        }
        None => line.extend_from_slice(b",\"end\":null"),
    }
    let arguments = values.arguments(call);
    let counted = values.counted(call).map(|counted| values::counters_json(&counted));
    let name = &names.function(call.function).text;
    if let Some(mark) = values.mark(call, arguments.as_deref(), name) {
        line.extend(b",\"mark\":");
        line.extend(json_string(&mark).as_bytes());
    }
    if let Some(arguments) = arguments {
        line.extend(b",\"arguments\":");
        line.extend(values::arguments_json(&arguments).as_bytes());
    }
    if let Some(result) = values.result(call) {
        line.extend(b",\"result\":");
        line.extend(values::result_json(&result).as_bytes());
    }
    if let Some(counted) = counted {
        line.extend(b",\"counters\":");
        line.extend(counted.as_bytes());
    }
}

fn source(line: &mut Vec<u8>, lines: &SourceLines, call: &Call) {
    line.extend(b",\"source_file\":");
    let found = lines.get(call.function);
    match found {
        Some(found) => line.extend(json_string(&found.file).as_bytes()),
        None => line.extend(b"null"),
    }
    line.extend(b",\"source_line\":");
    match found {
        Some(found) => number(line, u64::from(found.line)),
        None => line.extend(b"null"),
    }
}
