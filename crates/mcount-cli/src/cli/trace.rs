//! `mcount trace`: runs a program and records its calls.

use super::options::number;
use super::replay::show_all;
use super::{ERROR, SUCCESS, complain};
use crate::children::SIGNALLED;
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::trace::{Ended, Limit, Outcome, Request, Scope, Size, run};
use crate::words::printable;
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The program needs hooks: compile it with -fpatchable-function-entry=5, or with -pg, with or without \
-mfentry. Functions without a hook aren't seen. Processes that it starts are traced as well.

A pattern is a glob of function names, NAME@MODULE, or @MODULE; names are meant as in the source \
(of C++ with or without arguments) and as in the symbol table. Functions that no pattern asks for stay \
as fast as they are. Sizes are bytes, or have a K, M or G behind them.

The exit code is the program's; 128 + N if signal N ended it; 2 if it can't be traced, and then it \
isn't run.

Examples: mcount trace -- ./program arguments
          mcount trace --filter 'parse_*' --exclude '*_slow' -o parse.mcount -- ./program
          mcount trace --only-under handle_request --depth 3 -- ./server
          mcount trace --ring 64M --min-duration 10us -- ./server
          mcount trace --print --filter 'parse_*' -- ./program
          mcount trace --list -- ./program";

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct TraceArgs {
    /// The trace to write [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Trace only these functions; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    filter: Vec<String>,
    /// Leave these functions out; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    exclude: Vec<String>,
    /// Trace only these functions and what they call; may be given again
    #[arg(long, value_name = "PATTERN", value_parser = ordered, help_heading = "Which calls")]
    only_under: Vec<Ordered>,
    /// Leave out these functions and what they call. Of several that match, here or in --only-under, the
    /// last one counts
    #[arg(long, value_name = "PATTERN", value_parser = ordered, help_heading = "Which calls")]
    not_under: Vec<Ordered>,
    /// Patterns are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// Trace calls with fewer than N callers: 1 is the outermost. Functions of --only-under count from
    /// themselves on
    #[arg(long, value_name = "N", value_parser = depth, help_heading = "Which calls")]
    depth: Option<u64>,
    /// Trace calls that took this long, such as 10us or 0.5s
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    min_duration: Option<u64>,
    /// Record entries only: faster, and return addresses stay as they are
    #[arg(
        long,
        help_heading = "What is recorded",
        conflicts_with_all = ["only_under", "not_under", "depth", "min_duration"]
    )]
    entries: bool,
    /// What times are of: the processor's time-stamp counter; or none, so that only order and counts are
    /// recorded, which is faster
    #[arg(long, value_enum, default_value = "tsc", help_heading = "What is recorded")]
    clock: Clock,
    /// Keep only the newest calls, in so many bytes
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "What is recorded")]
    ring: Option<u64>,
    /// Stop recording when the trace has so many bytes
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size,
        conflicts_with = "ring",
        help_heading = "What is recorded"
    )]
    max_size: Option<u64>,
    /// Print the calls when the program has ended, as mcount replay does. Without --output, no trace is
    /// left behind
    #[arg(long)]
    print: bool,
    /// Print which functions would be traced, as patterns, and don't run the program
    #[arg(long, visible_alias = "dry-run", conflicts_with_all = ["print", "output"])]
    list: bool,
    /// Run the program even if it has no hooks, to trace what it starts
    #[arg(long)]
    children: bool,
    /// Say how many functions of which module have hooks
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

/// What times are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// The time-stamp counter.
    Tsc,
    /// None.
    None,
}

/// A pattern, and how many of its kind were given before it.
#[derive(Debug, Clone)]
struct Ordered(usize, String);

/// Never fails: what's wrong with a pattern is known when the others are.
#[expect(clippy::unnecessary_wraps, reason = "clap wants a result")]
fn ordered(text: &str) -> Result<Ordered, std::convert::Infallible> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Ok(Ordered(NEXT.fetch_add(1, Ordering::Relaxed), text.to_owned()))
}

