//! `mcount trace`: runs a program and records its calls.

use super::calls::CallsArgs;
use super::replay::show_all;
use super::{ERROR, SUCCESS, complain, say};
use crate::children::SIGNALLED;
use crate::commit::Failure;
use crate::files::is_standard;
use crate::packing::{compress, is_same};
use crate::trace::{CounterName, Ended, Outcome, Request, Scope, Size, run};
use crate::words::{grouped, printable, shell_path};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The program needs hooks: compile it with -fpatchable-function-entry=5, -pg, -pg -mfentry or clang's \
-fxray-instrument; or make hooks with --probe '*'. mcount also records library calls that wait, \
and time off the CPU; --plain leaves these out. It also traces what the program starts.

A pattern is a glob of function names, NAME@MODULE, or @MODULE; names can be those of the source \
(of C++ with or without arguments) or those of the symbol table. Functions that no pattern asks for stay \
as fast as they are. An option that takes a pattern, glob or condition may be given again. Sizes are bytes, or end in \
K, M or G.

Send SIGUSR1 to mcount to pause or resume, SIGUSR2 to write the calls of --ring to a new file.

The exit code is the program's; 128 + N if signal N ended it; 2 if it can't be traced, and then it \
isn't run.

Examples: mcount trace -- ./program arguments
          mcount trace --filter 'parse_*' --exclude '*_slow' -o parse.mcount -- ./program
          mcount trace --only-under handle_request --depth 3 -- ./server
          mcount trace --ring 64M --min-duration 10us -- ./server
          mcount trace --print --filter 'parse_*' -- ./program
          mcount trace --library-calls 'malloc' --library-calls '@libssl*' -- ./program
          mcount trace --list -- ./program";

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct TraceArgs {
    /// The trace to write [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    calls: CallsArgs,
    /// Count up to 4 events of the processor in each call: cycles,cache-misses
    #[arg(long, value_name = "LIST", value_parser = counters, help_heading = "What is recorded")]
    counters: Option<Counters>,
    /// Print the calls at the end, as mcount replay does; -o keeps the trace
    #[arg(long)]
    print: bool,
    /// Print which functions would be traced, and run nothing
    #[arg(long, visible_alias = "dry-run", conflicts_with_all = ["print", "output"])]
    list: bool,
    /// Compress the trace when the program has ended, as mcount compress does
    #[arg(long, conflicts_with = "list")]
    compress: bool,
    /// Run the program even if it has no hooks, to trace what it starts
    #[arg(long)]
    children: bool,
    /// Trace only the program, and not the processes that it starts
    #[arg(long, conflicts_with = "children")]
    no_children: bool,
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

/// What `--counters` says.
#[derive(Debug, Clone)]
struct Counters(Vec<CounterName>);

fn counters(text: &str) -> Result<Counters, String> {
    CounterName::parse_list(text).map(Counters)
}

fn scope(arguments: &TraceArgs) -> Result<Scope, String> {
    let mut scope = arguments.calls.scope()?;
    if let Some(Counters(counters)) = arguments.counters.clone() {
        if scope.entries {
            return Err("--counters needs the ends of calls, and --entries records none".to_owned());
        }
        scope.counters = counters;
    }
    if arguments.calls.budget.is_none() {
        scope.confine_waits();
    }
    Ok(scope)
}

/// Runs the command; its exit code.
pub(super) fn trace(arguments: &TraceArgs) -> u8 {
    let scope = match scope(arguments) {
        Ok(scope) => scope,
        Err(error) => return complain(&error),
    };
    let output = default_output(&arguments.command);
    let (output, _folder) = match (&arguments.output, arguments.print || arguments.list) {
        (Some(output), _) => (output.clone(), None),
        (None, false) => (output, None),
        (None, true) => match tempfile::tempdir() {
            Ok(folder) => (folder.path().join(output), Some(folder)),
            Err(error) => return complain(&Failure::from(error).to_string()),
        },
    };
    if is_standard(&output) {
        return complain(
            "the program writes the trace while it runs, so it has to be a file: --output NAME",
        );
    }
    // A name without a folder is looked for elsewhere.
    let program = arguments.command.first().map(Path::new);
    let program = program.filter(|program| program.components().count() > 1);
    if program.is_some_and(|program| is_same(program, &output)) {
        return complain(&format!("{}: is the program: choose another name", output.display()));
    }
    let request = Request {
        command: arguments.command.clone(),
        output,
        keeps_others: arguments.output.is_none(),
        scope,
        size: arguments.calls.size().unwrap_or(Size::Any),
        budget: arguments.calls.budget,
        children: arguments.children,
        is_alone: arguments.no_children,
        verbose: arguments.verbose,
        is_list: arguments.list,
    };
    match run(request) {
        Ok(outcome) => {
            let output = &outcome.output;
            if arguments.compress
                && let Err(error) = compress(output, output)
            {
                complain(&error.to_string());
            }
            let shown = match (arguments.list, arguments.print) {
                (true, _) => Shown::Functions,
                (false, true) => Shown::Calls,
                (false, false) => Shown::NextCommand,
            };
            end(&outcome, shown)
        }
        Err(error) => complain(&Failure::from(error).to_string()),
    }
}

/// What is printed at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The functions that would be traced.
    Functions,
    /// The trace.
    Calls,
    /// What to do with the trace.
    NextCommand,
}

/// Prints what is to be printed at the end; the exit code.
fn end(outcome: &Outcome, shown: Shown) -> u8 {
    let listed = write_lines(&outcome.listed);
    for note in &outcome.notes {
        complain(note);
    }
    let printed = match shown {
        Shown::Functions => Ok(SUCCESS),
        Shown::Calls => show_all(&outcome.output),
        Shown::NextCommand => {
            say(&next_command(&outcome.output, outcome.calls));
            Ok(SUCCESS)
        }
    };
    if let Err(error) = listed.and(printed)
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

/// What to do with the trace at `path`.
fn next_command(path: &Path, calls: u64) -> String {
    let noun = if calls == 1 { "call" } else { "calls" };
    let (name, calls) = (path.display(), grouped(calls));
    format!("{calls} {noun} in {name}; see where the time went: mcount stats {}", shell_path(path))
}

pub(super) fn write_lines(lines: &[String]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_can_be_pasted() {
        let line = next_command(Path::new("server.mcount"), 1234);
        assert_eq!(
            line,
            "1,234 calls in server.mcount; see where the time went: mcount stats server.mcount"
        );
        assert!(next_command(Path::new("a"), 1).starts_with("1 call in a;"));
    }
}
