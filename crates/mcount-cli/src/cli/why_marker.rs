//! `mcount why PROGRAM PROVIDER:NAME`: markers that a program declares with `<sys/sdt.h>`, and whether they can be recorded.

use super::options::globs;
use crate::debug::separate::{Search, Subject};
use crate::words::{counted, printable};
use anstyle::{AnsiColor, Style};
use mcount::GlobSet;
use mcount_hooks::probe::Planner;
use mcount_hooks::usdt::{self, Marker};
use object::Endianness;
use object::read::elf::ElfFile64;
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;

/// Prints what's to be said of the markers that `names` mean; the names that mean none.
pub(super) fn print(
    (image, search): (&Path, &Search),
    names: &[String],
    (out, is_text): (&mut impl Write, bool),
) -> io::Result<Vec<String>> {
    let is_marker = |name: &&String| name.contains(':') && !name.contains("::");
    if !names.iter().any(|name| is_marker(&name)) {
        return Ok(names.to_vec());
    }
    // Whatever is wrong with the file is said when it's read for functions.
    let Ok(subject) = Subject::open(image, search, false) else { return Ok(names.to_vec()) };
    let Ok(file) = ElfFile64::<Endianness>::parse(subject.bytes()) else {
        return Ok(names.to_vec());
    };
    let markers = usdt::markers(&file);
    let (mut planner, mut rest) = (None, Vec::new());
    for name in names {
        let glob = globs(std::slice::from_ref(name)).unwrap_or_default();
        let meant = |one: &&Marker<'_>| is_meant(name, &glob, &one.full_name());
        let meant: Vec<&Marker<'_>> =
            markers.iter().filter(|_| is_marker(&name)).filter(meant).collect();
        if meant.is_empty() {
            rest.push(name.clone());
        }
        for marker in meant {
            let planner = planner.get_or_insert_with(|| Planner::new(subject.bytes()).ok());
            let verdict = verdict(planner.as_ref(), marker);
            if is_text {
                text(out, marker, &verdict)?;
            } else {
                writeln!(out, "{}", line(image, marker, &verdict))?;
            }
        }
    }
    Ok(rest)
}

fn is_meant(name: &str, glob: &GlobSet, full: &str) -> bool {
    name == full || glob.is_match(full)
}

/// Whether a marker can be recorded, and how or why not.
fn verdict(planner: Option<&Planner<'_>>, marker: &Marker<'_>) -> Result<String, String> {
    let planner = planner.filter(|planner| planner.processor().has_markers);
    let planner = planner.ok_or("markers need an executable or a shared library for x86-64")?;
    let plan = planner.plan_marker(marker.site).map_err(|refusal| refusal.to_string())?;
    let moved = counted(plan.moved as u64, "byte", "bytes");
    Ok(format!("{moved} at {:#x} can move", plan.entry))
}

fn text(out: &mut impl Write, of: &Marker<'_>, verdict: &Result<String, String>) -> io::Result<()> {
    let bold = Style::new().bold();
    let (style, can, words) = match verdict {
        Ok(words) => (AnsiColor::Green.on_default(), "can be recorded", words),
        Err(words) => (AnsiColor::Red.on_default(), "can't be recorded", words),
    };
    let (name, site) = (of.full_name(), of.site);
    let name = printable(&name);
    writeln!(out, "{bold}{name}{bold:#} ({site:#x}): {style}{can}{style:#}: {words}")?;
    if !of.arguments.is_empty() {
        writeln!(out, "  arguments: {}", printable(of.arguments))?;
    }
    match of.semaphore {
        Some(at) => {
            writeln!(out, "  the program computes them while the number at {at:#x} isn't 0")
        }
        None => Ok(()),
    }
}

fn line(image: &Path, of: &Marker<'_>, verdict: &Result<String, String>) -> serde_json::Value {
    json!({
        "file": image.display().to_string(),
        "marker": of.full_name(),
        "address": of.site,
        "arguments": of.arguments,
        "semaphore": of.semaphore,
        "probe": verdict.is_ok(),
        "probe_text": match verdict { Ok(words) | Err(words) => words },
    })
}
