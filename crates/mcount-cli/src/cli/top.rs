//! `mcount top`: shows which functions of a program are called now.

use super::calls::budget;
use super::{complain, say};
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::top::{Format, Once, Saved, Screen, Sort};
use crate::trace::attach::{Request, View, attach};
use crate::trace::{Scope, Size};
use crate::words::size;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
mcount top attaches to the process as mcount attach does, and restores it at the end. It ends a \
program that it started by SIGTERM. That program can't read from the terminal, and its output there \
isn't shown.

Keys: q quits. s, t, c, m, x and n sort by self time, total time, calls, mean time, longest call and \
name. / shows only functions with this text in their name; with *, ?, [ or @, the text is a pattern. \
The arrows scroll. p pauses and resumes the display. w writes the newest calls to a trace.

Each refresh covers the calls that ended since the previous one. Self time leaves out the functions \
that were called. Percentages are of the time since then; with several threads, or functions that call \
themselves, they can exceed 100. A function that waits is shown with the function that calls it longest. \
If threads wait for a lock, the second line says which function another thread is in meanwhile.

With --once --format jsonl, each line is a function, with the fields process, function, module, calls, \
calls_per_second, total_ns, self_ns, mean_ns, max_ns, armed (false if mcount gave it up) and caller.

Examples: mcount top 1234
          mcount top --budget 2% --filter 'handle_*' 1234
          mcount top -- ./program arguments
          mcount top --system-calls --plain 1234
          mcount top --once --format jsonl 1234 | jq -r 'select(.max_ns > 1000000).function'";

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct TopArgs {
    /// Refresh this often, such as 0.5s
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    interval: Duration,
    /// Print one screen after the first --interval, or when the program ends, and quit
    #[arg(long)]
    once: bool,
    /// Print --once as aligned text, or as one JSON object per function
    #[arg(long, value_enum, default_value = "text", requires = "once")]
    format: Format,
    /// Sort by this column, largest first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "self")]
    sort: Sort,
    /// Quit after this long, such as 5s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<u64>,
    /// The trace that w writes; if it exists, mcount adds a number [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Look only at these functions; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    filter: Vec<String>,
    /// Look at these functions even if they were compiled without hooks; may be given again
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    probe: Vec<String>,
    /// Count these markers of <sys/sdt.h> (USDT), too: 'python:function__*'; may be given again
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    mark: Vec<String>,
    /// Leave these functions out; may be given again
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    exclude: Vec<String>,
    /// Patterns are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// Show functions with hooks only: no library calls that wait (locks, sleep, read, poll and the like)
    #[arg(long, help_heading = "Which calls")]
    plain: bool,
    /// Show system calls, too; their time is also in the functions that make them
    #[arg(long, help_heading = "Which calls")]
    system_calls: bool,
    /// Limit tracing to this share of the program's CPU time, such as 2%: mcount gives up functions that are
    /// called too often, and names them
    #[arg(long, value_name = "PERCENT", value_parser = budget, help_heading = "Which calls")]
    budget: Option<f64>,
    /// Keep the newest calls for w, in this many bytes
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

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match Duration::from_nanos(parse_time(text)?) {
        time if time < Duration::from_millis(50) => Err("at least 50ms".to_owned()),
        time => Ok(time),
    }
}

/// Runs the command; its exit code.
pub(super) fn top(arguments: TopArgs) -> u8 {
    let language = if arguments.regex { Language::Regex } else { Language::Glob };
    let patterns = [&arguments.filter, &arguments.probe, &arguments.mark, &arguments.exclude];
    let [filter, probe, mark, exclude] = match patterns.map(|texts| Pattern::all(texts, language)) {
        [Ok(filter), Ok(probe), Ok(mark), Ok(exclude)] => [filter, probe, mark, exclude],
        [Err(error), ..] | [_, Err(error), ..] | [.., Err(error), _] | [.., Err(error)] => {
            return complain(&error);
        }
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
        scope: Scope {
            filter,
            probe,
            mark,
            exclude,
            waits: !arguments.plain,
            system_calls: arguments.system_calls,
            ..Scope::default()
        },
        size: Size::Ring(arguments.ring),
        duration: arguments.duration.map(Duration::from_nanos),
        calls: None,
        budget: arguments.budget,
        view: Some(view),
        sampling: None,
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
