//! `mcount sort`: the table of a linked image, in ascending order, in its place.

use super::options::OptionArgs;
use super::{FOUND, SUCCESS, complain};
use crate::commit::{Plan, change_file};
use crate::inputs;
use clap::{Args, ValueHint};
use mcount::{Base, Sorted, sort_table};
use std::io::{self, Write};
use std::path::PathBuf;

/// Of so many entries one may go; more is a sign that the symbols or the image are not what they
/// should be.
const GUARD: usize = 100;

#[derive(Args)]
pub(super) struct SortArgs {
    /// The linked image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,
    /// Write the image here and leave the input alone
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Make zero the entries of functions that were overridden or discarded
    #[arg(long)]
    drop_weak: bool,
    /// Drop them even if they are more than one in a hundred
    #[arg(long)]
    force: bool,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    options: OptionArgs,
}

/// Runs the command; its exit code.
pub(super) fn sort(arguments: &SortArgs) -> io::Result<u8> {
    let options = match arguments.options.options_or(Base::All) {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let name = arguments.image.display();
    let result = change_file(&arguments.image, arguments.output.as_deref(), |image| {
        let mut sorted = sort_table(image, &options, arguments.drop_weak)?;
        let writes = std::mem::take(&mut sorted.writes);
        let changed = !writes.is_empty();
        let unknown = arguments.drop_weak && has_no_functions(&sorted);
        let refused = unknown || is_refused(arguments, &sorted);
        let plan = if refused || !changed { Plan::Keep } else { Plan::Overwrite(writes) };
        Ok((plan, (sorted, changed, refused)))
    });
    let (sorted, changed, refused) = match result {
        Ok(result) => result,
        Err(failure) => {
            let failure = inputs::writing(&arguments.image, failure);
            return Ok(complain(&format!("{name}: {failure}")));
        }
    };
    let (stale, entries) = (sorted.stale.len(), sorted.entries);
    if refused && has_no_functions(&sorted) {
        complain(&format!("{name}: no entry is in a function that the symbols name: none dropped"));
        return Ok(FOUND);
    }
    if refused {
        complain(&format!(
            "{name}: {stale} of {entries} entries would go, more than one in {GUARD}: --force drops them"
        ));
        return Ok(FOUND);
    }
    if arguments.verbose {
        let done = if changed { "sorted" } else { "unchanged" };
        let dropped = if arguments.drop_weak { "dropped" } else { "stale" };
        writeln!(anstream::stdout(), "{name}: {done}, {entries} entries, {stale} {dropped}")?;
    }
    Ok(SUCCESS)
}

/// Whether no symbol covers any entry: the symbols are gone, not the functions.
fn has_no_functions(sorted: &Sorted) -> bool {
    !sorted.stale.is_empty() && sorted.stale.len() + sorted.zeroes == sorted.entries
}

fn is_refused(arguments: &SortArgs, sorted: &Sorted) -> bool {
    arguments.drop_weak && !arguments.force && sorted.stale.len() * GUARD > sorted.entries
}
