//! The project's experiments, each a subcommand of `cargo lab`: they take minutes to hours, or much of a network.
//!
//! One file (and folder) an experiment; this one only picks. An experiment takes the rest of the command line
//! and returns whether all is well: `false` is exit code 1, an error is exit code 2.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool of the project"
)]

mod acceptance;
mod attached;
mod bench;
mod budget;
mod debian;
mod document;
mod fleet;
mod hosts;
mod installed;
mod kernel;
mod languages;
mod machine;
mod modules;
mod outside;
mod patched;
mod plan;
mod project;
mod sampled;
mod servers;
mod stress;
mod suites;
mod timeline;
mod traced;

use std::process::ExitCode;

use chore_kit::{
    Error, Result, apt, files, loongarch, newer, programs, rust, sources, test_programs,
};
use lexopt::Arg;

const USAGE: &str = "\
usage: cargo lab EXPERIMENT [OPTION…]

experiments:
  bench     measure the programs against others
  fleet     sample processes of 200 hosts, and ask DuckDB and Spark what got slower
  hosts     run the tests on 32-bit and big-endian hosts, by emulation where that is needed
  installed compare kernels of Debian without symbols with their vmlinux, and what BPF can attach to with bpftool
  kernel    build a kernel with our recordmcount in its place, boot it in QEMU, and trace
  languages run a program of each of many languages with every function probed, and compare what it prints
  machine   run programs that arm their hooks in a whole machine that QEMU emulates, with several processors
  modules   record the kernel modules of Debian again and compare with the tables they came with
  outside   trace programs of another processor from outside, in a machine that QEMU emulates
  plan      compare the plans of probes for the system's libraries with objdump, and count which functions can have one
  project   build C projects of Debian with mcount cc and compare every table with objdump; --trace: run
            the tests of programs of Debian traced
  servers   have probes come and go in redis, nginx and PostgreSQL under load
  stress    arm and disarm hooks or probes of 10,000 functions for minutes, while threads, signals and processes go on
  suites    run the tests of python, perl, git and openssl with every function probed, and compare
  timeline  compare system calls and kernel functions with strace's and trace-cmd's, under kernels of Debian in QEMU
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let mut parser = lexopt::Parser::from_env();
    match parser.next()? {
        Some(Arg::Value(experiment)) => match experiment.to_str() {
            Some("bench") => bench::run(parser),
            Some("fleet") => fleet::run(parser),
            Some("hosts") => hosts::run(parser),
            Some("installed") => installed::run(parser),
            Some("kernel") => kernel::run(parser),
            Some("languages") => languages::run(parser),
            Some("machine") => machine::run(parser),
            Some("modules") => modules::run(parser),
            Some("outside") => outside::run(parser),
            Some("plan") => plan::run(parser),
            Some("project") => project::run(parser),
            Some("sampled") => sampled::run(parser),
            Some("servers") => servers::run(parser),
            Some("stress") => stress::run(parser),
            Some("suites") => suites::run(parser),
            Some("timeline") => timeline::run(parser),
            _ => Err(format!("no experiment is called {}\n\n{USAGE}", experiment.display()).into()),
        },
        Some(Arg::Short('h') | Arg::Long("help")) => {
            print!("{USAGE}");
            Ok(true)
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(USAGE.into()),
    }
}
