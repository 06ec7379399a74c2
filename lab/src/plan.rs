//! Which functions of a system's programs and libraries can have probes, and why the others can't: a table for
//! docs/evidence.md. Before that, the tests of the planner compare its plans for every library of the system with `objdump`.
//!
//! Nothing here was written by us but the rules: the files are what's installed.

use crate::{Error, Result};
use lexopt::Arg;
use mcount_hooks::probe::Planner;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Where Debian has libraries for x86-64.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// What the table has by default.
const FILES: [&str; 7] = [
    "/usr/bin/python3.11",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/bin/git",
    "/usr/bin/perl",
    "/bin/bash",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
];

/// What isn't a function of its own.
const NO_FUNCTIONS: [&str; 2] = ["part", "linkage"];

const USAGE: &str = "usage: cargo lab plan [--table] [FILE…]

Compares the plans of probes for all libraries of the system with objdump, and prints how many functions of each
FILE, and of all libraries together, can have a probe. --table: only prints.";

/// What was found in a file, or in several.
#[derive(Default)]
struct Counts {
    planned: usize,
    /// By the name of the reason.
    refused: BTreeMap<&'static str, usize>,
    seconds: f64,
}

impl Counts {
    fn add(&mut self, path: &Path) -> Result<()> {
        let bytes = chore_kit::files::read(path)?;
        let start = Instant::now();
        let planner = Planner::new(&bytes).map_err(|error| error.to_string())?;
        for (_, plan) in planner.plans() {
            match plan {
                Ok(_) => self.planned += 1,
                Err(why) => *self.refused.entry(why.name()).or_default() += 1,
            }
        }
        self.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// A row of the table.
    fn row(&self, name: &str) -> String {
        let refused = self.refused.iter().filter(|(why, _)| !NO_FUNCTIONS.contains(why));
        let others: usize = refused.clone().map(|(_, count)| count).sum();
        let all = self.planned + others;
        let share = 100.0 * f64::from(u32::try_from(self.planned).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(all).unwrap_or(u32::MAX).max(1));
        let mut refused: Vec<_> = refused.collect();
        refused.sort_by_key(|(why, count)| (std::cmp::Reverse(**count), **why));
        let refused: Vec<_> = refused.iter().map(|(why, count)| format!("{why} {count}")).collect();
        let parts = self.refused.get("part").copied().unwrap_or(0);
        format!(
            "| {name} | {all} | {share:.2} % | {} | {parts} | {:.0} ms |",
            refused.join(", "),
            1000.0 * self.seconds
        )
    }
}

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut files, mut only_table) = (Vec::new(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("table") => only_table = true,
            Arg::Value(file) => files.push(PathBuf::from(file)),
            Arg::Short('h') | Arg::Long("help") => {
                println!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if !only_table && !compare()? {
        return Ok(false);
    }
    if files.is_empty() {
        files.extend(FILES.map(PathBuf::from));
    }
    println!("| file | functions | can have a probe | refused | parts of functions | time |");
    println!("|---|--:|--:|---|--:|--:|");
    for file in files {
        let mut counts = Counts::default();
        counts.add(&file)?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        println!("{}", counts.row(&name.unwrap_or_default()));
    }
    let (mut all, mut number) = (Counts::default(), 0);
    for library in libraries()? {
        // Some are scripts for linkers.
        number += usize::from(all.add(&library).is_ok());
    }
    println!("{}", all.row(&format!("{number} libraries")));
    Ok(true)
}

/// Whether `objdump` agrees about all libraries.
fn compare() -> Result<bool> {
    let root = chore_kit::files::workspace();
    let mut command = Command::new("cargo");
    command.current_dir(root).env_remove("MCOUNT_SAMPLE");
    command.args([
        "test",
        "--release",
        "-p",
        "mcount-hooks",
        "--features",
        "probe",
        "--test",
        "probes",
    ]);
    let status = command.args(["--", "disassembly"]).status().map_err(Error::from)?;
    Ok(status.success())
}

/// The libraries of the system, each once.
fn libraries() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in Path::new(LIBRARIES).read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("lib") && name.contains(".so.") && path.metadata()?.is_file() {
            found.push(path.canonicalize()?);
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}
