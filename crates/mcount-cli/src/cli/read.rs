//! `mcount scan` and `mcount list`: reading, and printing what was found.

use super::many::over;
use super::options::{JobArgs, OptionArgs};
use super::{SUCCESS, complain};
use crate::files::Input;
use crate::output::{self, Format};
use clap::{Args, ValueHint};
use mcount::{Options, Sites};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct ReadArgs {
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

/// `scan` and `list`: read each file, then print all in the order given.
pub(super) fn read(
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
