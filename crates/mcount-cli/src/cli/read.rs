//! `mcount scan` and `mcount list`: reading, and printing what was found.

use super::complain;
use super::many::{over, report};
use super::options::{InputArgs, JobArgs, OptionArgs};
use crate::archive;
use crate::inputs::{Contents, Take};
use crate::output::{self, Format};
use clap::{Args, ValueHint};
use mcount::{Options, Sites};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ReadArgs {
    /// Objects, modules and images to read, compressed or not, archives of objects, or folders with
    /// objects in them
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
    inputs: InputArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

/// `scan` and `list`: read each file, then print all in the order given.
pub(super) fn read(
    arguments: &ReadArgs,
    verb: fn(&[u8], &Options) -> mcount::Result<Sites>,
) -> io::Result<u8> {
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let limits = arguments.inputs.limits();
    let file = |path: &Path| {
        let input = Contents::open(path, limits)?;
        Ok(verb(input.bytes(), &options)?)
    };
    let archive = |path: &Path| archive::read(path, |object| verb(object, &options));
    let results = over(&arguments.files, &arguments.jobs, Take::Compressed, file, archive)?;
    let mut stdout = anstream::stdout().lock();
    report(results, |label, sites| {
        output::print(&mut stdout, arguments.format, arguments.demangle, label, sites)
    })
}
