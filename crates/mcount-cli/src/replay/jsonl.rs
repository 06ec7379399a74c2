//! One JSON object a call and line. The names of a function are made into JSON once, and numbers are
//! all that is formatted for each call.

use super::{Names, end_name};
use mcount_trace::Call;
use std::io::{self, Write};

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<()> {
    let mut line = Vec::new();
    for call in calls {
        line.clear();
        add(&mut line, names, &call);
        out.write_all(&line)?;
    }
    Ok(())
}

fn add(line: &mut Vec<u8>, names: &Names<'_, '_>, call: &Call) {
    let (pid, tid) = names.ids(call);
    let (start, end) = names.times(call);
    let name = names.function(call.function);
    number(line, "{\"process\":", u64::from(pid));
    number(line, ",\"thread\":", u64::from(tid));
    number(line, ",\"depth\":", call.depth as u64);
    text(line, ",\"function\":", &name.json);
    text(line, ",\"module\":", &name.module_json);
    match name.address {
        Some(address) => number(line, ",\"address\":", address),
        None => text(line, ",\"address\":", "null"),
    }
    let caller = call.caller.map(|caller| names.function(caller));
    text(line, ",\"caller\":", caller.map_or("null", |caller| &caller.json));
    number(line, ",\"start_ns\":", start);
    match end {
        Some(end) => number(line, ",\"duration_ns\":", end.saturating_sub(start)),
        None => text(line, ",\"duration_ns\":", "null"),
    }
    match call.how {
        Some(how) => {
            text(line, ",\"end\":\"", end_name(how));
            line.extend(b"\"}\n");
        }
        None => line.extend(b",\"end\":null}\n"),
    }
}

fn text(line: &mut Vec<u8>, key: &str, value: &str) {
    line.extend(key.as_bytes());
    line.extend(value.as_bytes());
}

fn number(line: &mut Vec<u8>, key: &str, value: u64) {
    text(line, key, itoa::Buffer::new().format(value));
}
