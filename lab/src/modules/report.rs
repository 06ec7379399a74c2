//! What a person and a program read of the comparison: lines, JSON, disassembly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::elf::Object;
use super::explain::{Cause, Difference};
use super::outcome::Outcome;
use crate::Result;

/// Everything about one kernel package.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) architecture: String,
    pub(crate) package: String,
    pub(crate) outcomes: Vec<Outcome>,
    /// Time that the recorders took, summed over their runs.
    pub(crate) ours: Duration,
    pub(crate) original: Duration,
}

impl Report {
    fn sum(&self, count: impl Fn(&Outcome) -> usize) -> usize {
        self.outcomes.iter().map(count).sum()
    }

    fn differing(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.differences.is_empty()).count()
    }

    fn failures(&self) -> usize {
        self.sum(|outcome| outcome.failures.len())
    }

    /// Differences by reference, direction and cause.
    fn causes(&self) -> BTreeMap<(&'static str, &'static str, &'static str), usize> {
        let mut causes = BTreeMap::new();
        for difference in self.outcomes.iter().flat_map(|outcome| &outcome.differences) {
            *causes.entry(key(difference)).or_default() += 1;
        }
        causes
    }

    /// Notes, with the part before the first colon for the kind.
    fn notes(&self) -> BTreeMap<&str, usize> {
        let mut notes = BTreeMap::new();
        for note in self.outcomes.iter().flat_map(|outcome| &outcome.notes) {
            *notes.entry(note.split(':').next().unwrap_or(note)).or_default() += 1;
        }
        notes
    }

    /// Has every difference a known cause, and did our recorder never fail?
    pub(crate) fn is_explained(&self) -> bool {
        let mut all = self.outcomes.iter().flat_map(|outcome| &outcome.differences);
        self.failures() == 0 && all.all(|difference| difference.cause != Cause::Unexplained)
    }

    /// Prints each module that differs, then a summary.
    ///
    /// A cause that explains whole modules (there are hundreds of thousands of such entries on
    /// s390) is only counted.
    pub(crate) fn print(&self) {
        for outcome in &self.outcomes {
            print_outcome(outcome);
        }
        println!(
            "{} {}: {} modules, {} identical, {} differing, {} failures",
            self.architecture,
            self.package,
            self.outcomes.len(),
            self.outcomes.len() - self.differing(),
            self.differing(),
            self.failures(),
        );
        println!(
            "  entries: ours {}, build {}, original {}, bytes {}; seconds: ours {:.2}, original {:.2}",
            self.sum(|outcome| outcome.ours),
            self.sum(|outcome| outcome.build),
            self.sum(|outcome| outcome.original),
            self.sum(|outcome| outcome.bytes),
            self.ours.as_secs_f64(),
            self.original.as_secs_f64(),
        );
        for ((reference, direction, cause), count) in self.causes() {
            println!("  {count} {direction}, compared with {reference}: {cause}");
        }
        for (note, count) in self.notes() {
            let of_kind = |text: &&String| text.starts_with(note);
            let mut all = self.outcomes.iter().flat_map(|outcome| &outcome.notes);
            let first = all.find(of_kind).map_or("", String::as_str);
            println!("  {count} modules, noted {note}; the first: {first}");
        }
    }

    /// The same as data.
    pub(crate) fn json(&self) -> Value {
        let causes: Vec<Value> = self
            .causes()
            .into_iter()
            .map(|((reference, direction, cause), count)| {
                json!({"reference": reference, "direction": direction, "cause": cause, "count": count})
            })
            .collect();
        let modules: Vec<Value> =
            self.outcomes.iter().filter(|outcome| is_worth_a_line(outcome)).map(module).collect();
        json!({
            "architecture": self.architecture,
            "package": self.package,
            "modules": self.outcomes.len(),
            "identical": self.outcomes.len() - self.differing(),
            "differing": self.differing(),
            "failures": self.failures(),
            "explained": self.is_explained(),
            "entries": {
                "ours": self.sum(|outcome| outcome.ours),
                "build": self.sum(|outcome| outcome.build),
                "original": self.sum(|outcome| outcome.original),
                "bytes": self.sum(|outcome| outcome.bytes),
            },
            "seconds": {"ours": self.ours.as_secs_f64(), "original": self.original.as_secs_f64()},
            "causes": causes,
            "notes": self.notes(),
            "differing_modules": modules,
        })
    }
}

fn key(difference: &Difference) -> (&'static str, &'static str, &'static str) {
    let direction = if difference.ours_has_it { "only ours" } else { "not ours" };
    (difference.reference.name(), direction, difference.cause.name())
}

/// Causes that hold for every entry of an architecture say nothing about a module.
fn is_telling(difference: &Difference) -> bool {
    !matches!(difference.cause, Cause::NopWithoutRelocation | Cause::Patchable)
}

fn is_worth_a_line(outcome: &Outcome) -> bool {
    !outcome.failures.is_empty() || outcome.differences.iter().any(is_telling)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn print_outcome(outcome: &Outcome) {
    if !is_worth_a_line(outcome) {
        return;
    }
    println!("{}", file_name(&outcome.path));
    for failure in &outcome.failures {
        println!("  failure: {failure}");
    }
    for difference in outcome.differences.iter().filter(|difference| is_telling(difference)) {
        let (reference, direction, cause) = key(difference);
        println!("  {cause}: {direction}, compared with {reference}: {}", difference.detail);
    }
    print!("{}", outcome.listing);
}

fn module(outcome: &Outcome) -> Value {
    let differences: Vec<Value> = outcome
        .differences
        .iter()
        .filter(|difference| is_telling(difference))
        .map(|difference| {
            let (reference, direction, cause) = key(difference);
            json!({
                "reference": reference,
                "direction": direction,
                "cause": cause,
                "section": difference.place.0,
                "offset": difference.place.1,
                "detail": difference.detail,
            })
        })
        .collect();
    json!({
        "path": outcome.path.display().to_string(),
        "failures": outcome.failures,
        "notes": outcome.notes,
        "differences": differences,
    })
}

/// The instructions around each telling difference, by `llvm-objdump`.
pub(crate) fn disassemble(object: &Object<'_>, outcome: &Outcome) -> Result<String> {
    let mut listing = String::new();
    // Each place once, though it may differ from several references.
    let places: BTreeSet<_> = outcome
        .differences
        .iter()
        .filter(|difference| is_telling(difference))
        .map(|difference| difference.place)
        .collect();
    for (section, offset) in places {
        let output = Command::new("llvm-objdump")
            .args(["-dr", "-j", object.section_name(section)])
            .arg(format!("--start-address={:#x}", offset.saturating_sub(16)))
            .arg(format!("--stop-address={:#x}", offset.saturating_add(32)))
            .arg(&outcome.path)
            .output()?;
        listing.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    Ok(listing)
}