fn depth(text: &str) -> Result<u64, String> {
    match number::<u64>(text)? {
        0 => Err("nothing is that shallow: 1 is the outermost call".to_owned()),
        depth => Ok(depth.min(Scope::ANY_DEPTH)),
    }
}

/// The bytes that `64M` says.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 4] =
        [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let unit = |(name, factor)| text.strip_suffix(name).map(|digits| (digits, factor));
    let (digits, factor) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    let wrong = || "not a size such as 500K, 64M or 1G".to_owned();
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count: u64 = if is_number { digits.parse().map_err(|_| wrong())? } else { 0 };
    count.checked_mul(factor).filter(|bytes| *bytes != 0).ok_or_else(wrong)
}

impl TraceArgs {
    fn scope(&self) -> Result<Scope, String> {
        let language = if self.regex { Language::Regex } else { Language::Glob };
        let with = |patterns: &[Ordered], is_recorded: bool| {
            patterns.iter().map(|pattern| (pattern.clone(), is_recorded)).collect::<Vec<_>>()
        };
        let mut limits = [with(&self.only_under, true), with(&self.not_under, false)].concat();
        limits.sort_by_key(|(Ordered(place, _), _)| *place);
        let limit = |(Ordered(_, text), is_recorded): (Ordered, bool)| {
            Pattern::new(&text, language).map(|pattern| Limit { pattern, is_recorded })
        };
        Ok(Scope {
            filter: Pattern::all(&self.filter, language)?,
            exclude: Pattern::all(&self.exclude, language)?,
            limits: limits.into_iter().map(limit).collect::<Result<_, _>>()?,
            depth: self.depth.unwrap_or(Scope::ANY_DEPTH),
            min_duration: self.min_duration.unwrap_or(0),
            entries: self.entries,
            untimed: self.clock == Clock::None,
            ..Scope::default()
        })
    }

    fn size(&self) -> Size {
        match (self.ring, self.max_size) {
            (Some(bytes), _) => Size::Ring(bytes),
            (None, Some(bytes)) => Size::Most(bytes),
            (None, None) => Size::Any,
        }
    }
}

/// Runs the command; its exit code.
pub(super) fn trace(arguments: &TraceArgs) -> u8 {
    let scope = match arguments.scope() {
        Ok(scope) => scope,
        Err(error) => return complain(&error),
    };
    if scope.untimed && scope.min_duration != 0 {
        return complain("--min-duration needs a clock");
    }
    let output = default_output(&arguments.command);
    let (output, _folder) = match (&arguments.output, arguments.print || arguments.list) {
        (Some(output), _) => (output.clone(), None),
        (None, false) => (output, None),
        (None, true) => match tempfile::tempdir() {
            Ok(folder) => (folder.path().join(output), Some(folder)),
            Err(error) => return complain(&error.to_string()),
        },
    };
    let request = Request {
        command: arguments.command.clone(),
        output: output.clone(),
        scope,
        size: arguments.size(),
        children: arguments.children,
        verbose: arguments.verbose,
        is_list: arguments.list,
    };
    match run(request) {
        Ok(outcome) => end(&outcome, arguments.print.then_some(&output)),
        Err(error) => complain(&error.to_string()),
    }
}

/// Says what is to be said at the end, and prints the trace if it's to be printed; the exit code.
fn end(outcome: &Outcome, printed: Option<&PathBuf>) -> u8 {
    let listed = write_lines(&outcome.listed);
    for note in &outcome.notes {
        complain(note);
    }
    let shown = printed.map_or(Ok(SUCCESS), |path| show_all(path));
    if let Err(error) = listed.and(shown)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return complain(&error.to_string());
    }
    match outcome.ended {
        Ended::Code(code) => code,
        Ended::Signal(signal) => {
            u8::try_from(signal).map_or(ERROR, |signal| signal.saturating_add(SIGNALLED))
        }
    }
}

fn write_lines(lines: &[String]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in lines {
        writeln!(out, "{}", printable(line))?;
    }
    out.flush()
}

/// `PROGRAM.mcount`, without the program's folder.
fn default_output(command: &[OsString]) -> PathBuf {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let mut name = program.to_owned();
    name.push(".mcount");
    PathBuf::from(name)
}
