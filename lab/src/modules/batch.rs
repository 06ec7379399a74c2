//! Takes the tables out of a batch of modules, runs the recorders on copies, and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use object::elf::{SHT_STRTAB, SHT_SYMTAB};

use super::elf::{Object, Place, Section, Table};
use super::explain::{Case, Reference};
use super::outcome::Outcome;
use super::{scan, sites};
use crate::debian::read_module;
use crate::{Result, files};

/// The programs to compare, and where to work.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) ours: PathBuf,
    /// `None`: not installed, or not asked for.
    pub(crate) original: Option<PathBuf>,
    /// `mcount`, when its `scan` is to be compared too.
    pub(crate) scan: Option<PathBuf>,
    pub(crate) against_build: bool,
    pub(crate) scratch: PathBuf,
    pub(crate) show: bool,
}

/// What a recorder did with a batch.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// One for each file: what was said about it, empty when nothing.
    said: Vec<String>,
    pub(crate) time: Duration,
}

/// The outcomes of a batch and the recorders' times.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) ours: Duration,
    pub(crate) original: Duration,
}

/// Compares a batch of modules.
pub(crate) fn compare(setting: &Setting, modules: &[PathBuf]) -> Result<Batch> {
    let folder = tempfile::Builder::new().prefix("batch-").tempdir_in(&setting.scratch)?;
    let mut inputs = Vec::with_capacity(modules.len());
    for path in modules {
        inputs.push(read_module(path)?);
    }
    let mut batch = Batch::default();
    let scanned = scan_batch(setting, &folder.path().join("scan"), &inputs)?;
    let (our_files, our_run) = record(&setting.ours, &folder.path().join("ours"), &inputs)?;
    batch.ours = our_run.time;
    let original = match &setting.original {
        Some(program) => Some(record(program, &folder.path().join("original"), &inputs)?),
        None => None,
    };
    batch.original = original.as_ref().map_or(Duration::ZERO, |(_, run)| run.time);
    for (index, path) in modules.iter().enumerate() {
        let mut outcome = Outcome { path: path.clone(), ..Outcome::default() };
        let pick = |(files, run): &(Vec<PathBuf>, Run)| -> Option<(PathBuf, String)> {
            Some((files.get(index)?.clone(), run.said.get(index)?.clone()))
        };
        let input = inputs.get(index).map(Vec::as_slice).unwrap_or_default();
        let ours = our_files.get(index).cloned().zip(our_run.said.get(index).cloned());
        let theirs = original.as_ref().and_then(pick);
        let results = Results { ours, original: theirs, scanned: scanned.get(index) };
        if let Err(error) = compare_one(setting, input, results, &mut outcome) {
            outcome.failures.push(error.to_string());
        }
        batch.outcomes.push(outcome);
    }
    Ok(batch)
}

/// Writes copies without table.
fn copies(folder: &Path, inputs: &[Vec<u8>]) -> Result<Vec<PathBuf>> {
    files::make_folder(folder)?;
    let mut copies = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let copy = folder.join(format!("{index}.ko"));
        files::write(&copy, &without_table(input)?)?;
        copies.push(copy);
    }
    Ok(copies)
}

/// Scans copies without table: one list for each input, none when scanning was not asked for.
fn scan_batch(
    setting: &Setting,
    folder: &Path,
    inputs: &[Vec<u8>],
) -> Result<Vec<Vec<(String, u64)>>> {
    let Some(program) = &setting.scan else { return Ok(Vec::new()) };
    let copies = copies(folder, inputs)?;
    let mut found = scan::run(program, &copies)?;
    Ok(copies.iter().map(|copy| found.remove(copy).unwrap_or_default()).collect())
}

/// Writes copies without table, and runs a recorder on all of them.
pub(crate) fn record(
    program: &Path,
    folder: &Path,
    inputs: &[Vec<u8>],
) -> Result<(Vec<PathBuf>, Run)> {
    let copies = copies(folder, inputs)?;
    let start = Instant::now();
    let output = Command::new(program).args(&copies).output()?;
    let mut run = Run { said: vec![String::new(); copies.len()], time: start.elapsed() };
    if output.status.success() && output.stderr.is_empty() && output.stdout.is_empty() {
        return Ok((copies, run));
    }
    // Something was said: ask again one by one, on fresh copies, to know about which.
    for (index, (input, copy)) in inputs.iter().zip(&copies).enumerate() {
        files::write(copy, &without_table(input)?)?;
        let output = Command::new(program).arg(copy).output()?;
        if let Some(said) = run.said.get_mut(index) {
            if !output.status.success() {
                *said = format!("{}: ", output.status);
            }
            said.push_str(String::from_utf8_lossy(&output.stderr).trim());
            said.push_str(String::from_utf8_lossy(&output.stdout).trim());
        }
    }
    Ok((copies, run))
}

/// The module with the headers of the table and its relocations turned to `SHT_NULL`.
///
/// Nothing else changes: no index, no symbol, no other byte. `objcopy -R` would renumber all of
/// them, and llvm's writes MIPS n64 relocations anew.
fn without_table(input: &[u8]) -> Result<Vec<u8>> {
    let object = Object::parse(input)?;
    let is_table =
        |index: usize| object.sections.get(index).is_some_and(|table| table.name == "__mcount_loc");
    let (start, size) = object.headers;
    let mut output = input.to_vec();
    for (index, section) in object.sections.iter().enumerate() {
        let relocates = matches!(section.kind, 4 | 9) && is_table(section.info as usize);
        if is_table(index) || relocates {
            let header = start + index * size;
            let header = output.get_mut(header..header + size).ok_or("headers outside the file")?;
            header.fill(0);
        }
    }
    Ok(output)
}

