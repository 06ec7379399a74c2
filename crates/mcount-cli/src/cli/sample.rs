//! `mcount sample`: estimates how often functions are called and how long they take, at a cost that's chosen.

use super::calls::budget;
use super::{SUCCESS, complain, say};
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::sample::{Again, Format, Output, SlowCalls, Sort, Table, sample_again};
use crate::trace::attach::{Request, Sampling, attach};
use crate::trace::{Scope, Size};
use clap::{Args, ValueHint};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
mcount sample attaches as mcount attach does. It arms all chosen hooks at random moments, for a few \
milliseconds each (a window), and counts the calls that begin then, with all their time. In between the program runs at full \
speed. Functions that are called very often are armed in some windows only.

Numbers are estimates for the whole time, and ± says how far the truth may be away, in 19 cases of 20. It \
comes from how windows differ. ± ? means that fewer than 12 windows had a call. Time includes what a \
function calls, and share is the part of all time; with several threads, or functions that call \
themselves, it can exceed 100 %. Self is that share less that of calls to other sampled functions. Processes \
that the process makes aren't sampled.

On a terminal the table is refreshed until ^C. Otherwise mcount prints it once, at the end: after \
--duration, when the process ends, or by ^C or SIGTERM. With --output it's written to a file instead: a \
table of Parquet if its name ends in .parquet, otherwise JSON lines, which mcount diff compares.

With --slow, functions that are called seldom are armed all the time, so that none of their slow calls is \
missed; mcount names the others at the end. The trace is next to --output, or PROGRAM.slow.mcount in the \
current folder.

