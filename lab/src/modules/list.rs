//! Compares what `mcount list` says of the tables of modules with what a script over pyelftools reads
//! from them: entry by entry, in order.
//!
//! The script (`tables.py`) shares nothing with us but the specification.

use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use serde_json::Value;

use crate::debian;
use crate::{Result, files};

/// Modules for each run.
const BATCH: usize = 64;

/// What was compared.
#[derive(Debug, Default)]
struct Compared {
    entries: usize,
    /// One line each.
    differences: Vec<String>,
}

/// An entry: file, section, offset, address; and the functions that may be named.
struct Entry {
    place: [Value; 4],
    functions: Vec<String>,
}

/// Compares the tables of `modules`, unpacked from `package`; `false` when they differ.
pub(crate) fn compare(mcount: &Path, package: &str, modules: &[PathBuf]) -> Result<bool> {
    let script = files::workspace().join("lab/src/modules/tables.py");
    let batches: Vec<Compared> = modules
        .par_chunks(BATCH)
        .map(|modules| batch(mcount, &script, modules))
        .collect::<Result<_>>()?;
    let entries: usize = batches.iter().map(|batch| batch.entries).sum();
    let differences: Vec<&String> = batches.iter().flat_map(|batch| &batch.differences).collect();
    println!(
        "{package}: {} modules, {entries} entries, {} differ",
        modules.len(),
        differences.len()
    );
    for difference in differences.iter().take(20) {
        println!("  {difference}");
    }
    Ok(differences.is_empty() && entries != 0)
}

/// The modules of one kernel.
pub(crate) fn kernel(
    mcount: &Path,
    suite: &debian::Suite,
    (architecture, flavour): (&str, &str),
    update: bool,
    pick: impl Fn(Vec<PathBuf>) -> Vec<PathBuf>,
) -> Result<bool> {
    let package = debian::obtain_of(suite, architecture, flavour, update)?;
    compare(mcount, &format!("{architecture} {}", package.name), &pick(package.modules))
}

fn batch(mcount: &Path, script: &Path, modules: &[PathBuf]) -> Result<Compared> {
    // Not by --policy linux, which has no say in what is in a table.
    let mut list = Command::new(mcount);
    list.args(["list", "--format", "jsonl", "-j", "1"]).args(modules);
    let mut read = Command::new("python3");
    read.arg(script).args(modules);
    let (ours, theirs) = (entries(list)?, entries(read)?);
    let mut compared = Compared { entries: theirs.len(), differences: Vec::new() };
    if ours.len() != theirs.len() {
        let first = modules.first().map(|path| path.display().to_string()).unwrap_or_default();
        compared.differences.push(format!(
            "the batch that begins with {first}: {} entries, not {}",
            ours.len(),
            theirs.len()
        ));
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // Several names of one place are all right; a place in no function has a name nearby.
        let is_named = theirs.functions.is_empty()
            || ours.functions.iter().any(|name| theirs.functions.contains(name));
        if ours.place != theirs.place || !is_named {
            compared.differences.push(format!(
                "{:?} {:?}, not {:?} {:?}",
                ours.place, ours.functions, theirs.place, theirs.functions
            ));
        }
    }
    Ok(compared)
}

/// What `command` prints.
fn entries(mut command: Command) -> Result<Vec<Entry>> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(
            format!("{}: {}: {said}", command.get_program().display(), output.status).into()
        );
    }
    str::from_utf8(&output.stdout)?.lines().map(entry).collect()
}

fn entry(line: &str) -> Result<Entry> {
    let mut value: Value = serde_json::from_str(line)?;
    let mut take = |name: &str| value.get_mut(name).map_or(Value::Null, Value::take);
    let place = ["file", "section", "offset", "address"].map(&mut take);
    let functions = match (take("functions"), take("symbol")) {
        (Value::Array(names), _) => {
            names.into_iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        (_, Value::String(name)) => vec![name],
        _ => Vec::new(),
    };
    Ok(Entry { place, functions })
}
