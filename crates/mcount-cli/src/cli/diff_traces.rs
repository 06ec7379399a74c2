//! `mcount diff` of traces or samples: which functions take longer, are called more often, are new or gone.

use super::replay::warn;
use super::{ERROR, FOUND, SUCCESS, complain};
use crate::commit::Failure;
use crate::compare::{
    By, Comparison, ComparisonFormat, Functions, Rule, Sampled, compare, compare_samples,
    is_sample, measure, print, samples,
};
use crate::files::Input;
use crate::output::stdout;
use clap::Args;
use mcount_trace::{is_trace, read};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct TraceDiffArgs {
    /// The time that is compared: of a call without what it called, with it, the median of that; or only
    /// how often functions were called
    #[arg(
        long,
        visible_alias = "sort",
        value_enum,
        default_value = "own",
        help_heading = "Traces"
    )]
    by: By,
    /// Ignore differences up to this, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "3%", help_heading = "Traces")]
    threshold: f64,
    /// Only what got worse: functions that are slower, called more often, or new
    #[arg(long, help_heading = "Traces")]
    worse: bool,
    /// Print functions without a difference too
    #[arg(long, help_heading = "Traces")]
    all: bool,
}

/// `5%` or `2.5%` as a part of 1.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match number.parse::<f64>() {
        Ok(number) if is_number => Ok(number / 100.0),
        _ => Err("not a percentage such as 5% or 2.5%".to_owned()),
    }
}

/// What is compared.
pub(super) enum Sides {
    Traces([Vec<PathBuf>; 2]),
    Samples([Vec<PathBuf>; 2]),
}

/// The traces or samples on both sides, if one of the files is one: another may be damaged.
pub(super) fn sides(old: &Path, new: &Path) -> Option<Sides> {
    let sides = [old, new].map(paths);
    let are_traces = |path: &PathBuf| match Input::given(path).ok()?.bytes() {
        bytes if is_trace(bytes) => Some(true),
        bytes if is_sample(bytes) || is_table(bytes) => Some(false),
        _ => None,
    };
    let are_traces = sides.iter().flatten().find_map(are_traces)?;
    Some(if are_traces { Sides::Traces(sides) } else { Sides::Samples(sides) })
}

/// Is it a file of Parquet?
fn is_table(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PAR1")
}

/// `OLD1,OLD2`, unless a file is called that.
fn paths(text: &Path) -> Vec<PathBuf> {
    if text.exists() {
        return vec![text.to_owned()];
    }
    let parts = text.as_os_str().as_bytes().split(|byte| *byte == b',');
    // A file without a name is missing, and the error names what was given.
    let named = |part: &[u8]| match part {
        [] => text.to_owned(),
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    parts.map(named).collect()
}

/// Runs the command; its exit code.
pub(super) fn diff_sides(
    arguments: &TraceDiffArgs,
    sides: &Sides,
    is_exact: bool,
    format: ComparisonFormat,
) -> io::Result<u8> {
    let mut rule = Rule {
        by: arguments.by,
        threshold: arguments.threshold,
        only_worse: arguments.worse,
        has_all: arguments.all,
    };
    let comparison = match sides {
        Sides::Traces(sides) => compare_traces(sides, is_exact, &mut rule),
        Sides::Samples(_) if arguments.by == By::Median => {
            return Ok(complain("samples don't say how sure medians are: use --by total"));
        }
        Sides::Samples(sides) => {
            let sides = sides.each_ref().map(|paths| side_of_samples(paths));
            let [Some(old), Some(new)] = sides else { return Ok(ERROR) };
            Some(compare_samples(&old, &new, &rule))
        }
    };
    let Some(comparison) = comparison else { return Ok(ERROR) };
    match print(&mut stdout(format == ComparisonFormat::Text), &comparison, &rule, format) {
        // Whoever read the output has enough of it; the exit code stays.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(if comparison.differences == 0 { SUCCESS } else { FOUND })
}

/// Compares traces; `None` after an error, which is printed.
fn compare_traces(
    [old, new]: &[Vec<PathBuf>; 2],
    is_exact: bool,
    rule: &mut Rule,
) -> Option<Comparison> {
    let (old, new) = (side(old, &mut rule.by, is_exact)?, side(new, &mut rule.by, is_exact)?);
    let warning = match old.len() + new.len() {
        _ if rule.by == By::Calls => None,
        2 => Some("can't estimate noise from one trace per side: give several, as OLD1,OLD2"),
        3..6 => Some("so few traces show only large differences: give five per side"),
        _ => None,
    };
    if let Some(warning) = warning {
        complain(&format!("warning: {warning}"));
    }
    Some(compare(&old, &new, rule))
}

/// One side's samples; `None` after an error, which is printed.
fn side_of_samples(paths: &[PathBuf]) -> Option<Vec<Sampled>> {
    let mut found = Vec::new();
    for path in paths {
        let name = path.display();
        let input = Input::given(path).map_err(|error| Failure::from(error).to_string());
        let read = input.and_then(|input| match input.bytes() {
            bytes if is_trace(bytes) => Err("is a trace, not a sample".to_owned()),
            bytes if is_table(bytes) => {
                Err("is a table of Parquet: diff compares samples of JSON lines".to_owned())
            }
            bytes => samples(bytes),
        });
        found.extend(read.map_err(|error| complain(&format!("{name}: {error}"))).ok()?);
    }
    if found.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        complain(&format!("{}: no function was called", names.join(", ")));
        return None;
    }
    Some(found)
}

/// The results of one side's traces, one after the other; `None` after an error, which is printed.
fn side(paths: &[PathBuf], by: &mut By, is_exact: bool) -> Option<Vec<Functions>> {
    let mut found = Vec::new();
    for path in paths {
        let name = path.display();
        let input = Input::given(path);
        let input =
            input.map_err(|error| complain(&format!("{name}: {}", Failure::from(error)))).ok()?;
        if is_sample(input.bytes()) {
            complain(&format!("{name}: is a sample, not a trace"));
            return None;
        }
        let measured = read(input.bytes(), |trace| {
            if !trace.has_times() || trace.header.has_only_entries {
                // Said below, or by the recorder: what is left are the numbers of calls.
                *by = By::Calls;
            }
            let functions = measure(trace, *by, is_exact);
            warn(path, trace);
            functions
        });
        found.push(measured.map_err(|error| complain(&format!("{name}: {error}"))).ok()?);
    }
    Some(found)
}
