//! `mcount record`: the table, put in the object.

use super::many::{over, report};
use super::options::{ManyArgs, OptionArgs};
use super::{complain, notes};
use crate::archive;
use crate::commit::record_file;
use crate::inputs::{self, Label, Take};
use crate::output;
use crate::words::counted;
use clap::{Args, ValueHint};
use mcount::{Base, Recording};
use std::io;
use std::path::PathBuf;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct RecordArgs {
    /// Objects to record, archives of objects, or folders to search for objects; - records standard
    /// input to standard output
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write the recorded object or archive here and leave the input alone (one input only); - for
    /// standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Make the table writable, so that a PIE or a shared object needs no text relocations; implied by
    /// --policy all
    #[arg(long)]
    writable: bool,
    /// Write a table section for each section of code, linked to it, so that ld --gc-sections keeps
    /// exactly the entries of live functions
    #[arg(long)]
    link_order: bool,
    /// Also split the compiler's list of patchable entries, a list for each section of code, if a linker
    /// would refuse or spoil it (g++ up to 12)
    #[arg(long)]
    split_lists: bool,
    /// Turn the recorded calls into NOPs; the table stays
    #[arg(long)]
    nop_all: bool,
    /// Say what was done to each file
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    many: ManyArgs,
}

pub(super) fn record(arguments: &RecordArgs) -> io::Result<u8> {
    let output = arguments.output.as_deref();
    if let Some(why) = inputs::cannot_have_output(&arguments.files, output) {
        return Ok(complain(why));
    }
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let mut how = arguments.options.record_options_or(Base::Linux);
    how.writable |= arguments.writable;
    how.link_order = arguments.link_order;
    how.nop_all = arguments.nop_all;
    how.split_lists = arguments.split_lists;
    let results = over(
        &arguments.files,
        &arguments.many,
        Take::Objects,
        |path, _| {
            record_file(path, output, &options, &how)
                .map_err(|failure| inputs::writing(path, failure))
        },
        |path| archive::record(path, output, &options, &how),
    )?;
    let mut notes = notes(&arguments.files, output);
    report(results, |label, recording| {
        warn_of_dropped(label, recording);
        if arguments.verbose { output::recorded(&mut notes, label, recording) } else { Ok(()) }
    })
}

/// Says which NOPs are no longer in the table: another run with a wider policy would not get them back,
/// as it does with calls.
fn warn_of_dropped(label: &Label, recording: &Recording) {
    for section in recording.excluded.iter().filter(|section| section.dropped != 0) {
        let dropped = counted(section.dropped, "entry", "entries");
        complain(&format!(
            "warning: {label}: {}: {dropped} dropped, which led to NOPs in place of calls: \
             the policy leaves them out",
            section.name
        ));
    }
}
