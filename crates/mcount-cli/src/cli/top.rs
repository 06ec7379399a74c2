//! `mcount top`: shows which functions of a program are called now.

use super::calls::{budget, size};
use super::{complain, say};
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::top::{Format, Once, Saved, Screen, Sort};
use crate::trace::attach::{Request, View, attach};
use crate::trace::{Scope, Size};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The process is attached to, as mcount attach does it, and left as it was in the end. A program that is \
started is ended by SIGTERM then; it reads nothing from the terminal, and what it would print there isn't \
shown.

Keys: q ends it. s, t, c, m, x and n sort by time without what a function called (self), time with it \
(total), calls, mean time, longest call, and name. / shows only functions with some text in their name, or, with *, ?, [ or @, those of a pattern. \
The arrows scroll. p stops and goes on. w writes the newest calls to a trace.

Times are of calls that ended since the last picture; percentages are of that time, and of several \
threads, or of functions that call themselves, they can be more than 100.

With --once --format jsonl, a line is a function: process, function, module, calls, calls_per_second, \
total_ns, self_ns, mean_ns, max_ns, and whether it's still armed.

Examples: mcount top 1234
          mcount top --budget 2% --filter 'handle_*' 1234
          mcount top -- ./program arguments
          mcount top --once --format jsonl 1234 | jq -r 'select(.max_ns > 1000000).function'";

#[derive(Args)]
pub(super) struct TopArgs {
    /// How often to show something new, such as 0.5s
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    interval: Duration,
    /// Print what was called in the first --interval, or until the program ends, and end
    #[arg(long)]
    once: bool,
    /// How to print --once: aligned text, or one JSON object a function
    #[arg(long, value_enum, default_value = "text", requires = "once")]
    format: Format,
    /// What functions are sorted by: the one with most comes first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "self")]
    sort: Sort,
    /// End after so long, such as 5s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<u64>,
    /// Where w writes a trace; if it's there, a number is added [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Look only at these functions; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    filter: Vec<String>,
    /// Look at these functions even if they were compiled without hooks; may be given again
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    probe: Vec<String>,
    /// Leave these functions out; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    exclude: Vec<String>,
    /// Patterns are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// Look only at functions with hooks: not at the library calls that they wait in (locks, sleep, read, poll and the like)
    #[arg(long, help_heading = "Which calls")]
    plain: bool,
    /// Let tracing cost this part of the program's processor time at most, such as 2%: functions that are
    /// called too often for that aren't looked at any more
    #[arg(long, value_name = "PERCENT", value_parser = budget, help_heading = "Which calls")]
    budget: Option<f64>,
    /// Keep the newest calls for w, in that many bytes
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64M", help_heading = "Which calls")]
    ring: u64,
    /// The process
    #[arg(
        value_name = "PID",
        value_parser = super::attach::process,
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    process: Option<i32>,
    /// The program to start, and its arguments
    #[arg(value_name = "PROGRAM", last = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match Duration::from_nanos(parse_time(text)?) {
        time if time < Duration::from_millis(50) => Err("at least 50ms".to_owned()),
        time => Ok(time),
    }
}

/// Runs the command; its exit code.
pub(super) fn top(arguments: TopArgs) -> u8 {
    let language = if arguments.regex { Language::Regex } else { Language::Glob };
    let patterns = [&arguments.filter, &arguments.probe, &arguments.exclude];
    let [filter, probe, exclude] = match patterns.map(|texts| Pattern::all(texts, language)) {
        [Ok(filter), Ok(probe), Ok(exclude)] => [filter, probe, exclude],
        [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => return complain(&error),
    };
    let (interval, sort) = (arguments.interval, arguments.sort);
    let saved = Saved::new();
    let view: Box<dyn View> = if arguments.once {
        Box::new(Once { interval, sort, format: arguments.format, is_done: false })
    } else if saved.is_ok() {
        Box::new(Screen::new(interval, sort))
    } else {
        return complain("standard input and output aren't a terminal: use --once");
    };
    let request = Request {
        process: arguments.process.unwrap_or(0),
        command: arguments.command,
        output: arguments.output,
        scope: Scope { filter, probe, exclude, waits: !arguments.plain, ..Scope::default() },
        size: Size::Ring(arguments.ring),
        duration: arguments.duration.map(Duration::from_nanos),
        calls: None,
        budget: arguments.budget,
        view: Some(view),
        verbose: false,
        say: Arc::new(say),
        complain: Arc::new(complain),
    };
    let result = attach(request);
    if let Ok(saved) = saved {
        saved.restore();
    }
    let of = arguments.process.map(|process| format!("process {process}: ")).unwrap_or_default();
    result.unwrap_or_else(|error| complain(&format!("{of}{error}")))
}
