//! JSON for Chrome (`about:tracing`) and Perfetto: an event for each call, and the names of processes and
//! threads. The format is that of Google's "Trace Event Format".

use super::digits::{Times, microseconds};
use super::parallel::{self, PrintJob, Printer};
use super::values::{self, Recorded};
use super::{Names, end_name, json_string, printable, program_name};
use mcount_trace::Call;
use std::io::{self, Write};

pub(super) fn print(out: &mut impl Write, work: &PrintJob<'_, '_, '_>) -> io::Result<()> {
    let names = work.names;
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
    if separator == ",\n" {
        parallel::print(out, work, &Events)?;
    } else {
        // A comma that there's nothing before.
        parallel::print(&mut Behind { out, skipped: 1 }, work, &Events)?;
    }
    writeln!(out, "\n]}}")
}

/// An event for each call, after a comma.
struct Events;

impl Printer for Events {
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>) {
        let (mut times, mut values) = (Times::default(), Recorded::of(names.trace));
        for call in calls {
            add(out, names, (&mut times, &mut values), &call);
        }
    }
}

/// Leaves out the first bytes.
struct Behind<'o, W> {
    out: &'o mut W,
    skipped: usize,
}

impl<W: Write> Write for Behind<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = self.skipped.min(bytes.len());
        self.skipped -= skipped;
        self.out.write_all(bytes.get(skipped..).unwrap_or_default()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Adds a complete event, the beginning of one that had not ended, or one that is only known to have begun.
fn add(
    event: &mut Vec<u8>,
    names: &Names<'_, '_>,
    (times, values): (&mut Times, &mut Recorded<'_>),
    call: &Call,
) {
    let (start, end) = names.times(call);
    let arguments = values.arguments(call);
    let name = &names.function(call.function).text;
    if let Some(mark) = values.mark(call, arguments.as_deref(), name) {
        let [_, thread] = names.thread(call);
        event.extend_from_slice(b",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"mark\",\"name\":");
        event.extend_from_slice(json_string(&mark).as_bytes());
        event.extend_from_slice(b",\"pid\":");
        event.extend_from_slice(thread.as_bytes());
        times.microseconds(event, start);
        if let Some(all) = arguments.filter(|_| values.is_named_mark(call)) {
            event.extend_from_slice(b",\"args\":{\"arguments\":");
            event.extend_from_slice(values::arguments_json(&all).as_bytes());
            event.push(b'}');
        }
        return event.push(b'}');
    }
    let phase = match end {
        Some(_) => b",\n{\"ph\":\"X\",",
        None if names.trace.header.has_only_entries => b",\n{\"ph\":\"i\",",
        None => b",\n{\"ph\":\"B\",",
    };
    event.extend_from_slice(phase);
    event.extend_from_slice(names.function(call.function).chrome.as_bytes());
    let [_, thread] = names.thread(call);
    event.extend_from_slice(thread.as_bytes());
    times.microseconds(event, start);
    if let Some(end) = end {
        event.extend_from_slice(b",\"dur\":");
        microseconds(event, end.saturating_sub(start));
    }
    let mut inner = &b",\"args\":{"[..];
    if let Some(how) = call.how {
        event.extend_from_slice(b",\"args\":{\"end\":\"");
        event.extend_from_slice(end_name(how).as_bytes());
        event.push(b'"');
        inner = b",";
    }
    let counted = values.counted(call).map(|all| values::counters_json(&all));
    let values = [
        (&b"\"arguments\":"[..], arguments.map(|all| values::arguments_json(&all))),
        (b"\"counters\":", counted),
        (b"\"result\":", values.result(call).map(|value| values::result_json(&value))),
    ];
    for (key, value) in values.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        event.extend([inner, key, value.as_bytes()].concat());
        inner = b",";
    }
    event.extend_from_slice(if inner == b"," { &b"}}"[..] } else { &b"}"[..] });
}
