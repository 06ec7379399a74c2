//! `mcount-query`: SQL over traces of function calls, samples, and tables of Parquet. `mcount query` runs it.
//!
//! It's a program and a workspace of its own, because DataFusion takes longer to build than all else here together.

mod batches;
mod engine;
mod errors;
mod inputs;
mod output;
mod parquet;
mod reader;
mod table;
mod tables;

use anstream::ColorChoice;
use clap::{Parser, ValueEnum};
use mcount_store::commit::{Failure, about};
use mcount_store::files::{is_standard, read_to_end};
use mcount_store::words::printable;
use mcount_view::query::{HELP, QueryArgs};
use std::env;
use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ask traces and samples in SQL
#[derive(Parser)]
#[expect(clippy::doc_markdown, reason = "doc comments here are help on a terminal")]
#[command(name = "mcount query", version, max_term_width = 100, args_override_self = true)]
#[command(after_help = HELP)]
#[command(override_usage = "mcount query [OPTIONS] TRACE... SQL\n       \
                            mcount query [OPTIONS] --file FILE TRACE...")]
struct Cli {
    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    color: Color,
    #[command(flatten)]
    query: QueryArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.color {
        Color::Auto => {}
        Color::Always => ColorChoice::Always.write_global(),
        Color::Never => ColorChoice::Never.write_global(),
    }
    let run = |(traces, sql): (Vec<PathBuf>, String)| engine::run(&traces, &sql, &cli.query);
    match question(&cli.query).and_then(|question| survive(|| run(question))) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&Failure::from(error).to_string());
            ExitCode::from(2)
        }
    }
}

/// Runs the query. Files can be such that a library panics: that's an error like others, and nothing half-written stays.
fn survive(run: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if env::var_os("RUST_BACKTRACE").is_none_or(|level| level == "0") {
        panic::set_hook(Box::new(|_| {}));
    }
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    done.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(io::Error::other(format!(
            "the query has failed: {}",
            text.unwrap_or("no reason given")
        )))
    })
}

/// The inputs and the query.
fn question(arguments: &QueryArgs) -> io::Result<(Vec<PathBuf>, String)> {
    let mut traces: Vec<PathBuf> = arguments.words.iter().map(PathBuf::from).collect();
    let sql = match &arguments.file {
        Some(file) => read_to_end(file).map_err(|error| about(file, error))?,
        None => given(&traces.pop().unwrap_or_default(), traces.is_empty())?,
    };
    if traces.is_empty() {
        return Err(io::Error::other("no trace given: mcount query TRACE... SQL"));
    }
    let sql = String::from_utf8(sql).map_err(|_| io::Error::other("the query isn't UTF-8"))?;
    if sql.trim().is_empty() {
        return Err(io::Error::other("the query is empty"));
    }
    Ok((traces, sql))
}

/// The query that the last word is, or has come from standard input.
fn given(word: &Path, is_only: bool) -> io::Result<Vec<u8>> {
    if is_standard(word) {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        return Ok(text);
    }
    if word.exists() {
        return Err(io::Error::other(if is_only {
            "no query given: mcount query TRACE... SQL".to_owned()
        } else {
            let what = "this is a file, and the last argument is the query";
            format!("{}: {what}; --file FILE reads that from a file", word.display())
        }));
    }
    Ok(word.as_os_str().as_encoded_bytes().to_vec())
}

/// Says something on standard error, in one line.
fn complain(message: &str) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{red}mcount:{red:#} {}", printable(message));
}
