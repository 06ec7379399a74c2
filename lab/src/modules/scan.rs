//! Compares what `mcount scan` finds with what the bytes say.
//!
//! Recording is only half a test where a hook has no relocation: on s390 and arm64 `recordmcount`
//! has nothing to do, and scanning has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::elf::{Object, Place};
use super::explain::Case;
use super::outcome::Outcome;
use super::sites::Form;
use crate::Result;

/// The sites of each file: section name and offset. Excluded ones are left out.
pub(crate) type Found = BTreeMap<PathBuf, Vec<(String, u64)>>;

/// Runs `mcount scan` on all files.
pub(crate) fn run(program: &Path, files: &[PathBuf]) -> Result<Found> {
    let output = Command::new(program).args(["scan", "--format", "jsonl"]).args(files).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{} scan: {}: {said}", program.display(), output.status).into());
    }
    let mut found = Found::new();
    for line in str::from_utf8(&output.stdout)?.lines() {
        let value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let offset = value.get("offset").and_then(Value::as_u64);
        let excluded = value.get("excluded").and_then(Value::as_bool);
        let ((Some(file), Some(section)), (Some(offset), Some(excluded))) =
            ((text("file"), text("section")), (offset, excluded))
        else {
            return Err(format!("mcount scan printed {line}").into());
        };
        if !excluded {
            found.entry(PathBuf::from(file)).or_default().push((section, offset));
        }
    }
    Ok(found)
}

/// Puts what is wrong with the sites found in one file into its failures.
///
/// A missed NOP without relocation is only noted: without its table, nothing in the file says that
/// it is a hook.
pub(crate) fn check(
    case: &Case<'_>,
    expected: &BTreeSet<Place>,
    found: &[(String, u64)],
    outcome: &mut Outcome,
) {
    let mut places = BTreeSet::new();
    let mut missed_nops = 0_usize;
    for (section, offset) in found {
        match index_of(case.object, section) {
            Some(index) if places.insert((index, *offset)) => {}
            Some(_) => outcome.failures.push(format!("scan finds {section}+{offset:#x} twice")),
            None => outcome.failures.push(format!("scan names {section}, which is not there")),
        }
    }
    for place in expected.symmetric_difference(&places) {
        if expected.contains(place) && case.sites.get(place) == Some(&Form::Nop) {
            missed_nops += 1;
            continue;
        }
        let verb = if expected.contains(place) { "misses" } else { "invents" };
        outcome.failures.push(format!("scan {verb} {}", case.describe(*place)));
    }
    if missed_nops > 0 {
        outcome.notes.push(format!("scan misses NOPs without relocation: {missed_nops} here"));
    }
}

fn index_of(object: &Object<'_>, name: &str) -> Option<usize> {
    object.sections.iter().position(|section| section.is_code() && section.name == name)
}
