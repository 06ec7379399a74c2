//! Spans, and what is said about the process that they're of.

use super::source;
use crate::replay::protobuf::{bytes, fixed64, number};
use crate::replay::values;
use crate::replay::{Names, SourceLines, end_name, program_name};
use mcount_trace::{Call, Named, Value};

/// Fields of messages.
mod field {
    /// Of `TracesData`.
    pub(super) const RESOURCE_SPANS: u32 = 1;

    /// Of `ResourceSpans`.
    pub(super) const RESOURCE: u32 = 1;
    pub(super) const SCOPE_SPANS: u32 = 2;

    /// Of `Resource`.
    pub(super) const ATTRIBUTES: u32 = 1;

    /// Of `ScopeSpans`.
    pub(super) const SCOPE: u32 = 1;
    pub(super) const SPANS: u32 = 2;

    /// Of `InstrumentationScope`.
    pub(super) const SCOPE_NAME: u32 = 1;
    pub(super) const SCOPE_VERSION: u32 = 2;

    /// Of `Span`.
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const PARENT: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START: u32 = 7;
    pub(super) const END: u32 = 8;
    pub(super) const SPAN_ATTRIBUTES: u32 = 9;

    /// Of `KeyValue`.
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;

    /// Of `AnyValue`.
    pub(super) const STRING: u32 = 1;
    pub(super) const BOOLEAN: u32 = 2;
    pub(super) const INTEGER: u32 = 3;
    pub(super) const DOUBLE: u32 = 4;
}

/// Values of `Span.kind`.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;

/// What identifies a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    trace: [u8; 16],
    span: [u8; 8],
}

/// The value of an attribute.
enum Any<'v> {
    Text(&'v str),
    Integer(i64),
    Double(f64),
    Boolean(bool),
}

/// Makes spans.
pub(super) struct Maker<'w> {
    names: &'w Names<'w, 'w>,
    lines: Option<&'w SourceLines>,
    latest: u64,
    /// Tells this trace from others.
    seed: u64,
    span: Vec<u8>,
}

impl<'w> Maker<'w> {
    pub(super) fn new(names: &'w Names<'w, 'w>, lines: Option<&'w SourceLines>) -> Self {
        let trace = names.trace;
        let latest = names.start.saturating_add(trace.nanoseconds(trace.latest()));
        let pid = trace.threads.first().map_or(0, |thread| thread.pid);
        let seed = mixed(trace.header.start_realtime ^ u64::from(pid).rotate_left(48));
        Self { names, lines, latest, seed, span: Vec::new() }
    }

