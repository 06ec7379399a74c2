//! `mcount nop`: recorded calls become NOPs, in objects, archives and images.

use super::many::{over, report};
use super::options::{HookArgs, ManyArgs, TableSectionArgs, globs};
use super::{complain, notes};
use crate::archive::{self, Members};
use crate::commit::{Failure, Plan, change_file};
use crate::inputs::{self, Label, Take};
use crate::words::{counted, printable};
use clap::{Args, ValueHint};
use mcount::{Change, ErrorKind, GlobSet, NopChange, Nops, Options, make_nops};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct NopArgs {
    /// Objects, linked images, archives of objects, or folders to search for objects; - changes standard
    /// input to standard output
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Write the file here and leave the input alone (one input only); - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Leave the calls of these functions alone; * matches any characters
    #[arg(long, value_name = "GLOB")]
    keep: Vec<String>,
    /// Change only the calls of these functions
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Say what was done to each file
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    hooks: HookArgs,
    #[command(flatten)]
    table: TableSectionArgs,
    #[command(flatten)]
    many: ManyArgs,
}

/// Runs the command; its exit code.
pub(super) fn nop(arguments: &NopArgs) -> io::Result<u8> {
    let output = arguments.output.as_deref();
    if let Some(why) = inputs::cannot_have_output(&arguments.files, output) {
        return Ok(complain(why));
    }
    let (keep, only) = match (globs(&arguments.keep), globs(&arguments.only)) {
        (Ok(keep), Ok(only)) => (keep, only),
        (Err(error), _) | (_, Err(error)) => return Ok(complain(&error.to_string())),
    };
    let options = Options::default()
        .hooks(arguments.hooks.hook.clone())
        .table_section(arguments.table.table_section.clone());
    let changing = Changing { keep, only, options, output };
    let results = over(
        &arguments.files,
        &arguments.many,
        Take::Objects,
        |path, _| changing.file(path),
        |path| changing.archive(path),
    )?;
    let mut notes = notes(&arguments.files, output);
    report(results, |label, done| say(&mut notes, label, done, arguments.verbose))
}

/// The changes to a file.
struct Done {
    made: usize,
    unrecorded: usize,
    strays: usize,
}

/// Says what was done to a file, and warns of entries that lead astray.
fn say(notes: &mut impl Write, label: &Label, done: &Done, is_verbose: bool) -> io::Result<()> {
    if done.strays != 0 {
        let entries = counted(done.strays, "entry of the table leads", "entries of the table lead");
        complain(&format!("warning: {label}: {entries} to no call or NOP that is known"));
    }
    if !is_verbose {
        return Ok(());
    }
    let made = counted(done.made, "NOP", "NOPs");
    let unrecorded = counted(done.unrecorded, "call", "calls");
    let name = label.to_string();
    writeln!(notes, "{}: {made} made, {unrecorded} not in the table", printable(&name))
}

/// Why the file stays as it is, if not all that was asked for can be done.
fn refusal(nops: &Nops) -> Option<String> {
    if let Some(first) = nops.without_nop.first() {
        let calls = counted(nops.without_nop.len(), "call has no NOP", "calls have no NOP");
        let first = if first.is_empty() { "a function without a name" } else { first };
        return Some(format!("{calls}, the first in {first} (--keep leaves functions out)"));
    }
    if nops.unjoined != 0 {
        let areas = counted(nops.unjoined, "area of NOPs has", "areas of NOPs have");
        return Some(format!("{areas} no symbol that says where the function begins"));
    }
    None
}

/// The changes to make in each file.
struct Changing<'a> {
    keep: GlobSet,
    only: GlobSet,
    options: Options,
    output: Option<&'a Path>,
}

impl Changing<'_> {
    /// Whether the calls of the function `name` become NOPs.
    fn selects(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name);
        !self.keep.is_match(&*name) && (self.only.is_empty() || self.only.is_match(&*name))
    }

    /// What becomes of the file `bytes`: everything that was asked for, or an error.
    fn nops(&self, bytes: &[u8]) -> Result<(NopChange, Done), Failure> {
        let nops = make_nops(bytes, &self.options, &|name| self.selects(name))?;
        if let Some(why) = refusal(&nops) {
            return Err(io::Error::other(format!("{why}; the file is unchanged")).into());
        }
        let Nops { change, made, unrecorded, strays, .. } = nops;
        Ok((change, Done { made, unrecorded, strays }))
    }

    fn file(&self, path: &Path) -> Result<Done, Failure> {
        let done = change_file(path, self.output, |bytes| {
            let (change, done) = self.nops(bytes)?;
            Ok((plan(change), done))
        });
        done.map_err(|failure| inputs::writing(path, failure))
    }

    fn archive(&self, path: &Path) -> Result<Members<Done>, Failure> {
        archive::change(path, self.output, |bytes| {
            let (change, done) = self.nops(bytes)?;
            Ok((of_object(change)?, done))
        })
    }
}

/// How the file is changed on disk.
fn plan(change: NopChange) -> Plan {
    match change {
        NopChange::Object(change) => change.map_or(Plan::Keep, Plan::Append),
        NopChange::Image(writes) if writes.is_empty() => Plan::Keep,
        NopChange::Image(writes) => Plan::Overwrite(writes),
    }
}

/// How a member of an archive is changed. Archives are for objects.
fn of_object(change: NopChange) -> mcount::Result<Option<Change>> {
    match change {
        NopChange::Object(change) => Ok(change),
        NopChange::Image(_) => {
            Err(mcount::Error::new(ErrorKind::Unsupported("a linked image in an archive")))
        }
    }
}
