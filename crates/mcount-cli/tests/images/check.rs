//! What `mcount check` must say of each image of the matrix once that is stripped: no more than before.
//! No strip changes a table, or what its entries lead to.

use crate::build::{Case, mcount};
use crate::ensure;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use testkit::process::run;

/// Holds what is found in `image`, which is of `case`, against what is found without its symbols.
pub(crate) fn is_right(case: &Case, image: &Path) -> Result<(), String> {
    let stripped = image.with_file_name("bare");
    let strip = case.target.toolchain.utility("strip");
    run(Command::new(strip).arg("-o").arg(&stripped).arg(image))?;
    let (before, after) = (findings(image)?, findings(&stripped)?);
    let new: Vec<_> = after.difference(&before).collect();
    ensure(new.is_empty(), || format!("of the stripped image: {new:?}\nbefore: {before:?}"))
}

/// Each finding: rule and address.
fn findings(image: &Path) -> Result<BTreeSet<(String, Option<u64>)>, String> {
    let mut command = mcount(&["check", "--policy", "all", "--warn", "all", "--format", "jsonl"]);
    let mut found = BTreeSet::new();
    for line in run(command.arg(image))?.lines() {
        let finding: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let rule = finding.get("rule").and_then(Value::as_str).ok_or(line)?;
        found.insert((rule.to_owned(), finding.get("address").and_then(Value::as_u64)));
    }
    Ok(found)
}
