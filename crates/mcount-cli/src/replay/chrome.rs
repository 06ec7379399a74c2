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
    for call in calls {
        out.write_all(separator.as_bytes())?;
        event(out, names, &call)?;
        separator = ",\n";
    }
    writeln!(out, "\n]}}")
}

/// A complete event, the beginning of one that had not ended, or one that is only known to have begun.
fn event(out: &mut impl Write, names: &Names<'_, '_>, call: &Call) -> io::Result<()> {
    let (pid, tid) = names.ids(call);
    let (start, end) = names.times(call);
    let name = names.function(call.function);
    let phase = match end {
        Some(_) => "X",
        None if names.trace.header.has_only_entries => "i",
        None => "B",
    };
    write!(out, "{{\"ph\":\"{phase}\",\"name\":{},\"cat\":{}", name.json, category(name))?;
    write!(out, ",\"pid\":{pid},\"tid\":{tid},\"ts\":{}.{:03}", start / 1000, start % 1000)?;
    if let Some(end) = end {
        let duration = end.saturating_sub(start);
        write!(out, ",\"dur\":{}.{:03}", duration / 1000, duration % 1000)?;
    }
    match call.how {
        Some(how) => write!(out, ",\"args\":{{\"end\":\"{}\"}}}}", end_name(how)),
        None => write!(out, "}}"),
    }
}

fn category(name: &super::Name) -> &str {
    if name.module.is_empty() { "\"\"" } else { &name.module_json }
}
