//! The report of a trace: one page with a flame graph, a timeline and a table of functions.
//!
//! A trace may have more calls than a browser can hold, so they're put together here, in one pass and with
//! bounded memory: calls with the same callers are one field of the flame graph, and of the timeline only the
//! longest calls are kept, as many as [`timeline::MOST`]. The page says what was put together.

mod flame;
mod functions;
mod idle;
mod page;
mod timeline;

use crate::replay::{Names, Recorded};
use flame::Flame;
use functions::Functions;
use idle::Busy;
use mcount_trace::{Call, Trace};
use timeline::{Arrow, Timeline};

/// The page of a trace. `title` is what it's about; `missing` says what the trace hasn't, in sentences, once it was read.
#[must_use]
pub fn trace_html(
    title: &str,
    trace: &Trace<'_>,
    missing: impl FnOnce(&Trace<'_>) -> Vec<String>,
) -> String {
    let names = Names::new(trace);
    let mut collector = Collector {
        trace,
        latest: trace.nanoseconds(trace.latest()),
        counts: !trace.has_times() || trace.header.has_only_entries,
        stack: Vec::new(),
        flame: Flame::default(),
        functions: Functions::new(trace),
        timeline: Timeline::new(trace),
        busy: Busy::new(trace.nanoseconds(trace.latest())),
        recorded: Recorded::of(trace),
    };
    for thread in 0..trace.threads.len() {
        for call in trace.thread_calls(thread).into_iter().flatten() {
            collector.call(&call);
        }
        collector.leave(0);
        collector.busy.end_thread();
    }
    page::page(title, &names, collector, &missing(trace))
}

/// A call that may enclose the next one of its thread.
struct Open {
    depth: usize,
    /// Its field of the flame graph.
    field: usize,
    /// Its place in the table of functions.
    function: Option<usize>,
    duration: u64,
    /// Nanoseconds of the calls that it made.
    inner: u64,
}

/// Goes through the calls of one thread after the other.
struct Collector<'t, 'a> {
    trace: &'t Trace<'a>,
    /// Nanoseconds when the trace ended.
    latest: u64,
    /// There are no durations: calls are counted.
    counts: bool,
    stack: Vec<Open>,
    flame: Flame,
    functions: Functions,
    timeline: Timeline,
    busy: Busy,
    recorded: Recorded<'t>,
}

impl Collector<'_, '_> {
    fn call(&mut self, call: &Call) {
        self.leave(call.depth);
        let start = self.trace.nanoseconds(call.start);
        let end = call.end.map_or(self.latest, |end| self.trace.nanoseconds(end));
        let duration = if self.counts { 0 } else { end.saturating_sub(start) };
        if let Some(caller) = self.stack.last_mut() {
            caller.inner = caller.inner.saturating_add(duration);
        }
        if self.stack.is_empty() {
            self.busy.add(start, start.saturating_add(duration));
        }
        let around = self.stack.last().map(|caller| caller.field);
        let around = around.unwrap_or_else(|| self.flame.process(call.process));
        let field = self.flame.enter(around, call.function);
        let function = self.trace.function_index(call.function);
        self.functions.enter(function);
        self.timeline.add(call.thread, timeline::Bar::new(call, start, duration));
        if let Some(waker) = self.recorded.waker(call).filter(|_| call.end.is_some()) {
            let from = (waker.thread, end.saturating_sub(waker.late));
            self.timeline.arrow(Arrow { from, to: (call.thread, end) });
        }
        if self.recorded.is_mark(call) {
            let arguments = self.recorded.arguments(call);
            let name = self.trace.function(call.function).map(|function| function.name);
            let name = name.map(String::from_utf8_lossy).unwrap_or_default();
            let said = self.recorded.whole_mark(call, arguments.as_deref(), &name);
            self.timeline.mark(call.thread, start, said.unwrap_or_default());
        }
        self.stack.push(Open { depth: call.depth, field, function, duration, inner: 0 });
    }

    /// The calls at this depth and below it enclose no more.
    fn leave(&mut self, depth: usize) {
        while let Some(last) = self.stack.pop_if(|last| last.depth >= depth) {
            let own = last.duration.saturating_sub(last.inner);
            self.flame.leave(last.field, if self.counts { 1 } else { own });
            self.functions.leave(last.function, last.duration, own);
        }
    }
}
