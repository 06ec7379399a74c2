//! Holds what `mcount check` finds in the modules of a kernel against what their bytes say, both ways:
//! it must find each hook that the table of the build lacks and each entry that is no hook, by the
//! reader of this chore, and no other; and `llvm-objdump` must show each one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use serde_json::Value;

use super::elf::Object;
use super::sites::{self, Form};
use crate::Result;
use crate::debian::read_module;

/// Modules for each run.
const BATCH: usize = 64;

/// Rule, section and offset.
type Finding = (String, String, u64);

/// What came of some modules.
#[derive(Default)]
struct Tally {
    modules: usize,
    hooks: usize,
    entries: usize,
    found: Vec<(PathBuf, Finding)>,
    /// Found by one side only, or not seen in the disassembly.
    wrong: Vec<String>,
}

/// Compares, and prints what was found; `false` if something is not confirmed.
pub(crate) fn compare(program: &Path, title: &str, modules: &[PathBuf]) -> Result<bool> {
    let tallies: Vec<Tally> =
        modules.par_chunks(BATCH).map(|modules| batch(program, modules)).collect::<Result<_>>()?;
    let mut all = Tally::default();
    for tally in tallies {
        all.modules += tally.modules;
        all.hooks += tally.hooks;
        all.entries += tally.entries;
        all.found.extend(tally.found);
        all.wrong.extend(tally.wrong);
    }
    println!(
        "{title}: {} modules, {} hooks, {} entries; check: {} findings, {} not confirmed",
        all.modules,
        all.hooks,
        all.entries,
        all.found.len(),
        all.wrong.len()
    );
    for (path, (rule, section, offset)) in &all.found {
        let name = path.file_name().unwrap_or_default().display();
        println!("  {name}: {section}+{offset:#x}: {rule}");
    }
    all.wrong.iter().for_each(|line| println!("  NOT CONFIRMED {line}"));
    Ok(all.wrong.is_empty() && all.hooks != 0)
}

fn batch(program: &Path, modules: &[PathBuf]) -> Result<Tally> {
    let output =
        Command::new(program).args(["check", "--format", "jsonl"]).args(modules).output()?;
    if output.status.code().is_none_or(|code| code > 1) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{} check: {}: {said}", program.display(), output.status).into());
    }
    let mut findings = Vec::new();
    for line in str::from_utf8(&output.stdout)?.lines() {
        findings.push(finding(line)?);
    }
    let mut tally = Tally::default();
    for path in modules {
        let own = findings.iter().filter(|(file, _)| file == path).map(|(_, own)| own.clone());
        let own: BTreeSet<Finding> = own.collect();
        one(path, &own, &mut tally)?;
        tally.found.extend(own.into_iter().map(|found| (path.clone(), found)));
    }
    Ok(tally)
}

fn finding(line: &str) -> Result<(PathBuf, Finding)> {
    let value: Value = serde_json::from_str(line)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let offset = value.get("offset").and_then(Value::as_u64).unwrap_or(u64::MAX);
    Ok((PathBuf::from(text("file")), (text("rule"), text("section"), offset)))
}

/// What there is to find in one module, and whether it was found.
fn one(path: &Path, found: &BTreeSet<Finding>, tally: &mut Tally) -> Result<()> {
    let bytes = read_module(path)?;
    let object = Object::parse(&bytes)?;
    let hooks = sites::find(&object);
    let tables = object.table.iter().chain(&object.patchable);
    let entries: Vec<_> = tables.flat_map(|table| table.entries.iter().copied()).collect();
    let listed: BTreeSet<_> = entries.iter().copied().collect();
    let mut expected = BTreeSet::new();
    let mut expect = |rule: &str, (section, offset): (usize, u64)| {
        expected.insert((rule.to_owned(), object.section_name(section).to_owned(), offset));
    };
    for place in hooks.keys().filter(|place| !listed.contains(place)) {
        if sites::is_recorded_section(object.section_name(place.0)) {
            expect("missing-site", *place);
        }
    }
    for place in &listed {
        match hooks.get(place) {
            None => expect("not-a-call-site", *place),
            Some(Form::Patchable) => {}
            Some(_) if sites::is_recorded_section(object.section_name(place.0)) => {}
            Some(_) => expect("excluded-section", *place),
        }
    }
    if entries.len() != listed.len() {
        tally.wrong.push(format!("{}: the table has duplicates", path.display()));
    }
    for (rule, section, offset) in expected.symmetric_difference(found) {
        tally.wrong.push(format!("{}: {section}+{offset:#x}: {rule}", path.display()));
    }
    for missed in found.iter().filter(|(rule, ..)| rule == "missing-site") {
        if !shows_a_call(path, missed)? {
            tally.wrong.push(format!("{}: objdump shows no call: {missed:?}", path.display()));
        }
    }
    tally.modules += 1;
    tally.hooks += hooks.len();
    tally.entries += entries.len();
    Ok(())
}

/// Whether the disassembly at the place has a relocation to a hook.
fn shows_a_call(path: &Path, (_, section, offset): &Finding) -> Result<bool> {
    let output = Command::new("llvm-objdump")
        .args(["-dr", "-j", section])
        .arg(format!("--start-address={offset:#x}"))
        .arg(format!("--stop-address={:#x}", offset.saturating_add(8)))
        .arg(path)
        .output()?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let is_hook =
        |word: &str| matches!(word, "_mcount" | "mcount" | "__gnu_mcount_nc" | "__fentry__");
    let relocations = listing.lines().filter(|line| line.contains("R_"));
    let mut names = relocations.filter_map(|line| line.split_whitespace().last());
    Ok(names.any(|name| is_hook(name.split(['-', '+']).next().unwrap_or_default())))
}
