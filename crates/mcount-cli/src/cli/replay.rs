//! `mcount replay`: the calls of a trace.

use super::options::number;
use super::{SUCCESS, complain};
use crate::commit::Failure;
use crate::files::{Input, is_standard};
use crate::packing::write_of;
use crate::pager::paged;
use crate::pattern::{Language, Pattern};
use crate::replay::{
    CallFormat, Clock, Collector, Field, Manner, Progress, Requests, Selection, SourceLines,
    Weight, missing, parse_time, parse_url, print, write_otlp, write_parquet, write_uftrace,
};
use crate::words::size;
use clap::{Args, ValueEnum, ValueHint};
use mcount_trace::condition::Condition;
use mcount_trace::{Trace, read};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
A pattern is a glob of function names, NAME@MODULE, or @MODULE; names can be those of the source \
(of C++ with or without arguments) or those of the symbol table. Options that say which calls are \
printed narrow each other down; one that is given again widens. A call counts as deep as it was, \
whether its callers are printed or not.

Text has a line where a call begins and one where it ends, or one for both if nothing comes \
between. How a call ended is said unless it returned: tail-call (it jumped to the next function), \
unwound (an exception or longjmp left it, or its thread ended), exit (of the process, or exec). \
A call without an end was still open when the trace ended. On a terminal, text goes through \
$PAGER (or less).

Examples: mcount replay program.mcount
          mcount replay --function 'parse_*' --min-duration 10us program.mcount
          mcount replay --from 1.5s --to 1.6s --thread 4711 program.mcount
          mcount replay --format jsonl program.mcount | jq -r 'select(.end == \"unwound\").function'
          mcount replay --format folded program.mcount | flamegraph.pl > program.svg
          mcount replay --format perfetto program.mcount > program.perfetto-trace
          mcount replay --format pprof -o program.pb.gz program.mcount; go tool pprof -top program.pb.gz
          mcount replay --format callgrind -o callgrind.out.1 program.mcount; kcachegrind callgrind.out.1
          mcount replay --format uftrace -o uftrace.data program.mcount; uftrace report";

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// How to print: a call graph; one JSON object per call; comma-separated values; folded stacks for
    /// flame graph programs; JSON for chrome://tracing; protocol buffers for Perfetto; a profile for go tool
    /// pprof, for KCachegrind (callgrind) or for profiler.firefox.com; tables for DuckDB and Spark; traces of
    /// requests for OpenTelemetry; or a folder that uftrace reads
    #[arg(long, value_enum, default_value = "text")]
    format: CallFormat,
    /// Write to this file; for --format parquet, below this folder; for --format uftrace, to this folder, which
    /// must not exist
    #[arg(short, long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// The columns of text, from left to right
    #[arg(long, value_enum, value_name = "FIELD", value_delimiter = ',', default_values_t = Field::USUAL)]
    fields: Vec<Field>,
    #[arg(
        long,
        value_enum,
        default_value = "trace",
        help = "Count times from the start of the trace, or as CLOCK_MONOTONIC does, like perf record -k mono and \
                trace-cmd record -C mono. All formats but uftrace know it"
    )]
    clock: Clock,
    /// Print names of C++ without arguments
    #[arg(long)]
    simple_names: bool,
    /// Say which source line each function begins on, by debug information; folded, chrome, perfetto and
    /// uftrace can't
    #[arg(long)]
    lines: bool,
    /// What folded stacks count: nanoseconds in a function but not in what it called; or calls
    #[arg(long, value_enum, default_value = "time")]
    weight: Weight,
    /// For --format otlp: make a trace of each call of these functions, with what it calls as spans; may be
    /// given again
    #[arg(long, value_name = "GLOB")]
    request: Vec<String>,
    /// For --format otlp: send to a collector, such as http://localhost:4318, again and again for a minute while
    /// it is down
    #[arg(long, value_name = "URL", value_parser = parse_url, conflicts_with = "output")]
    send: Option<Collector>,
    #[command(flatten)]
    selection: SelectionArgs,
}

impl ReplayArgs {
    /// Does it write a file or folder?
    pub(super) fn writes(&self) -> bool {
        self.output().is_ok_and(|output| output.is_some())
    }

    /// The file or folder to write; none for standard output.
    fn output(&self) -> Result<Option<&PathBuf>, String> {
        match &self.output {
            None if self.format.is_folder() => {
                let format = self.format.to_possible_value();
                let format = format.as_ref().map_or("", |format| format.get_name());
                Err(format!("--format {format} needs --output DIR"))
            }
            output if self.format.is_folder() => Ok(output.as_ref()),
            output => Ok(output.as_ref().filter(|path| !is_standard(path))),
        }
    }

