//! `mcount sample`: estimates how often functions are called and how long they take, at a cost that's chosen.

use super::calls::budget;
use super::{complain, say};
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::sample::{Format, Sort, Table};
use crate::trace::attach::{Request, Sampling, attach};
use crate::trace::{Scope, Size};
use clap::Args;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
mcount sample attaches as mcount attach does. It arms all chosen hooks for about a millisecond, at random \
moments, and counts the calls that begin then, with all their time. In between the program runs at full \
speed. Functions that are called very often are armed in some windows only.

Numbers are estimates for the whole time, and ± says how far the truth may be away, in 19 cases of 20. It \
comes from how windows differ. ± ? means that fewer than 12 windows had a call. Time includes what a \
function calls, and share is the part of all time; with several threads, or functions that call \
themselves, it can exceed 100 %. Processes that the process makes aren't sampled.

On a terminal the table is refreshed until ^C. Otherwise mcount prints it once, at the end: after \
--duration, when the process ends, or by ^C or SIGTERM.

With --format jsonl, each line is a function, with the fields process, function, module, calls and windows \
(what was seen), calls_per_second, mean_ns and share (a part of 1), each also with _error (null if \
unknown), and unfinished.

Examples: mcount sample 1234
          mcount sample --cost 0.5% --duration 30s --filter 'handle_*' 1234
          mcount sample --probe '*' --duration 1m --format jsonl 1234 | jq -r 'select(.share > 0.1).function'";

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
    /// Print aligned text, or one JSON object per function
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
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
    #[arg(value_name = "PID", value_parser = super::attach::process)]
    process: i32,
}

/// How many bytes of calls are kept until they're read.
const KEPT: u64 = 16 << 20;

/// Runs the command; its exit code.
pub(super) fn sample(arguments: &SampleArgs) -> u8 {
    let language = if arguments.regex { Language::Regex } else { Language::Glob };
    let patterns = [&arguments.filter, &arguments.probe, &arguments.exclude];
    let [filter, probe, exclude] = match patterns.map(|texts| Pattern::all(texts, language)) {
        [Ok(filter), Ok(probe), Ok(exclude)] => [filter, probe, exclude],
        [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => return complain(&error),
    };
    let is_live = arguments.format == Format::Text && io::stdout().is_terminal();
    let (sort, format) = (arguments.sort, arguments.format);
    let table = Table::new(sort, format, is_live.then_some(arguments.interval));
    let request = Request {
        process: arguments.process,
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
            seed: arguments.seed.unwrap_or_else(any_seed),
            observer: Box::new(table),
        }),
        verbose: false,
        say: Arc::new(say),
        complain: Arc::new(complain),
    };
    let process = arguments.process;
    attach(request).unwrap_or_else(|error| complain(&format!("process {process}: {error}")))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from(std::process::id()) << 32 ^ u64::from(now.subsec_nanos()) ^ now.as_secs() << 20
}
