//! `mcount trace`: runs a program and records its calls.

use super::calls::CallsArgs;
use super::replay::show_all;
use super::{ERROR, SUCCESS, complain};
use crate::children::SIGNALLED;
use crate::commit::Failure;
use crate::files::is_standard;
use crate::packing::compress;
use crate::pattern::Pattern;
use crate::trace::{Ended, Outcome, Request, Scope, Size, run};
use crate::words::printable;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The program needs hooks: compile it with -fpatchable-function-entry=5, or with -pg, with or without \
-mfentry. Functions without a hook aren't seen. Processes that it starts are traced as well.

A pattern is a glob of function names, NAME@MODULE, or @MODULE; names can be those of the source \
(of C++ with or without arguments) or those of the symbol table. Functions that no pattern asks for stay \
as fast as they are. Sizes are bytes, or end in K, M or G.

Send SIGUSR1 to mcount to pause or resume, and SIGUSR2 to write the calls of --ring to a trace of \
their own.

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
    /// Trace calls of these functions, too, where they leave a module with hooks, or the program, through its
    /// PLT or GOT: those of libraries, which need no hooks; may be given again. The module of NAME@MODULE is the
    /// one that the function is in
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    library_calls: Vec<String>,
    /// Print the calls when the program has ended, as mcount replay does. Without --output, no trace is
    /// left behind
    #[arg(long)]
    print: bool,
    /// Print which functions would be traced, as patterns, and don't run the program
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

/// Runs the command; its exit code.
pub(super) fn trace(arguments: &TraceArgs) -> u8 {
    let library = Pattern::all(&arguments.library_calls, arguments.calls.language());
    let scope = arguments.calls.scope();
    let scope = match scope.and_then(|scope| Ok(Scope { library: library?, ..scope })) {
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
                complain(&format!("{}: {}", output.display(), Failure::from(error)));
            }
            end(&outcome, arguments.print.then_some(output))
        }
        Err(error) => complain(&Failure::from(error).to_string()),
    }
}

/// Says what is to be reported at the end, and prints the trace if it's to be printed; the exit code.
fn end(outcome: &Outcome, printed: Option<&PathBuf>) -> u8 {
    let listed = write_lines(&outcome.listed);
    for note in &outcome.notes {
        complain(note);
    }
    let shown = printed.map_or(Ok(SUCCESS), |path| show_all(path));
    if let Err(error) = listed.and(shown)
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
