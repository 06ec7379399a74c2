//! `mcount nop`: recorded calls become NOPs, in objects and images.

use super::options::{HookArgs, TableSectionArgs, globs};
use super::{SUCCESS, complain};
use crate::commit::{Failure, Plan, change_file};
use crate::inputs;
use crate::output::printable;
use clap::{Args, ValueHint};
use mcount::{GlobSet, NopChange, Nops, Options, make_nops};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct NopArgs {
    /// Objects or linked images
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write the file here and leave the input alone; for one input
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Leave the calls of these functions; * matches any characters
    #[arg(long, value_name = "GLOB")]
    keep: Vec<String>,
    /// Only the calls of these functions
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Say what was done to each file
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    hooks: HookArgs,
    #[command(flatten)]
    table: TableSectionArgs,
}

/// Runs the command; its exit code.
pub(super) fn nop(arguments: &NopArgs) -> io::Result<u8> {
    if arguments.output.is_some() && arguments.files.len() != 1 {
        return Ok(complain("--output takes one input file"));
    }
    let (keep, only) = match (globs(&arguments.keep), globs(&arguments.only)) {
        (Ok(keep), Ok(only)) => (keep, only),
        (Err(error), _) | (_, Err(error)) => return Ok(complain(&error.to_string())),
    };
    let options = Options {
        hooks: arguments.hooks.hook.clone(),
        table_section: arguments.table.table_section.clone(),
        ..Options::default()
    };
    let select = |name: &[u8]| {
        let is_in = |globs: &GlobSet| globs.is_match(&*String::from_utf8_lossy(name));
        !is_in(&keep) && (only.is_empty() || is_in(&only))
    };
    let mut code = SUCCESS;
    for file in &arguments.files {
        match one(file, arguments.output.as_deref(), &options, &select) {
            Ok(done) => {
                if done.left != 0 {
                    let left = done.left;
                    code = complain(&format!("{}: {left} calls have no NOP", file.display()));
                }
                if arguments.verbose {
                    let Nops { made, unrecorded, .. } = done;
                    let name = file.to_string_lossy();
                    let name = printable(&name);
                    let mut out = anstream::stdout();
                    writeln!(out, "{name}: {made} made NOPs, {unrecorded} not in the table")?;
                }
            }
            Err(failure) => {
                let failure = inputs::writing(file, failure);
                code = complain(&format!("{}: {failure}", file.display()));
            }
        }
    }
    Ok(code)
}

fn one(
    file: &Path,
    output: Option<&Path>,
    options: &Options,
    select: mcount::Select<'_>,
) -> Result<Nops<()>, Failure> {
    change_file(file, output, |bytes| {
        let Nops { change, made, left, unrecorded } = make_nops(bytes, options, select)?;
        let plan = match change {
            NopChange::Object(change) => change.map_or(Plan::Keep, Plan::Append),
            NopChange::Image(writes) if writes.is_empty() => Plan::Keep,
            NopChange::Image(writes) => Plan::Overwrite(writes),
        };
        Ok((plan, Nops { change: (), made, left, unrecorded }))
    })
}