    /// The calls that begin traces, if that's the format.
    fn requests(&self) -> Result<Option<Requests>, String> {
        let is_otlp = self.format == CallFormat::Otlp;
        match (is_otlp, self.request.is_empty()) {
            (true, true) => Err("--format otlp needs --request FUNCTION".to_owned()),
            (false, false) => Err("--request needs --format otlp".to_owned()),
            _ if !is_otlp && self.send.is_some() => Err("--send needs --format otlp".to_owned()),
            (false, true) => Ok(None),
            (true, false) => {
                let language = self.selection.language();
                Ok(Some(Requests { functions: Pattern::all(&self.request, language)? }))
            }
        }
    }
}

/// Which calls are meant.
#[derive(Args, Default)]
pub(super) struct SelectionArgs {
    /// Only calls of these functions; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    function: Vec<String>,
    /// Only calls that these functions make; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    caller: Vec<String>,
    /// Only calls of functions of these files, by path or file name; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    module: Vec<String>,
    /// Leave out calls of these functions and keep what they called, as if their callers had: the self time of
    /// callers then has theirs; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    hide: Vec<String>,
    /// Only calls of functions that have so many bytes of code, or more, such as 64 or 1K
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Which calls")]
    min_function_size: Option<u64>,
    /// Only calls of functions that have so many bytes of code, or fewer
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Which calls")]
    max_function_size: Option<u64>,
    /// Only calls that returned an error, where --results was recorded: a number below 0, a null pointer, or -errno as
    /// a pointer or a size
    #[arg(long, help_heading = "Which calls")]
    failed: bool,
    /// Only calls for whose recorded arguments and results this holds, such as 'size > 4096', 'result < 0' or 'name ==
    /// "x" || at.x == 3'; may be given again
    #[arg(
        long = "if",
        value_name = "CONDITION",
        allow_hyphen_values = true,
        help_heading = "Which calls"
    )]
    conditions: Vec<String>,
    /// Only calls of these threads, by ID or name; may be given again
    #[arg(long, value_name = "ID|GLOB", help_heading = "Which calls")]
    thread: Vec<String>,
    /// Functions and callers are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// Only calls that took this long, such as 10us or 0.5s, or that had not ended
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    min_duration: Option<u64>,
    /// Only calls with fewer than N callers: 1 is the outermost
    #[arg(long, value_name = "N", value_parser = number::<usize>, help_heading = "Which calls")]
    depth: Option<usize>,
    /// Only calls that began this long after the trace did, or later
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    from: Option<u64>,
    /// Only calls that began earlier than this after the trace did
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    to: Option<u64>,
}

impl SelectionArgs {
    /// All calls of these threads that begin within these times.
    pub(super) fn of_threads(thread: Vec<String>, (from, to): (Option<u64>, Option<u64>)) -> Self {
        Self { thread, from, to, ..Self::default() }
    }

    /// The same without these functions, which are regular expressions or globs.
    pub(super) fn without(self, hide: Vec<String>, regex: bool) -> Self {
        Self { hide, regex, ..self }
    }

    /// The kind of patterns of functions.
    fn language(&self) -> Language {
        if self.regex { Language::Regex } else { Language::Glob }
    }

    fn selection(&self) -> Result<Selection, String> {
        let modules: Vec<String> = self.module.iter().map(|glob| format!("@{glob}")).collect();
        let language = self.language();
        let parse = |text: &String| Condition::parse(text).map_err(|error| error.to_string());
        let conditions = self.conditions.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Selection {
            functions: Pattern::all(&self.function, language)?,
            callers: Pattern::all(&self.caller, language)?,
            modules: Pattern::all(&modules, Language::Glob)?,
            hidden: Pattern::all(&self.hide, language)?,
            sizes: self.min_function_size.unwrap_or(0)..=self.max_function_size.unwrap_or(u64::MAX),
            only_failed: self.failed,
            conditions,
            threads: Pattern::all(&self.thread, Language::Glob)?,
            min_duration: self.min_duration.unwrap_or(0),
            depth: self.depth,
            from: self.from.unwrap_or(0),
            to: self.to,
        })
    }
}