    /// Appends the span of a call, in the span `around` it or as a trace of its own.
    pub(super) fn add(
        &mut self,
        out: &mut Vec<u8>,
        (call, around): (&Call, Option<Ids>),
        mark: Option<&str>,
        (arguments, result): (Option<&[Named]>, Option<&Value>),
    ) -> Ids {
        let number_of = mixed(self.seed ^ call.number());
        let [upper, lower] = [mixed(number_of ^ 1), mixed(number_of ^ 2)].map(u128::from);
        let own = (upper << 64 | lower).max(1).to_be_bytes();
        let ids = Ids {
            trace: around.map_or(own, |around| around.trace),
            span: number_of.max(1).to_be_bytes(),
        };
        let name = self.names.function(call.function);
        let (start, end) = self.names.times(call);
        let mut span = std::mem::take(&mut self.span);
        span.clear();
        bytes(&mut span, field::TRACE_ID, &ids.trace);
        bytes(&mut span, field::SPAN_ID, &ids.span);
        if let Some(around) = around {
            bytes(&mut span, field::PARENT, &around.span);
        }
        bytes(&mut span, field::NAME, mark.unwrap_or(&name.text).as_bytes());
        number(&mut span, field::KIND, if around.is_some() { INTERNAL } else { SERVER });
        fixed64(&mut span, field::START, start);
        fixed64(&mut span, field::END, end.unwrap_or(self.latest).max(start));
        let mut attribute = |key: &str, value: Any<'_>| {
            bytes(&mut span, field::SPAN_ATTRIBUTES, &attribute(key, &value));
        };
        attribute("code.function.name", Any::Text(&name.text));
        if let Some((file, line)) = source(self.lines, call.function) {
            attribute("code.file.path", Any::Text(file));
            attribute("code.line.number", Any::Integer(i64::from(line)));
        }
        attribute("mcount.module", Any::Text(&name.module));
        attribute("mcount.end", Any::Text(call.how.map_or("open", end_name)));
        if let Some(thread) = self.names.trace.threads.get(call.thread) {
            attribute("thread.id", Any::Integer(i64::from(thread.tid)));
            if !thread.name.is_empty() {
                attribute("thread.name", Any::Text(&String::from_utf8_lossy(thread.name)));
            }
        }
        for (at, one) in arguments.into_iter().flatten().enumerate() {
            let key = if one.name.is_empty() { at.to_string() } else { one.name.clone() };
            with_value(&one.value, |value| attribute(&format!("mcount.argument.{key}"), value));
        }
        if let Some(result) = result {
            with_value(result, |value| attribute("mcount.result", value));
        }
        bytes(out, field::SPANS, &span);
        self.span = span;
        ids
    }

    /// A piece with these spans of a process.
    pub(super) fn piece(&self, process: Option<usize>, spans: &[u8]) -> Vec<u8> {
        let trace = self.names.trace;
        let program = program_name(trace, process);
        let mut resource = Vec::new();
        let mut add = |key: &str, value: Any<'_>| {
            bytes(&mut resource, field::ATTRIBUTES, &attribute(key, &value));
        };
        add("service.name", Any::Text(&program));
        if let Some(process) = process.and_then(|at| trace.processes.get(at)) {
            add("process.pid", Any::Integer(i64::from(process.pid)));
            let path = String::from_utf8_lossy(process.name);
            add("process.executable.path", Any::Text(&path));
        }
        let (mut scope, mut scope_spans, mut all) = (Vec::new(), Vec::new(), Vec::new());
        bytes(&mut scope, field::SCOPE_NAME, b"mcount");
        bytes(&mut scope, field::SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
        bytes(&mut scope_spans, field::SCOPE, &scope);
        scope_spans.extend_from_slice(spans);
        bytes(&mut all, field::RESOURCE, &resource);
        bytes(&mut all, field::SCOPE_SPANS, &scope_spans);
        let mut piece = Vec::new();
        bytes(&mut piece, field::RESOURCE_SPANS, &all);
        piece
    }
}

/// A `KeyValue`.
fn attribute(key: &str, value: &Any<'_>) -> Vec<u8> {
    let (mut any, mut pair) = (Vec::new(), Vec::new());
    match value {
        Any::Text(text) => bytes(&mut any, field::STRING, text.as_bytes()),
        Any::Integer(value) => number(&mut any, field::INTEGER, value.cast_unsigned()),
        Any::Double(value) => fixed64(&mut any, field::DOUBLE, value.to_bits()),
        Any::Boolean(value) => number(&mut any, field::BOOLEAN, u64::from(*value)),
    }
    bytes(&mut pair, field::KEY, key.as_bytes());
    bytes(&mut pair, field::VALUE, &any);
    pair
}

/// A recorded value as one of an attribute. What has no type there is a text as in C.
fn with_value(value: &Value, take: impl FnOnce(Any<'_>)) {
    match value {
        Value::Signed(value) if i64::try_from(*value).is_ok() => {
            take(Any::Integer(i64::try_from(*value).unwrap_or_default()));
        }
        Value::Unsigned(value) if i64::try_from(*value).is_ok() => {
            take(Any::Integer(i64::try_from(*value).unwrap_or_default()));
        }
        Value::Boolean(value) => take(Any::Boolean(*value)),
        Value::Float(value) => take(Any::Double(*value)),
        Value::Single(value) => take(Any::Double(f64::from(*value))),
        Value::Text { bytes, is_bad: false, address, .. } if *address != 0 => {
            take(Any::Text(&String::from_utf8_lossy(bytes)));
        }
        other => take(Any::Text(&values::text(other))),
    }
}

/// A number whose bits depend on all bits of `value`, each on another half (`SplitMix64`).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
