//! `mcount tui`: a trace on a terminal, to look around in.

use super::complain;
use super::replay::{SelectionArgs, read_trace};
use crate::children::SIGNALLED;
use crate::replay::missing;
use crate::tui::run;
use crate::words::printable;
use clap::{Args, ValueHint};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
Views: 1 the tree of calls, 2 a timeline of each thread, 3 the functions, 4 the source of a function, by debug \
information. The last line has the keys. The tree and the functions are there once all calls were read; the \
timeline is there at once, and shows what each thread does in the middle of each column.

/ searches for a part of a name or, with *, ?, [ or @, a pattern; n goes on. q ends it.

Example: mcount tui program.mcount";

#[derive(Args)]
pub(super) struct TuiArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
}

/// Runs the command; its exit code.
pub(super) fn tui(arguments: &TuiArgs) -> io::Result<u8> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let instead = "use mcount stats, mcount graph or mcount replay";
        return Ok(complain(&format!("standard input and output aren't a terminal: {instead}")));
    }
    let name = arguments.trace.file_name().unwrap_or_default().display().to_string();
    let mut signal = None;
    let code = read_trace(&arguments.trace, &SelectionArgs::default(), |trace, _, progress| {
        signal = run(&printable(&name), trace, &missing(trace), progress)?;
        Ok(())
    })?;
    let signal = signal.and_then(|signal| u8::try_from(signal).ok());
    Ok(signal.map_or(code, |signal| signal.saturating_add(SIGNALLED)))
}