/// What was made of one module: recorded files with what was said of them, and the sites scanned.
struct Results<'a> {
    ours: Option<(PathBuf, String)>,
    original: Option<(PathBuf, String)>,
    scanned: Option<&'a Vec<(String, u64)>>,
}

fn compare_one(
    setting: &Setting,
    input: &[u8],
    results: Results<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    let object = Object::parse(input)?;
    let sites = sites::find(&object);
    let case = Case { object: &object, sites: &sites };
    let (ours, said) = results.ours.ok_or("the recorder was not run")?;
    if !said.is_empty() {
        outcome.failures.push(said);
    }
    let recorded = files::read(&ours)?;
    let recorded = Object::parse(&recorded)?;
    outcome.failures.extend(damage(&object, &recorded));
    let our_entries = entries(recorded.table.as_ref());
    outcome.ours = our_entries.len();
    outcome.failures.extend(duplicates(recorded.table.as_ref()));
    if let Some((path, said)) = results.original {
        if !said.is_empty() {
            outcome.notes.push(format!("the original said: {said}"));
        }
        let mut theirs = table_of(&path)?;
        if let Some(program) =
            setting.original.as_ref().filter(|_| entries(theirs.as_ref()) != our_entries)
        {
            let alone = table_alone(program, &path, input)?;
            outcome.notes.extend(carried_over(theirs.as_ref(), alone.as_ref()));
            theirs = alone;
        }
        outcome.notes.extend(form(theirs.as_ref(), recorded.table.as_ref()));
        let theirs = entries(theirs.as_ref());
        outcome.original = theirs.len();
        outcome.differences.extend(case.differences(Reference::Original, &theirs, &our_entries));
    }
    if setting.against_build {
        let build = entries(object.table.as_ref().or(object.patchable.as_ref()));
        outcome.build = build.len();
        outcome.differences.extend(case.differences(Reference::Build, &build, &our_entries));
    }
    let bytes = recordable(&object, &sites);
    outcome.bytes = bytes.len();
    if let Some(scanned) = results.scanned {
        scan::check(&case, &bytes, scanned, outcome);
    }
    outcome.differences.extend(case.differences(Reference::Bytes, &bytes, &our_entries));
    if setting.show {
        outcome.listing = super::report::disassemble(&object, outcome)?;
    }
    Ok(())
}

fn table_of(path: &Path) -> Result<Option<Table>> {
    Ok(Object::parse(&files::read(path)?)?.table)
}

/// What a recorder makes of a file when that is the only one it is given, as in a kernel's build.
///
/// Within one process, the original's MIPS comparison goes on from file to file.
fn table_alone(program: &Path, path: &Path, input: &[u8]) -> Result<Option<Table>> {
    files::write(path, &without_table(input)?)?;
    let _ = Command::new(program).arg(path).output()?;
    table_of(path)
}

fn carried_over(after_others: Option<&Table>, alone: Option<&Table>) -> Option<String> {
    let (others, alone) = (entries(after_others), entries(alone));
    (others != alone).then(|| {
        let lost = alone.difference(&others).count();
        format!("the original depends on the file before: it lost {lost} more entries")
    })
}

fn entries(table: Option<&Table>) -> BTreeSet<Place> {
    table.map(|table| table.entries.iter().copied().collect()).unwrap_or_default()
}

fn recordable(object: &Object<'_>, sites: &BTreeMap<Place, sites::Form>) -> BTreeSet<Place> {
    let recorded = |place: &&Place| sites::is_recorded_section(object.section_name(place.0));
    sites.keys().filter(recorded).copied().collect()
}

fn duplicates(table: Option<&Table>) -> Option<String> {
    let all = table?.entries.len();
    let distinct = entries(table).len();
    (all != distinct).then(|| format!("{} entries twice in the table", all - distinct))
}

/// How the form of our table differs from the original's, when both made one.
fn form(original: Option<&Table>, ours: Option<&Table>) -> Vec<String> {
    let (Some(original), Some(ours)) = (original, ours) else { return Vec::new() };
    let mut notes = Vec::new();
    if original.relocation != ours.relocation {
        let (theirs, ours) = (original.relocation, ours.relocation);
        notes.push(format!("relocation type: ours {ours}, the original's {theirs}"));
    }
    if original.shape != ours.shape {
        notes.push(format!("headers: ours {}, the original's {}", ours.shape, original.shape));
    }
    if original.entries != ours.entries && entries(Some(original)) == entries(Some(ours)) {
        notes.push("order: the same entries in another order".to_owned());
    }
    notes
}

/// What recording changed besides adding a table.
fn damage(before: &Object<'_>, after: &Object<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (index, old) in before.sections.iter().enumerate() {
        let table = |section: &Section| section.name == "__mcount_loc";
        let target = before.sections.get(old.info as usize);
        if table(old) || matches!(old.kind, 4 | 9) && target.is_some_and(table) {
            continue;
        }
        let Some(new) = after.sections.get(index) else {
            found.push(format!("section {} {} is gone", index, old.name));
            continue;
        };
        let fields = |section: &Section| {
            (section.kind, section.flags, section.info, section.align, section.entry_size)
        };
        // Strings and symbols may grow; the symbol table's sh_info with them.
        let grows = [SHT_STRTAB.0, SHT_SYMTAB.0].contains(&old.kind);
        let same = if grows {
            old.kind == new.kind
        } else {
            fields(old) == fields(new) && before.contents(index) == after.contents(index)
        };
        if !same || old.name != new.name {
            found.push(format!("section {} {} has changed", index, old.name));
        }
    }
    if before.functions.len() != after.functions.len() {
        found.push("function symbols have changed".to_owned());
    }
    found
}
