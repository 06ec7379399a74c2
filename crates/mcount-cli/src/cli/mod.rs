//! The command line of `mcount`: the commands, and what they have in common. One file a command.
#![expect(clippy::doc_markdown, reason = "doc comments here are help on a terminal")]

#[cfg(can_trace)]
mod attach;
mod btf;
#[cfg(can_trace)]
mod calls;
mod cc;
mod check;
mod compress;
mod diff;
mod diff_traces;
mod front;
mod graph;
mod link;
mod many;
mod nop;
mod options;
#[cfg(can_patch)]
mod patch;
mod query;
mod read;
mod record;
mod replay;
mod report;
mod running;
#[cfg(can_trace)]
mod sample;
mod scratch;
mod sort;
mod stats;
mod table;
#[cfg(can_trace)]
mod top;
#[cfg(can_trace)]
mod trace;
#[cfg(feature = "tui")]
mod tui;
mod why;
mod why_marker;

#[cfg(can_trace)]
use self::attach::{AttachArgs, attach};
use self::cc::{CcArgs, cc};
use self::check::{CheckArgs, check};
use self::compress::CompressArgs;
use self::diff::{DiffArgs, diff};
use self::graph::{GraphArgs, graph};
use self::link::{LinkArgs, link};
use self::nop::{NopArgs, nop};
#[cfg(can_patch)]
use self::patch::{PatchArgs, patch};
use self::query::query;
use self::read::{ReadArgs, What, read};
use self::record::{RecordArgs, record};
use self::replay::{ReplayArgs, replay};
use self::report::{ReportArgs, report};
#[cfg(can_trace)]
use self::sample::{SampleArgs, sample};
use self::sort::{SortArgs, sort};
use self::stats::{StatsArgs, stats};
use self::table::{TableArgs, table};
#[cfg(can_trace)]
use self::top::{TopArgs, top};
#[cfg(can_trace)]
use self::trace::{TraceArgs, trace};
#[cfg(feature = "tui")]
use self::tui::{TuiArgs, tui};
use self::why::{WhyArgs, why};
use crate::children::{SIGNALLED, take_too_large_files_as_errors};
use crate::commit::{Failure, write_new};
use crate::demo;
use crate::files::is_standard;
use crate::query::QueryArgs;
use crate::response;
use crate::signals;
use crate::words::printable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// All went well.
const SUCCESS: u8 = 0;
/// The command found something that it will not pass over.
const FOUND: u8 = 1;
/// A file could not be processed, or the command line is wrong.
const ERROR: u8 = 2;