With --format jsonl, each line is a function, with the fields start (seconds since 1970) and seconds of the \
sample, host, program and program_build (its build ID), process, function, module and its build, calls and \
windows (what was seen), calls_per_second, mean_ns, \
share and self_share (parts of 1), each also with _error (null if unknown), median_ns, p90_ns, p99_ns, \
unfinished, and callers: a list with function (null for code that isn't sampled), module, calls, \
calls_per_second and share of their calls.

Examples: mcount sample 1234
          mcount sample --callers --duration 10s 1234
          mcount sample --cost 0.5% --duration 30s --filter 'handle_*' 1234
          mcount sample --probe '*' --duration 1m --format jsonl 1234 | jq -r 'select(.share > 0.1).function'
          mcount sample --slow 10ms --duration 1h 1234 && mcount replay serve.slow.mcount
          mcount sample --program redis-server -o redis.jsonl --rotate 1h --keep 24";

#[derive(Args)]
pub(super) struct SampleArgs {
    /// What it may cost: the part of the program's CPU time that recording takes, and of one CPU that mcount takes
    #[arg(long, value_name = "PERCENT", value_parser = budget, default_value = "1%")]
    cost: f64,
    /// Sample for this long, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<u64>,
    /// Refresh the table on a terminal this often
    #[arg(long, value_name = "TIME", value_parser = super::top::interval, default_value = "1s")]
    interval: Duration,
    /// Sort by this column, largest first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "total")]
    sort: Sort,
    /// Say below each function who calls it
    #[arg(long)]
    callers: bool,
    /// Print aligned text, or one JSON object per function
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write the sample to this file, as JSON lines or a table of Parquet (.parquet)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Begin a new sample this often, in a file of its own: FILE-YYYYMMDD-HHMMSS, by UTC
    #[arg(long, value_name = "TIME", value_parser = period, requires = "output")]
    rotate: Option<Duration>,
    /// Remove the oldest of these files if there are more than this
    #[arg(long, value_name = "N", value_parser = count, requires = "rotate")]
    keep: Option<usize>,
    /// Sample the oldest process of this program, a file name or path, and after its end the next one; with
    /// --output, that takes --rotate
    #[arg(long, value_name = "NAME", conflicts_with = "process")]
    program: Option<OsString>,
    /// Stop when this process, the parent, ends
    #[arg(long, value_name = "PID", value_parser = super::attach::process, hide = true)]
    parent: Option<i32>,
    /// Keep every call that takes this long, such as 10ms, with what it called, in a trace: FILE.slow.mcount
    #[arg(long, value_name = "TIME", value_parser = slow)]
    slow: Option<(Duration, String)>,
    /// Draw the same random gaps as another run with this number
    #[arg(long, value_name = "N", value_parser = super::options::number::<u64>)]
    seed: Option<u64>,
    /// Sample only these functions; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    filter: Vec<String>,
    /// Sample these functions even if they were compiled without hooks; may be given again
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    probe: Vec<String>,
    /// Leave these functions out; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    exclude: Vec<String>,
    /// Patterns are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = super::attach::process, required_unless_present = "program")]
    process: Option<i32>,
}

/// How many files are kept.
fn count(text: &str) -> Result<usize, String> {
    match super::options::number::<usize>(text)? {
        0 => Err("at least 1".to_owned()),
        count => Ok(count),
    }
}

/// How long a slow call takes, and how that's written.
fn slow(text: &str) -> Result<(Duration, String), String> {
    match Duration::from_nanos(parse_time(text)?) {
        Duration::ZERO => Err("more than nothing".to_owned()),
        time => Ok((time, text.to_owned())),
    }
}

/// How long a file's sample is.
fn period(text: &str) -> Result<Duration, String> {
    match Duration::from_nanos(parse_time(text)?) {
        time if time < Duration::from_secs(1) => Err("at least 1s".to_owned()),
        time => Ok(time),
    }
}

/// How many bytes of calls are kept until they're read.
const KEPT: u64 = 16 << 20;

/// Runs the command; its exit code.
pub(super) fn sample(arguments: &SampleArgs) -> u8 {
    match (&arguments.program, arguments.process) {
        (Some(program), _) => sample_program(arguments, program),
        (None, process) => sample_process(arguments, process.unwrap_or_default()),
    }
}

/// Samples whatever process runs a program.
fn sample_program(arguments: &SampleArgs, program: &OsStr) -> u8 {
    if program.is_empty() {
        return complain("--program takes a file name or a path");
    }
    if arguments.output.is_some() && arguments.rotate.is_none() {
        return complain(
            "--program with --output needs --rotate: each process has files of its own",
        );
    }
    // What is wrong with the command is said at once, and not of each process.
    if let Err(error) = patterns(arguments) {
        return complain(&error);
    }
    if let Some(Err(error)) = output(arguments).as_ref().map(Output::check) {
        return complain(&error.to_string());
    }
    let path = Path::new(program);
    let has_folder = program.as_bytes().contains(&b'/');
    let whole = path.canonicalize().ok().filter(|_| has_folder);
    let again = Again {
        program: whole.as_deref().map_or(program, Path::as_os_str),
        arguments: without(std::env::args_os().skip(1), &["--program", "--duration"]),
        duration: arguments.duration.map(Duration::from_nanos),
        say,
    };
    let result = sample_again(&again);
    result.unwrap_or_else(|error| complain(&format!("{}: {error}", program.display())))
}

/// Has this process end when its parent does, which it hasn't yet.
fn ends_with(parent: i32) -> bool {
    let is_set = set_parent_process_death_signal(Some(Signal::TERM)).is_ok();
    is_set && getppid() == Pid::from_raw(parent)
}

/// Arguments without these options and their values.
fn without(arguments: impl Iterator<Item = OsString>, options: &[&str]) -> Vec<OsString> {
    let mut left = Vec::new();
    let mut is_value = false;
    for argument in arguments {
        let is_option = |option: &&str| {
            let rest = argument.as_bytes().strip_prefix(option.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        };
        match options.iter().find(|option| is_option(option)) {
            _ if is_value => is_value = false,
            Some(option) => is_value = argument.len() == option.len(),
            None => left.push(argument),
        }
    }
    left
}

/// The functions that are wanted, those that are probed, and those that are left out.
fn patterns(arguments: &SampleArgs) -> Result<[Vec<Pattern>; 3], String> {
    let language = if arguments.regex { Language::Regex } else { Language::Glob };
    let patterns = [&arguments.filter, &arguments.probe, &arguments.exclude];
    match patterns.map(|texts| Pattern::all(texts, language)) {
        [Ok(filter), Ok(probe), Ok(exclude)] => Ok([filter, probe, exclude]),
        [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => Err(error),
    }
}

fn output(arguments: &SampleArgs) -> Option<Output> {
    Some(Output {
        path: arguments.output.clone()?,
        is_rotated: arguments.rotate.is_some(),
        keep: arguments.keep,
        is_private: false,
        say,
    })
}

/// Samples one process.
fn sample_process(arguments: &SampleArgs, process: i32) -> u8 {
    if arguments.parent.is_some_and(|parent| !ends_with(parent)) {
        return SUCCESS;
    }
    let [filter, probe, exclude] = match patterns(arguments) {
        Ok(patterns) => patterns,
        Err(error) => return complain(&error),
    };
    let is_live = arguments.format == Format::Text && io::stdout().is_terminal();
    let output = output(arguments);
    if let Some(Err(error)) = output.as_ref().map(Output::check) {
        return complain(&error.to_string());
    }
    let interval = is_live.then_some(arguments.interval);
    let slow = arguments.slow.clone().map(|time| SlowCalls::new(time, output.as_ref(), say));
    let has_watch = slow.is_some();
    let table = Table::new(arguments.sort, arguments.format, interval, output, slow)
        .with_callers(arguments.callers)
        .with_say(say);
    let request = Request {
        process,
        command: Vec::new(),
        output: None,
        scope: Scope { filter, probe, exclude, ..Scope::default() },
        size: Size::Ring(KEPT),
        duration: arguments.duration.map(Duration::from_nanos),
        calls: None,
        budget: None,
        view: None,
        sampling: Some(Sampling {
            cost: arguments.cost,
            has_watch,
            seed: arguments.seed.unwrap_or_else(any_seed),
            period: arguments.rotate,
            observer: Box::new(table),
        }),
        verbose: false,
        say: Arc::new(say),
        complain: Arc::new(complain),
    };
    attach(request).unwrap_or_else(|error| complain(&format!("process {process}: {error}")))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from(std::process::id()) << 32 ^ u64::from(now.subsec_nanos()) ^ now.as_secs() << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_left_out_with_their_values() {
        let rows: [(&[&str], &[&str]); 4] = [
            (&["sample", "--program", "a", "-o", "b"], &["sample", "-o", "b"]),
            (
                &["sample", "--program=a", "--duration=1s", "--cost", "2%"],
                &["sample", "--cost", "2%"],
            ),
            (&["sample", "--duration", "1s", "--program", "--cost"], &["sample"]),
            (&["sample", "--programs", "a"], &["sample", "--programs", "a"]),
        ];
        for (given, expected) in rows {
            let left = without(given.iter().map(OsString::from), &["--program", "--duration"]);
            assert_eq!(left, expected.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
