//! `mcount graph`: which functions of a trace call which, as a tree with times.

use super::complain;
use super::options::number;
use super::replay::{SelectionArgs, with_trace};
use crate::pager::paged;
use crate::pattern::{Language, Pattern};
use crate::replay::graph::{GraphFormat, GraphManner, print};
use crate::replay::parse_time;
use crate::terminal;
use clap::{Args, ValueHint};
use std::io;
use std::path::PathBuf;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
Each line is a function as it's called by those above it: calls on the same path are one line. Total is the \
time with what the function called, and its share of all. Functions below --min-share or deeper than \
--depth are put together in a line in parentheses.

With FUNCTION, the first part has the paths by which it was called, and the second has what it called. Calls of \
FUNCTION within itself are in the second part alone.

Examples: mcount graph program.mcount
          mcount graph program.mcount pthread_mutex_lock
          mcount graph --format json --min-share 0 program.mcount 'parse_*' | jq '.nodes[0]'";

#[derive(Args)]
pub(super) struct GraphArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// Show what calls these functions, and what they call: a glob, NAME@MODULE or @MODULE
    #[arg(value_name = "FUNCTION")]
    function: Option<String>,
    /// FUNCTION and --hide are regular expressions, found anywhere in a name
    #[arg(long)]
    regex: bool,
    /// Show up to N functions beneath each other
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value = "64")]
    depth: usize,
    /// Merge functions that took less than this share of the time
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0.5%")]
    min_share: f64,
    /// How to print: a tree, or one JSON object
    #[arg(long, value_enum, default_value = "text")]
    format: GraphFormat,
    /// Print whole names in text
    #[arg(long)]
    full_names: bool,
    /// Leave out calls of these functions and keep what they called, as if their callers had; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    hide: Vec<String>,
    /// Only calls of these threads, by ID or name; may be given again
    #[arg(long, value_name = "ID|GLOB", help_heading = "Which calls")]
    thread: Vec<String>,
    /// Only calls that began this long after the trace did, or later
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    from: Option<u64>,
    /// Only calls that began earlier than this after the trace did
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    to: Option<u64>,
}

/// A number of hundredths.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse();
    let is_share = |share: &f64| (0.0..=100.0).contains(share);
    number.ok().filter(is_share).ok_or_else(|| "not a percentage such as 1%".to_owned())
}

/// Runs the command; its exit code.
pub(super) fn graph(arguments: &GraphArgs) -> io::Result<u8> {
    let language = if arguments.regex { Language::Regex } else { Language::Glob };
    let function = arguments.function.as_ref().map(|text| Pattern::new(text, language));
    let function = match function.transpose() {
        Ok(function) => function,
        Err(error) => return Ok(complain(&error)),
    };
    let manner = GraphManner {
        function,
        depth: arguments.depth,
        min_share: arguments.min_share,
        format: arguments.format,
        has_full_names: arguments.full_names,
        width: terminal::width(),
    };
    let (threads, times) = (arguments.thread.clone(), (arguments.from, arguments.to));
    let selection = SelectionArgs::of_threads(threads, times);
    let selection = selection.without(arguments.hide.clone(), arguments.regex);
    with_trace(&arguments.trace, &selection, |trace, selection, progress| {
        if arguments.format == GraphFormat::Text {
            paged(|out| print(out, trace, selection, &manner, progress))
        } else {
            print(&mut io::stdout().lock(), trace, selection, &manner, progress)
        }
    })
}