/// Traces programs through the hooks that compilers leave in functions, and keeps __mcount_loc correct.
///
/// A hook is a call to mcount, _mcount, __fentry__ or __gnu_mcount_nc (-pg, -mfentry), or an area of
/// NOPs (-fpatchable-function-entry). On Linux, on x86-64 and AArch64, mcount runs programs and
/// records each call. For kernels, it makes and checks the table of all hooks, on every processor.
#[derive(Parser)]
#[command(name = "mcount", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "@FILE stands for the arguments in FILE, quoted as for gcc. FILE may be -: standard input or output.\n\n\
                  Exit codes: 0 if all is well, 1 if the command found something, 2 if there \
                  was an error; trace, cc and link have that of the program that they ran."
)]
struct Cli {
    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", display_order = 2000)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Find call sites without changing anything
    #[command(after_help = "Example: mcount scan --format jsonl *.o | jq -r .symbol")]
    Scan(ReadArgs),
    /// Find call sites and put the table in the object
    #[command(after_help = "Objects are changed in place, by appending to them. An object that \
                            already has the right table isn't touched.\n\n\
                            Examples: mcount record file.o                  # of a kernel\n          \
                            mcount record --policy all file.o     # of a user program")]
    Record(RecordArgs),
    /// Print the table that a file has
    #[command(
        after_help = "The last column says what each entry is: recorded, excluded by the section \
                            policy, stale (no function covers it) or dropped (it is zero).\n\n\
                            Examples: mcount list --lines vmlinux\n          \
                            mcount list --count --by dir --debug-dir /usr/lib/debug vmlinuz"
    )]
    List(ReadArgs),
    /// Check the table, whichever tool made it, against the hooks in the code
    #[command(
        after_help = check::HELP,
        override_usage = "mcount check [OPTIONS] FILE...\n       mcount check --explain RULE"
    )]
    Check(CheckArgs),
    /// Compare two builds: slower functions in traces, or lost sites in files
    #[command(after_help = diff::HELP)]
    Diff(DiffArgs),
    /// Say why functions can or cannot be traced
    #[command(
        after_help = "Debug information, in the image or in a separate file, also tells which \
                            functions were inlined and which were compiled without hooks. The exit \
                            code is 1 if a name is unknown.\n\n\
                            Example: mcount why vmlinux vfs_read 'rcu_read_*'"
    )]
    Why(WhyArgs),
    /// Write an HTML page about a trace, or about what can be traced in an image
    #[command(
        after_help = "The page is a single file and needs no network. That of an image groups \
                            functions by directory if there is debug information. That of a trace has \
                            a flame graph, a timeline of threads, and a table of functions; of a trace \
                            of very many calls, the timeline has the longest, and counts the others.\n\n\
                            Examples: mcount report -o report.html vmlinux\n          \
                            mcount report -o report.html program.mcount"
    )]
    Report(ReportArgs),
    /// Make the table of a linked image (late recording)
    #[command(after_help = "Sites are found by the relocations that ld --emit-relocs keeps, by \
                            decoding, and by the compiler's list of patchable entries. The text \
                            says how many were found in which way.\n\n\
                            Example: mcount table -o table.o vmlinux")]
    Table(TableArgs),
    /// Link a program together with the table of its linked code
    #[command(
        after_help = "LD is a linker, or a compiler, which then runs once, as it was given, with \
                            mcount as its linker. A command that makes no program and no shared \
                            library passes through unchanged.\n\n\
                            Exit codes: that of the linker or compiler if it fails; 2 if no table \
                            comes out right, which a compiler takes for a failed link.\n\n\
                            Example: mcount link -- gcc -o program a.o b.o",
        override_usage = "mcount link [OPTIONS] [--] LD [ARG]..."
    )]
    Link(LinkArgs),
    /// Sort the table of a linked image in place
    #[command(
        after_help = "Relocations move along with the values. Zeroes, which kernels skip, come \
                            first. If --drop-weak would drop too much, nothing is changed and the \
                            exit code is 1.\n\nExample: mcount sort --drop-weak vmlinux"
    )]
    Sort(SortArgs),
    /// Turn recorded calls into NOPs, in objects, archives and images; the table stays
    #[command(
        after_help = "Areas of one-byte NOPs (gcc's patchable entries on x86) become one NOP. A \
                            file is changed whole or not at all.\n\n\
                            Example: mcount nop --keep 'net_*' program"
    )]
    Nop(NopArgs),
    /// Run a compiler, then record the objects it wrote
    #[command(
        after_help = cc::HELP,
        override_usage = "mcount cc [OPTIONS] [--] COMPILER [ARG]..."
    )]
    Cc(CcArgs),
    /// Run a program and record the calls of its functions
    #[cfg(can_trace)]
    #[command(
        after_help = trace::HELP,
        override_usage = "mcount trace [OPTIONS] [--] PROGRAM [ARG]..."
    )]
    Trace(TraceArgs),
    /// Trace a running process, then restore it
    #[cfg(can_trace)]
    #[command(after_help = attach::HELP)]
    Attach(AttachArgs),
    /// Replace functions of a running process, or put them back
    #[cfg(can_patch)]
    #[command(
        after_help = patch::HELP,
        override_usage = "mcount patch [OPTIONS] PID FIX.so\n       \
                          mcount patch --revert [OPTIONS] PID [PATCH]...\n       mcount patch --list PID"
    )]
    Patch(PatchArgs),
    /// Not on this processor
    #[cfg(all(can_trace, not(can_patch)))]
    #[command(hide = true, disable_help_flag = true)]
    Patch {
        /// What it's called with elsewhere
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _words: Vec<std::ffi::OsString>,
    },
    /// Show live which functions a process calls and how long they take
    #[cfg(can_trace)]
    #[command(
        after_help = top::HELP,
        override_usage = "mcount top [OPTIONS] PID\n       mcount top [OPTIONS] -- PROGRAM [ARG]..."
    )]
    Top(TopArgs),
    /// Estimate calls and times of a running process at a chosen cost
    #[cfg(can_trace)]
    #[command(
        after_help = sample::HELP,
        override_usage = "mcount sample [OPTIONS] PID\n       mcount sample [OPTIONS] --program NAME"
    )]
    Sample(SampleArgs),
    /// Print the calls of a trace, or export them to other tools
    #[command(after_help = replay::HELP)]
    Replay(ReplayArgs),
    /// Print how often each function was called and how long it took
    #[command(after_help = stats::HELP)]
    Stats(StatsArgs),
    /// Print which functions call which, as a tree with times
    #[command(after_help = graph::HELP)]
    Graph(GraphArgs),
    /// Look around in a trace on the terminal: call tree, timeline, functions, source
    #[cfg(feature = "tui")]
    #[command(after_help = tui::HELP)]
    Tui(TuiArgs),
    /// Ask traces and samples in SQL
    #[command(
        after_help = crate::query::HELP,
        override_usage = "mcount query [OPTIONS] TRACE... SQL\n       \
                          mcount query [OPTIONS] --file FILE TRACE..."
    )]
    Query(QueryArgs),
    /// Compress a trace; every command can read the result
    #[command(after_help = compress::HELP)]
    Compress(CompressArgs),
    /// Record a bundled object for each processor and print what was found
    Demo,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    Man {
        /// The folder to write them to, which must exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// The command line. An option that is given twice is no error: the last one counts, as with compilers.
fn command() -> clap::Command {
    front::with_short_help(Cli::command().args_override_self(true))
}

/// The same, with its commands in groups: completion scripts and man pages have no use for these.
fn grouped() -> clap::Command {
    front::grouped(command())
}

/// Runs `mcount` with these arguments, the program's name first; its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = with_response_files(cc::masquerade(arguments.into_iter().collect()));
    if arguments.len() <= 1 {
        let written = write!(anstream::stderr(), "{}", front::start(&command()).ansi());
        return finish(written.map(|()| ERROR));
    }
    let parsed = grouped()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| error.format(&mut grouped()));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { ERROR } else { SUCCESS };
            return finish(error.print().map(|()| code));
        }
    };
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    finish(execute(cli.command))
}

