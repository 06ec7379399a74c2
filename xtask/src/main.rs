//! The project's chores, each a subcommand of `cargo xtask`.
//!
//! One file (and folder) a chore; this one only picks. A chore takes the rest of the command line
//! and returns whether all is well: `false` is exit code 1, an error is exit code 2.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool of the project"
)]

mod acceptance;
mod apt;
mod attached;
mod bare;
mod bench;
mod budget;
mod deb;
mod debian;
mod dist;
mod files;
mod foreign;
mod hosts;
mod installed;
mod kernel;
mod modules;
mod newer;
mod outside;
mod patched;
mod programs;
mod project;
mod release;
mod rust;
mod sources;
mod stress;
mod test;
mod test_programs;
mod traced;

use std::process::ExitCode;

use lexopt::Arg;

/// What a chore can fail with: its message says which file or command.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of a chore or a part of it.
type Result<T> = std::result::Result<T, Error>;

const USAGE: &str = "\
usage: cargo xtask CHORE [OPTION…]

chores:
  bare      build a program without an operating system that traces itself, and run it in QEMU
  bench     measure the programs against others; --check compares instruction counts
  test      install what the tests need and run every check that CI runs
  dist      build the programs, man pages and completions into a folder (dist)
  deb       make packages of Debian of that folder; --check: lintian; --install: in a clean Debian root
  modules   record the kernel modules of Debian again and compare with the tables they came with
  foreign   build libmcount-live for other processors, whose tests emulators run
  installed compare kernels of Debian without symbols with their vmlinux, and what BPF can attach to with bpftool
  kernel    build a kernel with our recordmcount in its place, boot it in QEMU, and trace
  hosts     run the tests on 32-bit and big-endian hosts, by emulation where that is needed
  outside   trace programs of another processor from outside, in a machine that QEMU emulates
  project   build C projects of Debian with mcount cc and compare every table with objdump; --trace: run
            the tests of programs of Debian traced
  release   --dry-run: go through docs/release.md, and publish nothing
  stress    arm and disarm 10,000 functions for minutes, while threads, signals and processes go on
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
            Some("bench") => bench::run(parser),
            Some("test") => test::run(parser),
            Some("deb") => deb::run(parser),
            Some("dist") => dist::run(parser),
            Some("foreign") => foreign::run(parser),
            Some("hosts") => hosts::run(parser),
            Some("installed") => installed::run(parser),
            Some("kernel") => kernel::run(parser),
            Some("modules") => modules::run(parser),
            Some("outside") => outside::run(parser),
            Some("project") => project::run(parser),
            Some("release") => release::run(parser),
            Some("stress") => stress::run(parser),
            _ => Err(format!("no chore is called {}\n\n{USAGE}", chore.display()).into()),
        },
        Some(Arg::Short('h') | Arg::Long("help")) => {
            print!("{USAGE}");
            Ok(true)
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(USAGE.into()),
    }
}
