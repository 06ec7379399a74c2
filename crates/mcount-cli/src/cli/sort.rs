//! `mcount sort`: sorts the table of a linked image where it is.

use super::options::TableSectionArgs;
use super::{FOUND, SUCCESS, complain, notes};
use crate::commit::{Plan, change_file};
use crate::inputs;
use crate::words::{counted, printable};
use clap::{Args, ValueHint};
use mcount::{Named, Options, SortOptions, Sorted, sort_table};
use std::io::{self, Write};
use std::path::PathBuf;

/// One entry in this many may go. If more would, the symbols or the image are probably not what they
/// should be: in Linux 6.1, 1 entry in 65 to 1 in 102 belongs to a weak function that was overridden;
/// without the symbols of static functions (`strip -x`) it would be 1 in 3.
const GUARD: usize = 20;

#[derive(Args)]
pub(super) struct SortArgs {
    /// The linked image; - sorts standard input to standard output
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,
    /// Write the image here and leave the input alone; - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Zero the entries of functions that were overridden or discarded
    #[arg(long)]
    drop_weak: bool,
    /// Drop entries even if they are more than one in twenty, or if no static function has a symbol
    #[arg(long)]
    force: bool,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    table: TableSectionArgs,
}

/// Runs the command; its exit code.
pub(super) fn sort(arguments: &SortArgs) -> io::Result<u8> {
    let table_section = arguments.table.table_section.clone();
    let options = Options::default().table_section(table_section);
    let wanted = SortOptions::default().drop_stale(arguments.drop_weak);
    let name = arguments.image.display();
    let output = arguments.output.as_deref();
    let result = change_file(&arguments.image, output, |image| {
        let mut sorted = sort_table(image, &options, &wanted)?;
        let writes = std::mem::take(&mut sorted.writes);
        let changed = !writes.is_empty();
        let refusal = if arguments.drop_weak { refusal(arguments.force, &sorted) } else { None };
        let plan = match &refusal {
            Some(_) => Plan::Refuse,
            None if changed => Plan::Overwrite(writes),
            None => Plan::Keep,
        };
        Ok((plan, (sorted, changed, refusal)))
    });
    let (sorted, changed, refusal) = match result {
        Ok(result) => result,
        Err(failure) => {
            let failure = inputs::writing(&arguments.image, failure);
            return Ok(complain(&format!("{name}: {failure}")));
        }
    };
    if let Some(refusal) = refusal {
        complain(&format!("{name}: {refusal}"));
        return Ok(FOUND);
    }
    if arguments.verbose {
        let done = if changed { "sorted" } else { "unchanged" };
        let entries = counted(sorted.entries, "entry", "entries");
        let stale = sorted.stale.len();
        let dropped = if arguments.drop_weak { "dropped" } else { "stale" };
        let name = name.to_string();
        let name = printable(&name);
        let mut notes = notes(std::slice::from_ref(&arguments.image), output);
        writeln!(notes, "{name}: {done}, {entries}, {stale} {dropped}")?;
    }
    Ok(SUCCESS)
}

/// Why the stale entries of a table must not be dropped, if there are any.
fn refusal(is_forced: bool, sorted: &Sorted) -> Option<String> {
    refusal_of(is_forced, sorted.stale.len(), sorted.entries, sorted.zeroes, sorted.named)
}

/// The same, of so many `entries`, of which that many are `stale` and so many `zeroes`.
fn refusal_of(
    is_forced: bool,
    stale: usize,
    entries: usize,
    zeroes: usize,
    named: Named,
) -> Option<String> {
    if stale == 0 {
        return None;
    }
    if named == Named::Dynamic || stale + zeroes == entries {
        return Some(
            "dropped nothing: the symbols don't tell which functions there are".to_owned(),
        );
    }
    if is_forced {
        return None;
    }
    if stale * GUARD > entries {
        return Some(format!(
            "dropped nothing: {stale} of {entries} entries would go, more than one in {GUARD}; use \
             --force to drop them"
        ));
    }
    (named == Named::Global).then(|| {
        "dropped nothing: no static function has a symbol, so the image may be stripped; use --force \
         to drop entries"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(stale: usize, entries: usize, named: Named, is_forced: bool) -> bool {
        refusal_of(is_forced, stale, entries, 0, named).is_some()
    }

    #[test]
    fn what_a_kernel_drops_goes_and_what_a_mistake_would_drop_does_not() {
        // x86-64 (allnoconfig, Debian's) and i386 as docs/kernels.md has them; then x86-64 after
        // `strip -x` and `strip --strip-unneeded`, were its symbols taken for those of all functions.
        for (stale, entries) in [(128, 13070), (576, 37609), (142, 10924), (5, 100)] {
            assert!(!is_refused(stale, entries, Named::Local, false), "{stale} of {entries}");
        }
        for (stale, entries) in [(5111, 13070), (5854, 13070), (6, 100)] {
            assert!(is_refused(stale, entries, Named::Local, false), "{stale} of {entries}");
            assert!(
                !is_refused(stale, entries, Named::Local, true),
                "{stale} of {entries}, forced"
            );
        }
    }

    #[test]
    fn symbols_that_name_no_static_function_are_not_believed() {
        assert!(!is_refused(0, 100, Named::Dynamic, false));
        assert!(
            is_refused(1, 100, Named::Global, false) && !is_refused(1, 100, Named::Global, true)
        );
        assert!(is_refused(1, 100, Named::Dynamic, true));
        assert!(is_refused(100, 100, Named::Local, true));
    }
}
