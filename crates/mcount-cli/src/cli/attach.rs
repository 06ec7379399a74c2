//! `mcount attach`: traces a process that runs already.

use super::calls::CallsArgs;
use super::trace::write_lines;
use super::{SUCCESS, complain, say};
use crate::replay::parse_time;
use crate::trace::Size;
use crate::trace::attach::{Request, attach as run, list};
use clap::{Args, ValueHint};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
The process needs no preparation but hooks. --probe '*' makes them; or its program is compiled with -fpatchable-function-entry=5, \
with -pg, with or without -mfentry, or with clang's -fxray-instrument. mcount traces all its threads, and the processes that it makes by fork \
meanwhile, but no program that it executes and no library that it loads later. It also records library calls that \
wait, and when threads are off the CPU; --plain leaves these out. Tracing ends with ^C, SIGTERM, --duration, --calls, or the \
process. Then all hooks are NOPs again, and the process runs on.

Send SIGUSR1 to mcount attach to pause or resume, and SIGUSR2 to write the calls of --ring to a trace of \
their own.

Unless --ring or --max-size says otherwise, mcount keeps the newest 480M of calls. An option that takes a \
pattern, glob or condition may be given again.

If another mcount attach of yours has the process, --filter and --exclude change the functions that it \
traces from now on.

You have to be allowed to debug the process (ptrace). The sandbox of a process (seccomp) has to allow the \
system calls of tracing, and only root can read whether it does.

Exit codes: 0 if mcount traced the process, 2 if it couldn't.

Examples: mcount attach 1234
          mcount attach --duration 5s --filter 'handle_*' -o handle.mcount 1234
          mcount attach --list 1234
          mcount replay handle.mcount";

/// How much of the calls is kept by default, in bytes: as much as a ring can have.
const KEPT: u64 = 480 << 20;

#[derive(Args)]
pub(super) struct AttachArgs {
    /// The trace to write [default: PROGRAM.mcount in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Trace for this long, such as 5s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<u64>,
    /// Stop after about N calls, or a few more
    #[arg(long, value_name = "N", value_parser = super::options::number::<u64>)]
    calls: Option<u64>,
    #[command(flatten)]
    which: CallsArgs,
    /// Print which functions would be traced, as patterns, and leave the process alone
    #[arg(long, visible_alias = "dry-run", conflicts_with_all = ["output", "duration", "calls"])]
    list: bool,
    /// Say how many functions of which module have hooks, and how long the process was stopped
    #[arg(short, long)]
    verbose: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = process)]
    process: i32,
}

pub(super) fn process(text: &str) -> Result<i32, String> {
    match super::options::number::<i32>(text)? {
        process if process > 0 => Ok(process),
        _ => Err("processes are numbered from 1 on".to_owned()),
    }
}

/// Runs the command; its exit code.
pub(super) fn attach(arguments: AttachArgs) -> u8 {
    let scope = match arguments.which.scope() {
        Ok(scope) => scope,
        Err(error) => return complain(&error),
    };
    let process = arguments.process;
    let result = if arguments.list {
        list(process, &scope).and_then(|(lines, notes)| {
            for note in notes {
                complain(&note);
            }
            match write_lines(&lines) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                _ => Ok(SUCCESS),
            }
        })
    } else {
        run(Request {
            process,
            command: Vec::new(),
            output: arguments.output,
            scope,
            size: arguments.which.size().unwrap_or(Size::Ring(KEPT)),
            duration: arguments.duration.map(Duration::from_nanos),
            calls: arguments.calls,
            budget: arguments.which.budget,
            view: None,
            sampling: None,
            verbose: arguments.verbose,
            say: Arc::new(say),
            complain: Arc::new(complain),
        })
    };
    result.unwrap_or_else(|error| complain(&format!("process {process}: {error}")))
}