/// The exit code of a command that came to `result`, once all that it printed is written.
fn finish(result: io::Result<u8>) -> u8 {
    // A line that has no end yet is still in the buffer, and an error at the exit is seen by nobody.
    let written = result.and_then(|code| match io::stdout().flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(code),
    });
    match written {
        Ok(code) => code,
        // Whoever read the output has enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => SUCCESS,
        // Errors of files name them.
        Err(error) if error.raw_os_error().is_some() => {
            complain(&format!("standard output: {}", Failure::from(error)))
        }
        Err(error) => complain(&error.to_string()),
    }
}

/// `arguments` with response files read, but not those of a program that they run.
fn with_response_files(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "cc" || word == "link" {
            return arguments;
        }
        match word.as_bytes() {
            b"--color" => drop(words.next()),
            [b'-', ..] => {}
            _ => break,
        }
    }
    response::expand(arguments)
}

/// Lets signals leave nothing unfinished. Not where other programs are run: they would inherit it.
fn watch_signals(command: &Command) {
    let is_of_objects = matches!(
        command,
        Command::Record(_) | Command::Sort(_) | Command::Nop(_) | Command::Table(_)
    );
    if is_of_objects {
        signals::take_failed_writes_as_errors();
    } else {
        take_too_large_files_as_errors();
    }
    let writes = match command {
        // There's a pager only where nothing is written to a file.
        Command::Replay(arguments) => arguments.writes(),
        Command::Compress(_) => true,
        _ => is_of_objects,
    };
    if writes {
        signals::watch();
    }
}

