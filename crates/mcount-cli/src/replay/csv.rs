//! Comma-separated values (RFC 4180); the columns are the fields of `--format jsonl`.

use super::{Names, end_name};
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

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(HEADINGS).map_err(io_error)?;
    for call in calls {
        let (pid, tid) = names.ids(&call);
        let (start, end) = names.times(&call);
        let name = names.function(call.function);
        let numbers = [u64::from(pid), u64::from(tid), call.depth as u64];
        for number in numbers {
            field(&mut out, Some(number))?;
        }
        out.write_field(&name.text).map_err(io_error)?;
        out.write_field(&name.module).map_err(io_error)?;
        field(&mut out, name.address)?;
        let caller = call.caller.map_or("", |caller| &names.function(caller).text);
        out.write_field(caller).map_err(io_error)?;
        field(&mut out, Some(start))?;
        field(&mut out, end.map(|end| end.saturating_sub(start)))?;
        out.write_field(call.how.map_or("", end_name)).map_err(io_error)?;
        out.write_record(None::<&[u8]>).map_err(io_error)?;
    }
    out.flush()
}

fn field(out: &mut csv::Writer<impl Write>, value: Option<u64>) -> io::Result<()> {
    let mut buffer = itoa::Buffer::new();
    out.write_field(value.map_or("", |value| buffer.format(value))).map_err(io_error)
}

/// What `csv` fails with: the error of what it writes to.
pub(super) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
