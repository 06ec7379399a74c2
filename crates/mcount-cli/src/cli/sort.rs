//! `mcount sort`: the table of a linked image, in ascending order, in its place.

use super::options::TableSectionArgs;
use super::{FOUND, SUCCESS, complain};
use crate::commit::{Plan, change_file};
use crate::inputs;
use crate::output::printable;
use clap::{Args, ValueHint};
use mcount::{Named, Options, Sorted, sort_table};
use std::io::{self, Write};
use std::path::PathBuf;

/// Of so many entries one may go; more is a sign that the symbols or the image are not what they
/// should be. Linux 6.1 has 1 in 65 to 1 in 102 of weak functions that were overridden; without the
/// symbols of static functions (`strip -x`) it would be 1 in 3.
const GUARD: usize = 20;

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
    /// Drop them even if they are more than one in twenty, or if no static function has a symbol
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
    let options = Options { table_section, ..Options::default() };
    let name = arguments.image.display();
    let result = change_file(&arguments.image, arguments.output.as_deref(), |image| {
        let mut sorted = sort_table(image, &options, arguments.drop_weak)?;
        let writes = std::mem::take(&mut sorted.writes);
        let changed = !writes.is_empty();
        let refusal = if arguments.drop_weak { refusal(arguments.force, &sorted) } else { None };
        let plan = if refusal.is_some() || !changed { Plan::Keep } else { Plan::Overwrite(writes) };
        Ok((plan, (sorted, changed, refusal)))
    });
    let (sorted, changed, refusal) = match result {
        Ok(result) => result,
        Err(failure) => {
            let failure = inputs::writing(&arguments.image, failure);
            return Ok(complain(&format!("{name}: {failure}")));
        }
    };
    let (stale, entries) = (sorted.stale.len(), sorted.entries);
    if let Some(refusal) = refusal {
        complain(&format!("{name}: {refusal}"));
        return Ok(FOUND);
    }
    if arguments.verbose {
        let done = if changed { "sorted" } else { "unchanged" };
        let dropped = if arguments.drop_weak { "dropped" } else { "stale" };
        let name = name.to_string();
        let name = printable(&name);
        writeln!(anstream::stdout(), "{name}: {done}, {entries} entries, {stale} {dropped}")?;
    }
    Ok(SUCCESS)
}

/// Why entries must not be dropped, if any would be.
fn refusal(is_forced: bool, sorted: &Sorted) -> Option<String> {
    let (stale, entries) = (sorted.stale.len(), sorted.entries);
    if stale == 0 {
        return None;
    }
    if sorted.named == Named::Dynamic || stale + sorted.zeroes == entries {
        return Some("the symbols do not say which functions there are: none dropped".to_owned());
    }
    if is_forced {
        return None;
    }
    if stale * GUARD > entries {
        return Some(format!(
            "{stale} of {entries} entries would go, more than one in {GUARD}: --force drops them"
        ));
    }
    (sorted.named == Named::Global).then(|| {
        "no symbol of a static function, they may be stripped: --force drops entries".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(stale: usize, entries: usize, named: Named, is_forced: bool) -> bool {
        let stale = vec![1; stale];
        let sorted = Sorted { writes: Vec::new(), entries, zeroes: 0, stale, named };
        refusal(is_forced, &sorted).is_some()
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
