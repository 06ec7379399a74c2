//! What `mcount` says of a kernel, read from its lines of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Result;

/// The functions of the entries, by address.
pub(super) fn list(mcount: &Path, file: &Path, more: &[&str]) -> Result<BTreeMap<u64, String>> {
    let lines = lines(mcount, "list", file, more)?;
    let entry = |line: &Value| Some((line["address"].as_u64()?, text(&line["symbol"])));
    Ok(lines.iter().filter_map(entry).collect())
}

/// The address and the rule of each error.
pub(super) fn check(mcount: &Path, file: &Path) -> Result<BTreeSet<(u64, String)>> {
    let lines = lines(mcount, "check", file, &[])?;
    let denied = lines.iter().filter(|line| line["level"] == "deny");
    Ok(denied.map(|line| (line["address"].as_u64().unwrap_or(0), text(&line["rule"]))).collect())
}

/// For each of `names` where it is, and whether it can be traced. Why it can't is better known with debug information.
pub(super) fn why(mcount: &Path, file: &Path, names: &[&str]) -> Result<BTreeSet<String>> {
    let lines = lines(mcount, "why", file, names)?;
    let answer = |line: &Value| {
        let is_recorded = line["reason"] == "recorded";
        format!("why {}: {}, recorded: {is_recorded}", text(&line["function"]), line["address"])
    };
    Ok(lines.iter().map(answer).collect())
}

/// What differs between two files.
pub(super) fn diff(mcount: &Path, old: &Path, new: &Path) -> Result<Vec<String>> {
    let lines = lines(mcount, "diff", old, &[&new.to_string_lossy()])?;
    let change =
        |line: &Value| format!("diff {} {}", text(&line["change"]), text(&line["function"]));
    Ok(lines.iter().map(change).collect())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn lines(mcount: &Path, command: &str, file: &Path, more: &[&str]) -> Result<Vec<Value>> {
    let mut run = Command::new(mcount);
    run.args([command, "--format", "jsonl"]).arg(file).args(more);
    let output = run.output()?;
    // 1 says that something was found.
    if !matches!(output.status.code(), Some(0 | 1)) {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("mcount {command} {}: {why}", file.display()).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
}
