//! `mcount stats`: how often each function of a trace was called, and how long it took.

use super::complain;
use super::replay::{SelectionArgs, read_trace, warn};
use crate::pager::paged;
use crate::replay::missing;
use crate::replay::stats::{By, Column, Manner, StatsFormat, lack, print};
use crate::terminal;
use clap::{Args, ValueHint};
use std::io;
use std::path::PathBuf;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
Text begins with three lines: what took the time, what it waited for, and what the trace lacks. \
Options that leave out functions also leave out these lines.

Total is the time in a function and in what it called; of calls within calls of the same function \
only the outermost count. Self leaves out the functions that it called. If the trace knows, text \
splits it into running and waiting: waiting is time off the CPU (--context-switches), or else the time \
in library calls that wait (--library-calls). Median and 99th percentile \
are within 1 % of the true ones, and exact where there are up to 64 calls; all else is exact. A call \
that hadn't ended counts up to the end of the trace.

With --by, the calls of a module, source file, thread or caller have a row together. Source files are \
looked up in the debug information of the modules, which must still be there. --by state splits the \
time of each function, with that of its system calls: running, waiting for a lock, a disk, the network \
(or events), a time or signal, the end of a thread or process, something else, and preempted. The name of \
the call that waits says which.

Examples: mcount stats program.mcount
          mcount stats --sort self --module libc.so.6 program.mcount
          mcount stats --by caller --function malloc program.mcount
          mcount stats --format jsonl program.mcount | jq -r 'select(.p99_ns > 1000000).function'";

#[derive(Args)]
pub(super) struct StatsArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// Group rows by function, module, source file, thread or caller; or split each function's
    /// time by what the thread did
    #[arg(long, value_enum, default_value = "function")]
    by: By,
    /// Sort by this column, largest first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "total")]
    sort: Column,
    /// Print aligned text, one JSON object per row, or comma-separated values
    #[arg(long, value_enum, default_value = "text")]
    format: StatsFormat,
    /// Print C++ names without arguments in JSON and CSV; text has short names anyway
    #[arg(long)]
    simple_names: bool,
    /// Print whole names in text
    #[arg(long)]
    full_names: bool,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Runs the command; its exit code.
pub(super) fn stats(arguments: &StatsArgs) -> io::Result<u8> {
    let manner = Manner {
        by: arguments.by,
        sort: arguments.sort,
        format: arguments.format,
        has_simple_names: arguments.simple_names,
        has_full_names: arguments.full_names,
        width: terminal::width(),
    };
    let path = &arguments.trace;
    if let Some(column) = without_column(manner) {
        return Ok(complain(&format!("--by state has no column '{column}' to sort by")));
    }
    read_trace(path, &arguments.selection, |trace, selection, progress| {
        if let Some(lack) = lack(trace, manner.by) {
            return Err(io::Error::other(format!("{}: --by state: {lack}", path.display())));
        }
        let warnings = if arguments.format == StatsFormat::Text {
            paged(|out| print(out, trace, selection, manner, progress, missing))?
        } else {
            print(&mut io::stdout().lock(), trace, selection, manner, progress, missing)?
        };
        for warning in warnings {
            complain(&warning);
        }
        if !manner.has_summary(selection) {
            warn(path, trace);
        }
        Ok(())
    })
}

/// The column to sort by, if there's none with these rows.
fn without_column(manner: Manner) -> Option<&'static str> {
    match (manner.by, manner.sort) {
        (By::State, Column::Mean) => Some("mean"),
        (By::State, Column::Min) => Some("min"),
        (By::State, Column::Median) => Some("median"),
        (By::State, Column::P99) => Some("p99"),
        (By::State, Column::Max) => Some("max"),
        _ => None,
    }
}
