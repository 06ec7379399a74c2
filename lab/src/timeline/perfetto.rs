//! What Perfetto's `trace_processor` says of a trace with both halves, functions of a program and of the kernel, against `mcount replay`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::{Result, files};

/// Every pair of caller and function, and how often and how long it was called, in nanoseconds.
const PAIRS: &str = "\
SELECT ifnull(caller.name, ''), call.name, count(*), sum(call.dur)
FROM slice call LEFT JOIN slice caller ON call.parent_id = caller.id
GROUP BY 1, 2;
";

/// The question of docs/kernel-side.md: what the kernel does in a function of the program.
const BOTH: &str = include_str!("both.sql");

#[derive(Deserialize)]
struct Call {
    function: String,
    caller: Option<String>,
    duration_ns: Option<u64>,
}

/// How often, and for how long.
type Pairs = BTreeMap<(String, String), (u64, u64)>;

/// Compares, and prints what the question's answer is. `false` if they differ.
pub(super) fn compare(mcount: &Path, processor: &Path, trace: &Path) -> Result<bool> {
    let exported = trace.with_extension("perfetto-trace");
    let mut export = Command::new(mcount);
    export.args(["replay", "--format", "perfetto", "--output"]).arg(&exported).arg(trace);
    super::succeed(&mut export)?;
    let mut expected = Pairs::new();
    let calls = Command::new(mcount).args(["replay", "--format", "jsonl"]).arg(trace).output()?;
    for line in String::from_utf8(calls.stdout)?.lines() {
        let call: Call = serde_json::from_str(line)?;
        let pair = (call.caller.unwrap_or_default(), call.function);
        let sums = expected.entry(pair).or_default();
        sums.0 += 1;
        sums.1 += call.duration_ns.ok_or("a call hasn't ended")?;
    }
    let mut found = Pairs::new();
    for row in ask(processor, &exported, PAIRS)? {
        let [caller, function, calls, time] = &row[..] else {
            return Err(format!("{row:?}").into());
        };
        found.insert((caller.clone(), function.clone()), (calls.parse()?, time.parse()?));
    }
    let differ = expected.iter().filter(|(pair, sums)| found.get(pair) != Some(sums)).count();
    let calls: u64 = expected.values().map(|(calls, _)| calls).sum();
    println!(
        "{calls} calls, {} pairs of caller and function; in trace_processor {} pairs, {differ} differ",
        expected.len(),
        found.len()
    );
    for row in ask(processor, &exported, BOTH)? {
        println!("| {} |", row.join(" | "));
    }
    Ok(differ == 0 && found.len() == expected.len() && !found.is_empty())
}

/// The rows of the answer.
fn ask(processor: &Path, trace: &Path, question: &str) -> Result<Vec<Vec<String>>> {
    let query = trace.with_extension("sql");
    files::write(&query, question.as_bytes())?;
    let output = Command::new(processor).arg("-q").arg(query).arg(trace).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    // The first line has the names of the columns. No name has a comma or quotes in it.
    let rows = text.lines().skip(1).filter(|line| !line.is_empty());
    Ok(rows
        .map(|row| row.split(',').map(|field| field.trim_matches('"').to_owned()).collect())
        .collect())
}
