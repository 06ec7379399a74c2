//! `mcount trace`: runs a program and records its calls.

use super::options::globs;
use super::{ERROR, complain};
use crate::children::SIGNALLED;
use crate::trace::{Ended, Outcome, Request, run};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The program needs hooks: compile it with -fpatchable-function-entry=5, or with -pg, with or without \
-mfentry. Functions without a hook aren't seen. Processes that it starts are traced as well.

The exit code is the program's; 128 + N if signal N ended it; 2 if it can't be traced, and then it \
isn't run.

Examples: mcount trace -- ./program arguments
          mcount trace --filter 'parse_*' --exclude '*_slow' -o parse.mcount -- ./program
          mcount replay program.mcount";

#[derive(Args)]
pub(super) struct TraceArgs {
    /// The trace to write [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Trace only these functions; * matches any characters; may be given again
    #[arg(short, long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Leave these functions out; may be given again
    #[arg(short, long, value_name = "GLOB")]
    exclude: Vec<String>,
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

/// Runs the command; its exit code.
pub(super) fn trace(arguments: &TraceArgs) -> u8 {
    let (filter, exclude) = match (globs(&arguments.filter), globs(&arguments.exclude)) {
        (Ok(filter), Ok(exclude)) => (filter, exclude),
        (Err(error), _) | (_, Err(error)) => return complain(&error.to_string()),
    };
    let request = Request {
        command: arguments.command.clone(),
        output: arguments.output.clone().unwrap_or_else(|| default_output(&arguments.command)),
        filter,
        exclude,
        children: arguments.children,
        verbose: arguments.verbose,
    };
    match run(request) {
        Ok(Outcome { ended, notes }) => {
            for note in notes {
                complain(&note);
            }
            match ended {
                Ended::Code(code) => code,
                Ended::Signal(signal) => {
                    u8::try_from(signal).map_or(ERROR, |signal| signal.saturating_add(SIGNALLED))
                }
            }
        }
        Err(error) => complain(&error.to_string()),
    }
}

/// `PROGRAM.mcount`, without the program's folder.
fn default_output(command: &[OsString]) -> PathBuf {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let mut name = program.to_owned();
    name.push(".mcount");
    PathBuf::from(name)
}
