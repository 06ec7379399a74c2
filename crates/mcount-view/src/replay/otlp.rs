//! Traces of requests for OpenTelemetry (OTLP): each call of some functions is a trace, and the calls beneath it are its spans. The numbers
//! of fields are those of `opentelemetry/proto/trace/v1/trace.proto` in OpenTelemetry's sources.
//!
//! What's written is one `TracesData`, in pieces: messages of protocol buffers that follow each other are one message. Each piece is also an
//! `ExportTraceServiceRequest`, which a collector takes.

mod send;
mod span;

use super::parallel::PrintJob;
use super::select::is_function;
use super::values::Recorded;
use super::{Clock, Manner, Names, Progress, Selection, SourceLines};
use crate::pattern::Pattern;
use mcount_trace::{Call, Trace};
use span::{Ids, Maker};
use std::io;

pub use send::{Collector, parse_url};

/// Spans of a piece, at most.
const SPANS: usize = 512;

/// Bytes of a piece, about: collectors take no more than some megabytes.
const BYTES: usize = 1 << 20;

/// Which calls begin a trace.
#[derive(Debug, Clone)]
pub struct Requests {
    /// Calls of these functions, except beneath others.
    pub functions: Vec<Pattern>,
}

/// Hands the traces of those calls that `selection` has to `take`, in pieces.
///
/// # Errors
///
/// Those of `take`; or the trace has no durations.
pub fn write_otlp(
    trace: &Trace<'_>,
    (selection, requests): (&Selection, &Requests),
    manner: &Manner,
    progress: &Progress<'_>,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if trace.header.has_only_entries || !trace.has_times() {
        return Err(io::Error::other("the trace has no times, which spans need"));
    }
    let mut names = Names::with(trace, manner.has_simple_names);
    if manner.clock == Clock::Monotonic {
        names.start = trace.header.start_monotonic;
    } else {
        // Spans have times of the day.
        names.start = trace.header.start_realtime;
    }
    let filter = selection.filter(trace);
    let work = PrintJob { names: &names, filter: &filter, progress };
    let is_request =
        |number: u32| requests.functions.iter().any(|pattern| is_function(pattern, &names, number));
    let meant = trace.functions.iter().map(|function| is_request(function.number)).collect();
    let mut writer = Writer {
        maker: Maker::new(&names, manner.lines.as_ref()),
        values: Recorded::of(trace),
        work,
        meant,
        open: Vec::new(),
        process: None,
        spans: Vec::new(),
        count: 0,
        take,
    };
    (0..trace.threads.len()).try_for_each(|thread| writer.thread(thread))?;
    writer.send()
}

/// A call that hasn't ended.
struct Open {
    /// Those of its span, or of the nearest around it.
    ids: Option<Ids>,
}

struct Writer<'w> {
    work: PrintJob<'w, 'w, 'w>,
    maker: Maker<'w>,
    values: Recorded<'w>,
    /// Which functions begin a trace, by their places.
    meant: Vec<bool>,
    open: Vec<Open>,
    /// The process whose spans these are.
    process: Option<usize>,
    spans: Vec<u8>,
    count: usize,
    take: &'w mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl Writer<'_> {
    fn thread(&mut self, thread: usize) -> io::Result<()> {
        let PrintJob { names, filter, progress } = self.work;
        self.open.clear();
        let calls = names.trace.thread_calls(thread).filter(|_| filter.has_thread(thread));
        for call in progress.over(calls.into_iter().flatten()) {
            let (start, end) = filter.times(&call);
            if filter.is_too_late(start) {
                break;
            }
            self.open.truncate(call.depth);
            let around = self.open.last().and_then(|open| open.ids);
            let is_wanted = filter.is_wanted(&call, start, end);
            let ids = if is_wanted { self.call(&call, around)? } else { None };
            // In a thread without them, calls that aren't wanted leave no gaps.
            self.open.resize_with(call.depth, || Open { ids: around });
            self.open.push(Open { ids: ids.or(around) });
        }
        Ok(())
    }

    /// Adds the span of a call, if it's in a request or is one.
    fn call(&mut self, call: &Call, around: Option<Ids>) -> io::Result<Option<Ids>> {
        let at = self.work.names.trace.function_index(call.function);
        let begins = at.and_then(|at| self.meant.get(at)).copied().unwrap_or(false);
        if around.is_none() && !begins {
            return Ok(None);
        }
        if self.count > 0 && self.process != call.process {
            self.send()?;
        }
        self.process = call.process;
        let arguments = self.values.arguments(call);
        let name = &self.work.names.function(call.function).text;
        let mark = self.values.mark(call, arguments.as_deref(), name);
        let result = self.values.result(call);
        let ids = self.maker.add(
            &mut self.spans,
            (call, around),
            mark.as_deref(),
            (arguments.as_deref(), result.as_ref()),
        );
        self.count += 1;
        if self.count >= SPANS || self.spans.len() >= BYTES {
            self.send()?;
        }
        Ok(Some(ids))
    }

    /// Hands out the spans that were made since the last time.
    fn send(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let piece = self.maker.piece(self.process, &self.spans);
        self.spans.clear();
        self.count = 0;
        (self.take)(&piece)
    }
}

/// The source line of a function, if lines are wanted and known.
fn source(lines: Option<&SourceLines>, function: u32) -> Option<(&str, u32)> {
    let line = lines?.get(function)?;
    Some((&line.file, line.line))
}