fn execute(command: Command) -> io::Result<u8> {
    watch_signals(&command);
    match command {
        Command::Scan(arguments) => read(&arguments, What::Sites),
        Command::List(arguments) => match running::list_of(&arguments) {
            Some(path) => running::print(path, &arguments),
            None => read(&arguments, What::Entries),
        },
        Command::Diff(arguments) => diff(&arguments),
        Command::Why(arguments) => why(&arguments),
        Command::Record(arguments) => record(&arguments),
        Command::Check(arguments) => check(&arguments),
        Command::Report(arguments) => Ok(report(&arguments)),
        Command::Table(arguments) => table(&arguments),
        Command::Link(arguments) => link(&arguments),
        Command::Sort(arguments) => sort(&arguments),
        Command::Nop(arguments) => nop(&arguments),
        Command::Cc(arguments) => Ok(cc(&arguments)),
        #[cfg(can_trace)]
        Command::Trace(arguments) => Ok(trace(&arguments)),
        #[cfg(can_trace)]
        Command::Attach(arguments) => Ok(attach(arguments)),
        #[cfg(can_patch)]
        Command::Patch(arguments) => patch(&arguments),
        #[cfg(all(can_trace, not(can_patch)))]
        Command::Patch { .. } => Ok(complain(&crate::trace::missing("mcount patch"))),
        #[cfg(can_trace)]
        Command::Top(arguments) => Ok(top(arguments)),
        #[cfg(can_trace)]
        Command::Sample(arguments) => Ok(sample(&arguments)),
        Command::Replay(arguments) => replay(&arguments),
        Command::Stats(arguments) => stats(&arguments),
        Command::Graph(arguments) => graph(&arguments),
        #[cfg(feature = "tui")]
        Command::Tui(arguments) => tui(&arguments),
        Command::Query(arguments) => Ok(query(&arguments)),
        Command::Compress(arguments) => Ok(compress::run(&arguments)),
        Command::Demo => demo::run(&mut anstream::stdout().lock()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mcount", &mut script);
            io::stdout().write_all(&script).map(|()| SUCCESS)
        }
        Command::Man { folder } => {
            let page = include_bytes!("../recordmcount.1");
            let written = clap_mangen::generate_to(Cli::command(), &folder)
                .and_then(|()| write_new(&folder.join("recordmcount.1"), page));
            Ok(match written {
                Ok(()) => SUCCESS,
                Err(error) => complain(&format!("{}: {}", folder.display(), Failure::from(error))),
            })
        }
    }
}

/// Where `-v` says what was done: on standard output, unless a file goes there.
fn notes(inputs: &[PathBuf], output: Option<&Path>) -> Box<dyn Write> {
    let has_file = match output {
        Some(output) => is_standard(output),
        None => inputs.iter().any(|path| is_standard(path)),
    };
    if has_file { Box::new(anstream::stderr()) } else { Box::new(anstream::stdout()) }
}

/// Says that a signal ended `program`; the exit code that a shell has for that.
fn ended_by(signal: i32, program: &OsStr) -> u8 {
    complain(&format!("{}: ended by signal {signal}", program.display()));
    u8::try_from(signal).map_or(ERROR, |signal| signal.saturating_add(SIGNALLED))
}

#[cfg(can_trace)]
fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "mcount: {}", printable(text));
}

fn complain(message: &str) -> u8 {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{red}mcount:{red:#} {}", printable(message));
    ERROR
}
