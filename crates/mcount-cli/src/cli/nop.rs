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
                let name = file.to_string_lossy();
                let name = printable(&name);
                if let Some(why) = refusal(&done) {
                    code = complain(&format!("{name}: {why}; the file is unchanged"));
                    continue;
                }
                if done.strays != 0 {
                    let entries =
                        noun(done.strays, "entry of the table leads", "entries of the table lead");
                    complain(&format!(
                        "warning: {name}: {entries} to no call or NOP that is known"
                    ));
                }
                if arguments.verbose {
                    let Nops { made, unrecorded, .. } = done;
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

/// A number with the noun for one thing or for several.
fn noun(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Why the file stays as it is, if not all that was asked for can be done.
fn refusal(done: &Nops) -> Option<String> {
    if let Some(first) = done.without_nop.first() {
        let calls = noun(done.without_nop.len(), "call has no NOP", "calls have no NOP");
        let first = if first.is_empty() { "a function without a name" } else { first };
        return Some(format!(
            "{calls}, the first in {} (--keep leaves functions out)",
            printable(first)
        ));
    }
    if done.unjoined != 0 {
        let areas = noun(done.unjoined, "area of NOPs has", "areas of NOPs have");
        return Some(format!("{areas} no symbol that says where the function begins"));
    }
    None
}

fn one(
    file: &Path,
    output: Option<&Path>,
    options: &Options,
    select: mcount::Select<'_>,
) -> Result<Nops, Failure> {
    change_file(file, output, |bytes| {
        let mut done = make_nops(bytes, options, select)?;
        let change = std::mem::replace(&mut done.change, NopChange::Object(None));
        let plan = match change {
            _ if refusal(&done).is_some() => Plan::Refuse,
            NopChange::Object(change) => change.map_or(Plan::Keep, Plan::Append),
            NopChange::Image(writes) if writes.is_empty() => Plan::Keep,
            NopChange::Image(writes) => Plan::Overwrite(writes),
        };
        Ok((plan, done))
    })
}
