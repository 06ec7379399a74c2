//! The command line of `mcount`: arguments, and running a command over many files.
#![expect(clippy::doc_markdown, reason = "doc comments here are help on a terminal")]

use crate::commit::{Failure, record_file};
use crate::demo;
use crate::files::Input;
use crate::output::{self, Format};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcount::{Base, Glob, GlobSet, GlobSetBuilder, Options, Policy, Sites, TABLE_SECTION};
use rayon::prelude::*;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// All went well.
const SUCCESS: u8 = 0;
/// A file could not be processed, or the command line is wrong.
const ERROR: u8 = 2;

/// From this many files on, a terminal shows progress.
const PROGRESS_FROM: usize = 200;

/// Finds the call sites of function tracing in ELF objects and keeps the table of them right.
///
/// A compiler leaves a hook at the start of each function: a call of mcount, _mcount, __fentry__ or
/// __gnu_mcount_nc (-pg, -mfentry), or an area of NOPs (-fpatchable-function-entry). A tracer
/// needs the address of each in one table, __mcount_loc. mcount makes that table, for every
/// processor.
#[derive(Parser)]
#[command(name = "mcount", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 all is well, 2 an error in any file or in the command line.")]
struct Cli {
    /// Colours in text: auto means on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
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
    /// Find call sites; write nothing
    #[command(after_help = "Example: mcount scan --format jsonl *.o | jq -r .symbol")]
    Scan(ReadArgs),
    /// Find call sites and put the table in the object
    #[command(after_help = "The object is changed in place, by appending to it. One that has the \
                            right table is left untouched.\n\n\
                            For a kernel object:     mcount record file.o\n\
                            For a user program:      mcount record --policy all file.o")]
    Record(RecordArgs),
    /// Read the table that is there
    List(ReadArgs),
    /// Record a bundled object of each processor and print what was found
    Demo,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    Man {
        /// Where to: a folder that exists
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

#[derive(Args)]
struct ReadArgs {
    /// Objects to read
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// How to print: aligned text, or one JSON object a line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the names of Rust and C++ functions as in their source
    #[arg(long)]
    demangle: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

#[derive(Args)]
struct RecordArgs {
    /// Objects to record
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write the recorded object here and leave the input alone; for one input
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Make the table writable, so that a PIE or a shared object needs no text relocations;
    /// --policy all implies it
    #[arg(long)]
    writable: bool,
    /// One table section for each section of code, ordered by it, so that ld --gc-sections keeps
    /// exactly the entries of live functions
    #[arg(long)]
    link_order: bool,
    /// Say what was done to each file
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

#[derive(Args)]
struct OptionArgs {
    /// Which sections are recorded: those that Linux traces, all with code, or none but --section's
    #[arg(long, value_enum, default_value = "linux", help_heading = "Policy")]
    policy: PolicyBase,
    /// Record these sections too; * matches any characters
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    section: Vec<String>,
    /// Leave these sections out; calls in them become NOPs
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_section: Vec<String>,
    /// Leave these functions alone
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_symbol: Vec<String>,
    /// Another hook symbol (gcc -mfentry-name=); may be given again
    #[arg(long, value_name = "NAME", help_heading = "Policy")]
    hook: Vec<String>,
    /// Take the NOPs that a compiler left in place of calls (gcc -mnop-mcount) for sites too
    #[arg(long, help_heading = "Policy")]
    nops: bool,
    /// The section that holds the table (gcc -mfentry-section=)
    #[arg(long, value_name = "NAME", default_value = TABLE_SECTION, help_heading = "Policy")]
    table_section: String,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum PolicyBase {
    Linux,
    All,
    None,
}

#[derive(Args)]
struct JobArgs {
    /// Files to work on at a time; 0 means one for each processor
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// Runs `mcount` with these arguments, the program's name first; its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ERROR } else { SUCCESS };
        }
    };
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    match execute(cli.command) {
        Ok(code) => code,
        // Whoever read the output has enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

fn execute(command: Command) -> io::Result<u8> {
    match command {
        Command::Scan(arguments) => read(&arguments, mcount::scan),
        Command::List(arguments) => read(&arguments, mcount::read_table),
        Command::Record(arguments) => record(&arguments),
        Command::Demo => demo::run(&mut anstream::stdout().lock()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mcount", &mut script);
            io::stdout().write_all(&script).map(|()| SUCCESS)
        }
        Command::Man { folder } => {
            clap_mangen::generate_to(Cli::command(), folder).map(|()| SUCCESS)
        }
    }
}

fn complain(message: &str) -> u8 {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{red}mcount:{red:#} {message}");
    ERROR
}

impl OptionArgs {
    fn options(&self) -> Result<Options, mcount::GlobError> {
        let base = match self.policy {
            PolicyBase::Linux => Base::Linux,
            PolicyBase::All => Base::All,
            PolicyBase::None => Base::None,
        };
        let policy = Policy {
            base,
            sections: globs(&self.section)?,
            exclude_sections: globs(&self.exclude_section)?,
            exclude_symbols: globs(&self.exclude_symbol)?,
        };
        Ok(Options {
            policy,
            hooks: self.hook.clone(),
            nops: self.nops,
            table_section: self.table_section.clone(),
            writable: base == Base::All,
            ..Options::default()
        })
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, mcount::GlobError> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern)?);
    }
    builder.build()
}

/// `scan` and `list`: read each file, then print all in the order given.
fn read(
    arguments: &ReadArgs,
    verb: fn(&[u8], &Options) -> mcount::Result<Sites>,
) -> io::Result<u8> {
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let results = over(&arguments.files, &arguments.jobs, |path| {
        let input = Input::open(path)?;
        Ok(verb(input.bytes(), &options)?)
    })?;
    let mut stdout = anstream::stdout().lock();
    let mut code = SUCCESS;
    for (path, result) in arguments.files.iter().zip(results) {
        match result {
            Ok(sites) => {
                output::print(&mut stdout, arguments.format, arguments.demangle, path, &sites)?;
            }
            Err(failure) => code = complain(&format!("{}: {failure}", path.display())),
        }
    }
    stdout.flush()?;
    Ok(code)
}

fn record(arguments: &RecordArgs) -> io::Result<u8> {
    if arguments.output.is_some() && arguments.files.len() != 1 {
        return Ok(complain("--output takes one input file"));
    }
    let mut options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    options.writable |= arguments.writable;
    options.link_order = arguments.link_order;
    let output = arguments.output.as_deref();
    let results =
        over(&arguments.files, &arguments.jobs, |path| record_file(path, output, &options))?;
    let mut code = SUCCESS;
    let mut stdout = anstream::stdout().lock();
    for (path, result) in arguments.files.iter().zip(results) {
        match result {
            Ok(recording) if arguments.verbose => output::recorded(&mut stdout, path, &recording)?,
            Ok(_) => {}
            Err(failure) => code = complain(&format!("{}: {failure}", path.display())),
        }
    }
    Ok(code)
}

/// `work` on each of `files`, in parallel; the results in the files' order.
fn over<T: Send>(
    files: &[PathBuf],
    jobs: &JobArgs,
    work: impl Fn(&Path) -> Result<T, Failure> + Sync,
) -> io::Result<Vec<Result<T, Failure>>> {
    if files.len() == 1 || jobs.jobs == 1 {
        return Ok(files.iter().map(|path| work(path)).collect());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.jobs).build();
    let pool = pool.map_err(io::Error::other)?;
    let progress = progress(files.len());
    let done = |path: &PathBuf| {
        let result = work(path);
        progress.inc(1);
        result
    };
    let results = pool.install(|| files.par_iter().map(done).collect());
    progress.finish_and_clear();
    Ok(results)
}

/// A bar on stderr, for long work on a terminal.
fn progress(length: usize) -> ProgressBar {
    if length < PROGRESS_FROM || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(length as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
