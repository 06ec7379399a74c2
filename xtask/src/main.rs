//! The project's daily chores, each a subcommand of `cargo xtask`. What takes longer is in `lab`.
//!
//! One file (and folder) a chore; this one only picks. A chore takes the rest of the command line
//! and returns whether all is well: `false` is exit code 1, an error is exit code 2.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool of the project"
)]

mod bare;
mod book;
mod counts;
mod deb;
mod dist;
mod foreign;
mod lab;
mod parallel;
mod pictures;
mod query;
mod release;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use chore_kit::{Result, apt, files, loongarch, programs, rust, sources, test_programs};
use lexopt::Arg;

const USAGE: &str = "\
usage: cargo xtask CHORE [OPTION…]

chores:
  bare      build a program without an operating system that traces itself, and run it in QEMU
  book      make a book of the pages in docs with mdBook, and follow every link
  bench     --check compares instruction counts; without it, that of cargo lab
  test      install what the tests need and run every check that CI runs
  dist      build the programs, man pages and completions into a folder (dist)
  deb       make packages of Debian of that folder; --check: lintian; --install: in a clean Debian root
  foreign   build libmcount-live for other processors, whose tests emulators run
  lab       run an experiment (cargo lab); those of its experiments are chores here, too
  query     test mcount-query, which takes a quarter of an hour to build; --python PATH: compare with DuckDB
  pictures  make the pictures of the book anew
  release   --dry-run: go through docs/release.md, and publish nothing
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let mut parser = lexopt::Parser::from_env();
    match parser.next()? {
        Some(Arg::Value(chore)) => match chore.to_str() {
            Some("bare") => bare::run(parser),
            Some("book") => book::run(parser),
            Some("test") => test::run(parser),
            Some("deb") => deb::run(parser),
            Some("dist") => dist::run(parser),
            Some("foreign") => foreign::run(parser),
            Some("lab") => lab::run(rest(&mut parser)?),
            Some("query") => query::run(parser),
            Some("pictures") => pictures::run(parser),
            Some("release") => release::run(parser),
            Some("bench") => bench(rest(&mut parser)?),
            // Those of cargo lab had this name once, and are known by it.
            _ => lab::run([vec![chore], rest(&mut parser)?].concat()),
        },
        Some(Arg::Short('h') | Arg::Long("help")) => {
            print!("{USAGE}");
            Ok(true)
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(USAGE.into()),
    }
}

/// The arguments that are left, as they are.
fn rest(parser: &mut lexopt::Parser) -> Result<Vec<OsString>> {
    Ok(parser.raw_args()?.collect())
}

/// Counts instructions with `--check`, which CI does; everything else that's measured is an experiment.
fn bench(arguments: Vec<OsString>) -> Result<bool> {
    let is = |name: &str| arguments.iter().any(|argument| argument == name);
    if !is("--check") {
        return lab::run([vec!["bench".into()], arguments].concat());
    }
    if arguments.iter().any(|argument| argument != "--check" && argument != "--bless") {
        return Err("usage: cargo xtask bench --check [--bless]".into());
    }
    counts::check(is("--bless"))
}
