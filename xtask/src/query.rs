//! `cargo xtask query`: builds `mcount-query`, a workspace of its own, and tests it with the `mcount` of this one.
//!
//! DataFusion takes longer to build than all else here, so CI doesn't.

use crate::programs::{self, Profile};
use crate::{Result, files};
use lexopt::{Arg, ValueExt as _};
use std::path::PathBuf;
use std::process::Command;

/// Where the program is, seen from the workspace.
pub(crate) const MANIFEST: &str = "query/Cargo.toml";

/// What it's called.
pub(crate) const PROGRAM: &str = "mcount-query";

const USAGE: &str = "\
usage: cargo xtask query [--python PATH]

  --python PATH   a Python that has the package duckdb, which has to read the same from Parquet
";

/// Runs the chore; `false` if a check failed.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut python = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("python") => python = Some(std::path::absolute(parser.value()?.string()?)?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = programs::build("mcount-cli", Profile::Release)?.join("mcount");
    let mut tests = cargo("test");
    // So that DataFusion isn't built a second time.
    tests.arg("--release").env("MCOUNT", mcount);
    if let Some(python) = python {
        tests.env("MCOUNT_PYTHON", python);
    }
    let mut lints = cargo("clippy");
    lints.args(["--release", "--all-targets", "--", "-D", "warnings"]);
    for command in [&mut tests, &mut lints] {
        if !command.status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Builds the program; where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let status = cargo("build").arg("--release").status()?;
    if !status.success() {
        return Err(format!("cargo build: {status}").into());
    }
    Ok(files::workspace().join("query/target/release").join(PROGRAM))
}

fn cargo(subcommand: &str) -> Command {
    let workspace = files::workspace();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg(subcommand).arg("--manifest-path").arg(workspace.join(MANIFEST));
    // Neither what it builds nor how belongs to the workspace.
    cargo.arg("--target-dir").arg(workspace.join("query/target"));
    cargo
}