/// Runs the command; its exit code.
pub(super) fn replay(arguments: &ReplayArgs) -> io::Result<u8> {
    let manner = Manner {
        format: arguments.format,
        has_colour: false,
        has_simple_names: arguments.simple_names,
        fields: arguments.fields.clone(),
        weight: arguments.weight,
        clock: arguments.clock,
        lines: None,
    };
    if arguments.lines && !manner.can_have_lines() {
        return Ok(complain("--lines: folded, chrome, perfetto and uftrace have no source lines"));
    }
    let (output, requests) = match (arguments.output(), arguments.requests()) {
        (Ok(output), Ok(requests)) => (output, requests),
        (Err(error), _) | (_, Err(error)) => return Ok(complain(&error)),
    };
    let is_monotonic = arguments.clock == Clock::Monotonic;
    with_trace(&arguments.trace, &arguments.selection, |trace, selection, progress| {
        let lines = arguments.lines.then(|| SourceLines::of(trace));
        for warning in lines.iter().flat_map(|lines| &lines.warnings) {
            complain(warning);
        }
        let manner = Manner { lines, ..manner };
        if is_monotonic && trace.header.start_monotonic == 0 {
            return Err(io::Error::other("the trace has no time of CLOCK_MONOTONIC"));
        }
        let write = |out: &mut dyn io::Write| match &requests {
            Some(requests) => {
                let take = &mut |piece: &[u8]| out.write_all(piece);
                write_otlp(trace, (selection, requests), &manner, progress, take)
            }
            None => print(out, trace, selection, &manner, progress),
        };
        if let (Some(requests), Some(to)) = (&requests, &arguments.send) {
            let send = &mut |piece: &[u8]| to.send(piece);
            return write_otlp(trace, (selection, requests), &manner, progress, send);
        }
        match (manner.format, output) {
            (CallFormat::Parquet, Some(folder)) => {
                write_parquet(folder, &arguments.trace, trace, selection, &manner, progress)
            }
            (CallFormat::Uftrace, Some(folder)) => {
                let left_out = write_uftrace(folder, trace, selection, &manner, progress)?;
                if left_out > 0 {
                    complain(&format!("warning: {left_out} calls are too deep for uftrace"));
                }
                Ok(())
            }
            (_, Some(path)) => write_of(&arguments.trace, path, &mut |out| write(out)),
            (CallFormat::Text, None) => show(trace, selection, manner, progress),
            (format, None) => to_standard(format, write),
        }
    })
}

/// Writes to standard output. Whoever reads lines may have enough of them, but a part of a profile is none.
fn to_standard(
    format: CallFormat,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if !format.is_lines() && error.kind() == io::ErrorKind::BrokenPipe => {
            Err(io::Error::other(format!("standard output: {}", Failure::from(error))))
        }
        written => written,
    }
}

/// Prints text, in colours and through a pager on a terminal.
fn show(
    trace: &Trace<'_>,
    selection: &Selection,
    manner: Manner,
    progress: &Progress<'_>,
) -> io::Result<()> {
    let choice = anstream::AutoStream::choice(&io::stdout());
    let manner = Manner { has_colour: choice != anstream::ColorChoice::Never, ..manner };
    paged(|out| print(out, trace, selection, &manner, progress))
}

/// Prints all calls of a trace as text.
pub(super) fn show_all(path: &Path) -> io::Result<u8> {
    let manner = Manner {
        format: CallFormat::Text,
        has_colour: false,
        has_simple_names: false,
        fields: Field::USUAL.to_vec(),
        weight: Weight::Time,
        clock: Clock::Trace,
        lines: None,
    };
    with_trace(path, &SelectionArgs::default(), |trace, selection, progress| {
        show(trace, selection, manner, progress)
    })
}

/// Reads a trace and lets `print` print it, then says what is missing; the exit code.
pub(super) fn with_trace(
    path: &Path,
    selection: &SelectionArgs,
    print: impl FnOnce(&Trace<'_>, &Selection, &Progress<'_>) -> io::Result<()>,
) -> io::Result<u8> {
    read_trace(path, selection, |trace, selection, progress| {
        print(trace, selection, progress)?;
        warn(path, trace);
        Ok(())
    })
}

/// Reads a trace and lets `print` print it; the exit code.
pub(super) fn read_trace(
    path: &Path,
    selection: &SelectionArgs,
    print: impl FnOnce(&Trace<'_>, &Selection, &Progress<'_>) -> io::Result<()>,
) -> io::Result<u8> {
    let selection = match selection.selection() {
        Ok(selection) => selection,
        Err(error) => return Ok(complain(&error)),
    };
    let name = path.display();
    let input = match Input::given(path) {
        Ok(input) => input,
        Err(error) => return Ok(complain(&format!("{name}: {}", Failure::from(error)))),
    };
    let printed = read(input.bytes(), |trace| {
        if selection.only_failed && !trace.has_results() {
            let how = "no results were recorded: trace again with --results PATTERN";
            return Ok(complain(&format!("{name}: --failed: {how}")));
        }
        if !selection.conditions.is_empty() && !trace.has_values() {
            let how = "no arguments and results were recorded: trace again with --args PATTERN";
            return Ok(complain(&format!("{name}: --if: {how}")));
        }
        for unknown in selection.unknown_values(trace) {
            complain(&format!(
                "warning: {name}: --if: no function has a recorded value '{unknown}'"
            ));
        }
        for (what, pattern) in selection.unknown(trace) {
            complain(&format!("warning: {name}: no {what} matches {pattern}"));
        }
        selection.hide(trace);
        print(trace, &selection, &Progress::new(trace, Some(&input)))?;
        Ok(SUCCESS)
    });
    printed.unwrap_or_else(|error| Ok(complain(&format!("{name}: {error}"))))
}

/// Says what is missing from a trace.
pub(super) fn warn(path: &Path, trace: &Trace<'_>) {
    for what in missing(trace) {
        complain(&format!("warning: {}: {what}", path.display()));
    }
}
