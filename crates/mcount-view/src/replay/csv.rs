//! Comma-separated values (RFC 4180); the columns are the fields of `--format jsonl`.

use super::parallel::{self, PrintJob, Printer};
use super::{Names, SourceLines, end_name};
use mcount_trace::Call;
use std::io::{self, Write};

const HEADINGS: [&str; 10] = [
    "process",
    "thread",
    "depth",
    "function",
    "module",
    "address",
    "caller",
    "start_ns",
    "duration_ns",
    "end",
];

/// The columns that `--lines` adds.
const OF_SOURCE: [&str; 2] = ["source_file", "source_line"];

pub(super) fn print(
    out: &mut impl Write,
    work: &PrintJob<'_, '_, '_>,
    lines: Option<&SourceLines>,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(&mut *out);
    let more = OF_SOURCE.iter().filter(|_| lines.is_some());
    writer.write_record(HEADINGS.iter().chain(more)).map_err(io_error)?;
    writer.flush()?;
    drop(writer);
    parallel::print(out, work, &Records(lines))
}

/// A record for each call, with the source line of its function or without.
struct Records<'l>(Option<&'l SourceLines>);

impl Printer for Records<'_> {
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>) {
        let mut out = csv::Writer::from_writer(out);
        for call in calls {
            // Writing to memory doesn't fail, and all records have as many fields.
            let _ = add(&mut out, names, &call, self.0);
        }
        let _ = out.flush();
    }
}

fn add(
    out: &mut csv::Writer<&mut Vec<u8>>,
    names: &Names<'_, '_>,
    call: &Call,
    lines: Option<&SourceLines>,
) -> csv::Result<()> {
    let (pid, tid) = names.ids(call);
    let (start, end) = names.times(call);
    let name = names.function(call.function);
    for number in [u64::from(pid), u64::from(tid), call.depth as u64] {
        field(out, Some(number))?;
    }
    out.write_field(&name.text)?;
    out.write_field(&name.module)?;
    field(out, name.address)?;
    out.write_field(call.caller.map_or("", |caller| &names.function(caller).text))?;
    field(out, Some(start))?;
    field(out, end.map(|end| end.saturating_sub(start)))?;
    out.write_field(call.how.map_or("", end_name))?;
    if let Some(lines) = lines {
        let found = lines.get(call.function);
        out.write_field(found.map_or("", |found| &*found.file))?;
        field(out, found.map(|found| u64::from(found.line)))?;
    }
    out.write_record(None::<&[u8]>)
}

fn field(out: &mut csv::Writer<impl Write>, value: Option<u64>) -> csv::Result<()> {
    let mut buffer = itoa::Buffer::new();
    out.write_field(value.map_or("", |value| buffer.format(value)))
}

/// What `csv` fails with: the error of what it writes to.
pub(super) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
