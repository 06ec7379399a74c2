//! `mcount record`: the table, put in the object.

use super::complain;
use super::many::{over, report};
use super::options::{JobArgs, OptionArgs};
use crate::archive;
use crate::commit::record_file;
use crate::inputs::{self, Take};
use crate::output;
use clap::{Args, ValueHint};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct RecordArgs {
    /// Objects to record, archives of objects, or folders with objects in them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write the recorded object, or archive, here and leave the input alone; for one input
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
    /// Turn the recorded calls into NOPs in the object; the table is kept
    #[arg(long)]
    nop_all: bool,
    /// Say what was done to each file
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

pub(super) fn record(arguments: &RecordArgs) -> io::Result<u8> {
    if arguments.output.is_some() && arguments.files.len() != 1 {
        return Ok(complain("--output takes one input file"));
    }
    let mut options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    options.writable |= arguments.writable;
    options.link_order = arguments.link_order;
    options.nop_all = arguments.nop_all;
    let output = arguments.output.as_deref();
    if output.is_some() && arguments.files.iter().any(|path| inputs::names_others(path)) {
        return Ok(complain("--output takes an object or an archive that holds its members"));
    }
    let file = |path: &Path, _| {
        record_file(path, output, &options).map_err(|failure| inputs::writing(path, failure))
    };
    let archive = |path: &Path| archive::record(path, output, &options);
    let results = over(&arguments.files, &arguments.jobs, Take::Objects, file, archive)?;
    let mut stdout = anstream::stdout().lock();
    report(results, |label, recording| {
        if arguments.verbose { output::recorded(&mut stdout, label, recording) } else { Ok(()) }
    })
}
