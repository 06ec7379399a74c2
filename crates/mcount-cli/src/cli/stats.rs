//! `mcount stats`: how often each function of a trace was called, and how long it took.

use super::replay::{SelectionArgs, with_trace};
use crate::pager::paged;
use crate::replay::stats::{Column, Format, print};
use clap::{Args, ValueHint};
use std::io;
use std::path::PathBuf;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
Total is the time in a function and in what it called; of calls within calls of the same function \
only the outermost count. Self leaves out the functions that it called. Median and 99th percentile \
are within 2 % of the true ones; all else is exact. A call that hadn't ended counts up to the end of \
the trace.

Examples: mcount stats program.mcount
          mcount stats --sort self --module libc.so.6 program.mcount
          mcount stats --format jsonl program.mcount | jq -r 'select(.p99_ns > 1000000).function'";

#[derive(Args)]
pub(super) struct StatsArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// What functions are sorted by: the one with most comes first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "total")]
    sort: Column,
    /// How to print: aligned text, one JSON object a function, or comma-separated values
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Runs the command; its exit code.
pub(super) fn stats(arguments: &StatsArgs) -> io::Result<u8> {
    let how = (arguments.sort, arguments.format);
    with_trace(&arguments.trace, &arguments.selection, |trace, selection| {
        if arguments.format != Format::Text {
            return print(&mut io::stdout().lock(), trace, selection, how);
        }
        paged(|out| print(out, trace, selection, how))
    })
}
