//! Printing the calls of a trace. One file a format; here is what they share.

mod callgrind;
pub(crate) mod chains;
mod chrome;
mod csv;
mod digits;
mod fields;
mod firefox;
mod folded;
pub mod graph;
mod jsonl;
mod lanes;
mod missing;
mod otlp;
mod parallel;
mod parquet;
mod perfetto;
mod pprof;
mod progress;
mod protobuf;
mod select;
pub(crate) mod short;
mod sources;
pub mod stats;
pub(crate) mod subject;
pub mod tables;
mod text;
pub(crate) mod time;
mod uftrace;
mod values;
mod visit;
mod waits;

use parallel::PrintJob;

pub use fields::Field;
pub use folded::Weight;
pub use missing::missing;
pub use otlp::{Collector, Requests, parse_url, write_otlp};
pub use parquet::write_parquet;
pub use progress::Progress;
pub use select::Selection;
pub use short::short_name;
pub use sources::SourceLines;
pub use time::parse_time;
pub(crate) use values::Recorded;

use crate::names::name_of;
use crate::words::{hex, printable};
use clap::ValueEnum;
use mcount_trace::{Call, End, Trace};
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

/// How to print calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CallFormat {
    /// A call graph, as ftrace and uftrace print it.
    Text,
    /// One JSON object a call and line.
    Jsonl,
    /// Comma-separated values; the first line names them.
    Csv,
    /// A line for each chain of callers with the nanoseconds spent there, for flame graph programs.
    Folded,
    /// JSON for the tracing page of Chrome, and for Perfetto.
    Chrome,
    /// Protocol buffers for Perfetto.
    Perfetto,
    /// A compressed profile for `go tool pprof`, Pyroscope and Parca.
    Pprof,
    /// A profile for KCachegrind and `callgrind_annotate`.
    Callgrind,
    /// A profile for the Firefox Profiler.
    Firefox,
    /// Tables for DuckDB and Spark, in a folder.
    Parquet,
    /// Traces of requests for OpenTelemetry.
    Otlp,
    /// A folder that uftrace reads.
    Uftrace,
}

impl CallFormat {
    /// Is it a folder?
    #[must_use]
    pub fn is_folder(self) -> bool {
        matches!(self, Self::Parquet | Self::Uftrace)
    }

    /// Is a part of it of use, as each line stands for itself?
    #[must_use]
    pub fn is_lines(self) -> bool {
        matches!(self, Self::Text | Self::Jsonl | Self::Csv | Self::Folded)
    }
}

/// How calls are printed.
#[derive(Debug, Clone)]
pub struct Manner {
    /// The format.
    pub format: CallFormat,
    /// Text has colours.
    pub has_colour: bool,
    /// Names of C++ are without arguments.
    pub has_simple_names: bool,
    /// The columns of text.
    pub fields: Vec<Field>,
    /// The meaning of the numbers in folded stacks.
    pub weight: Weight,
    /// From when on times are counted.
    pub clock: Clock,
    /// Where functions begin in their source, if that's printed.
    pub lines: Option<SourceLines>,
}

impl Manner {
    /// Has the format source lines?
    #[must_use]
    pub fn can_have_lines(&self) -> bool {
        match self.format {
            CallFormat::Text
            | CallFormat::Jsonl
            | CallFormat::Csv
            | CallFormat::Pprof
            | CallFormat::Callgrind
            | CallFormat::Firefox
            | CallFormat::Parquet
            | CallFormat::Otlp => true,
            CallFormat::Folded
            | CallFormat::Chrome
            | CallFormat::Perfetto
            | CallFormat::Uftrace => false,
        }
    }
}

/// From when on times are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// From the start of the trace.
    #[default]
    Trace,
    #[value(help = "As the system's CLOCK_MONOTONIC does")]
    /// As the system's `CLOCK_MONOTONIC` does.
    Monotonic,
}

/// Prints what `selection` has of a trace.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    out: &mut dyn Write,
    trace: &Trace<'_>,
    selection: &Selection,
    manner: &Manner,
    progress: &Progress<'_>,
) -> io::Result<()> {
    let mut names = Names::with(trace, manner.has_simple_names);
    if manner.clock == Clock::Monotonic {
        names.start = trace.header.start_monotonic;
    }
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    let filter = selection.filter(trace);
    let work = PrintJob { names: &names, filter: &filter, progress };
    match manner.format {
        CallFormat::Text => text::print(&mut out, &names, filter.calls(progress), manner)?,
        CallFormat::Jsonl => {
            parallel::print(&mut out, &work, &jsonl::Lines(manner.lines.as_ref()))?;
        }
        CallFormat::Csv => csv::print(&mut out, &work, manner.lines.as_ref())?,
        CallFormat::Folded => folded::print(&mut out, &names, &filter, manner.weight, progress)?,
        CallFormat::Chrome => chrome::print(&mut out, &work)?,
        CallFormat::Perfetto => {
            parallel::ahead(&work, |calls| perfetto::print(&mut out, &names, calls))?;
        }
        CallFormat::Pprof => pprof::print(&mut out, &work, manner.lines.as_ref())?,
        CallFormat::Callgrind => callgrind::print(&mut out, &work, manner.lines.as_ref())?,
        CallFormat::Firefox => firefox::print(&mut out, &work, manner.lines.as_ref())?,
        // See `write_parquet`, `write_uftrace` and `write_otlp`.
        CallFormat::Parquet | CallFormat::Uftrace | CallFormat::Otlp => {}
    }
    out.flush()
}

