//! JSON for Chrome (`about:tracing`) and Perfetto: an event for each call, and the names of processes and
//! threads. The format is that of Google's "Trace Event Format".

use super::{Names, end_name, json_string, printable, program_name};
use mcount_trace::Call;
use std::io::{self, Write};

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut separator = "\n";
    for (at, process) in names.trace.processes.iter().enumerate() {
        let name = json_string(&program_name(names.trace, Some(at)));
        let pid = process.pid;
        write!(
            out,
            "{separator}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\
             \"args\":{{\"name\":{name}}}}}"
        )?;
        separator = ",\n";
    }
    for thread in names.trace.threads.iter().filter(|thread| !thread.name.is_empty()) {
        let name = json_string(&printable(&String::from_utf8_lossy(thread.name)));
        let (pid, tid) = (thread.pid, thread.tid);
        write!(
            out,
            "{separator}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\
             \"args\":{{\"name\":{name}}}}}"
        )?;
        separator = ",\n";
    }
    let mut event = separator.as_bytes().to_vec();
    for call in calls {
        add(&mut event, names, &call);
        out.write_all(&event)?;
        event.clear();
        event.extend(b",\n");
    }
    writeln!(out, "\n]}}")
}

/// Adds a complete event, the beginning of one that had not ended, or one that is only known to have begun.
fn add(event: &mut Vec<u8>, names: &Names<'_, '_>, call: &Call) {
    let (pid, tid) = names.ids(call);
    let (start, end) = names.times(call);
    let name = names.function(call.function);
    let phase = match end {
        Some(_) => "X",
        None if names.trace.header.has_only_entries => "i",
        None => "B",
    };
    let parts = ["{\"ph\":\"", phase, "\",\"name\":", &name.json, ",\"cat\":", category(name)];
    for part in parts {
        event.extend(part.as_bytes());
    }
    let mut digits = itoa::Buffer::new();
    for (key, id) in [(",\"pid\":", pid), (",\"tid\":", tid)] {
        event.extend(key.as_bytes());
        event.extend(digits.format(id).as_bytes());
    }
    microseconds(event, ",\"ts\":", start);
    if let Some(end) = end {
        microseconds(event, ",\"dur\":", end.saturating_sub(start));
    }
    if let Some(how) = call.how {
        event.extend(b",\"args\":{\"end\":\"");
        event.extend(end_name(how).as_bytes());
        event.extend(b"\"}");
    }
    event.push(b'}');
}

/// Adds a time, with three digits behind the point.
fn microseconds(event: &mut Vec<u8>, key: &str, nanoseconds: u64) {
    event.extend(key.as_bytes());
    event.extend(itoa::Buffer::new().format(nanoseconds / 1_000).as_bytes());
    // One more digit in front keeps the zeros.
    let mut part = itoa::Buffer::new();
    let part = part.format(1_000 + nanoseconds % 1_000);
    event.push(b'.');
    event.extend(part.as_bytes().get(1..).unwrap_or_default());
}

fn category(name: &super::Name) -> &str {
    if name.module.is_empty() { "\"\"" } else { &name.module_json }
}