/// Writes what `selection` has of a trace into a new folder that uftrace reads; how many calls are left out because
/// they are too deep for it.
///
/// # Errors
///
/// There is something else, or it can't be written.
pub fn write_uftrace(
    folder: &Path,
    trace: &Trace<'_>,
    selection: &Selection,
    manner: &Manner,
    progress: &Progress<'_>,
) -> io::Result<u64> {
    let names = Names::with(trace, manner.has_simple_names);
    let filter = selection.filter(trace);
    uftrace::write(folder, &names, filter.calls(progress))
}

/// What output calls a function that the trace doesn't name.
const NAMELESS: &str = "?";

/// A trace with its names as they are printed, made when first asked for.
pub(crate) struct Names<'t, 'a> {
    pub(crate) trace: &'t Trace<'a>,
    functions: Vec<OnceLock<Box<Name>>>,
    /// What `--format jsonl` and `--format chrome` have of threads.
    threads: Vec<OnceLock<Box<[String; 2]>>>,
    is_simple: bool,
    unknown: Name,
    /// The printed time when the trace begins.
    start: u64,
}

/// How a function is printed.
pub(crate) struct Name {
    /// As in its source, on one line.
    pub(crate) text: String,
    /// The same as a JSON string, with quotes.
    pub(crate) json: String,
    /// The path of its module; empty if that isn't known.
    pub(crate) module: String,
    /// The same as a JSON string, or `null`.
    pub(crate) module_json: String,
    /// Its address in the module's file.
    pub(crate) address: Option<u64>,
    /// What `--format jsonl` has of it, up to its caller.
    jsonl: String,
    /// What `--format chrome` has of it.
    chrome: String,
}

impl Name {
    fn new(name: &str, module: Option<&str>, address: Option<u64>) -> Self {
        let json = json_string(name);
        let module_json = module.map_or_else(|| "null".to_owned(), json_string);
        let place = address.map_or_else(|| "null".to_owned(), |address| address.to_string());
        let has_module = module.is_some_and(|module| !module.is_empty());
        let category = if has_module { &module_json } else { "\"\"" };
        Self {
            text: printable(name).into_owned(),
            module: printable(module.unwrap_or_default()).into_owned(),
            address,
            jsonl: format!(
                ",\"function\":{json},\"module\":{module_json},\"address\":{place},\"caller\":"
            ),
            chrome: format!("\"name\":{json},\"cat\":{category},\"pid\":"),
            json,
            module_json,
        }
    }
}

impl<'t, 'a> Names<'t, 'a> {
    pub(crate) fn new(trace: &'t Trace<'a>) -> Self {
        Self::with(trace, false)
    }

    /// Names of C++ are without arguments if `is_simple`.
    pub(crate) fn with(trace: &'t Trace<'a>, is_simple: bool) -> Self {
        let functions = trace.functions.iter().map(|_| OnceLock::new()).collect();
        let threads = trace.threads.iter().map(|_| OnceLock::new()).collect();
        let unknown = Name::new(NAMELESS, None, None);
        Self { trace, functions, threads, is_simple, unknown, start: 0 }
    }

    /// What `--format jsonl` and `--format chrome` have of the thread that made `call`.
    fn thread(&self, call: &Call) -> [&str; 2] {
        let Some(texts) = self.threads.get(call.thread) else { return [""; 2] };
        let texts = texts.get_or_init(|| {
            let (pid, tid) = self.ids(call);
            let jsonl = format!("{{\"process\":{pid},\"thread\":{tid},\"depth\":");
            Box::new([jsonl, format!("{pid},\"tid\":{tid},\"ts\":")])
        });
        texts.each_ref().map(String::as_str)
    }

    /// The names of the function with this number.
    pub(crate) fn function(&self, number: u32) -> &Name {
        let at = self.trace.function_index(number);
        let found = at.and_then(|at| self.trace.functions.get(at).zip(self.functions.get(at)));
        let Some((function, name)) = found else { return &self.unknown };
        name.get_or_init(|| {
            let module = self.trace.module(function.module);
            let path = module.map(|module| String::from_utf8_lossy(module.path));
            let text = String::from_utf8_lossy(function.name);
            // Of a stripped file only addresses are known.
            let nameless = text.is_empty();
            let text = if nameless { format!("{:#x}", function.address).into() } else { text };
            let name = name_of(&text, true);
            let name = if self.is_simple { short::simple_name(&name) } else { name };
            Box::new(Name::new(&name, path.as_deref(), Some(function.address)))
        })
    }

    /// The process and thread ID of the thread that made `call`.
    pub(crate) fn ids(&self, call: &Call) -> (u32, u32) {
        self.trace.threads.get(call.thread).map_or((0, 0), |thread| (thread.pid, thread.tid))
    }

    /// Start and end of `call` as they're printed, in nanoseconds: since the start of the trace, or by another clock.
    pub(crate) fn times(&self, call: &Call) -> (u64, Option<u64>) {
        let time = |ticks: u64| self.trace.nanoseconds(ticks).saturating_add(self.start);
        (time(call.start), call.end.map(time))
    }
}

/// What programs read of how a call ended.
pub(crate) fn end_name(how: End) -> &'static str {
    match how {
        End::Return => "return",
        End::TailCall => "tail-call",
        End::Unwound => "unwound",
        End::Exit => "exit",
    }
}

/// The file name of the program that a process ran.
pub(crate) fn program_name(trace: &Trace<'_>, at: Option<usize>) -> String {
    let process = at.and_then(|at| trace.processes.get(at));
    let path = process.map_or(&b""[..], |process| process.name);
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(if file.is_empty() { NAMELESS.as_bytes() } else { file });
    printable(&name).into_owned()
}

/// `text` as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
