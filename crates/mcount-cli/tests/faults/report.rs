//! What came of the faults, counted, as a table.

use super::way::{Outcome, WAYS};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

/// By command and fault: how often the file was the old one after it, and how often the new one.
static COUNTS: Mutex<BTreeMap<(&str, &str), [usize; 2]>> = Mutex::new(BTreeMap::new());

pub(crate) fn count(way: &'static str, fault: &'static str, outcome: Outcome) {
    let mut counts = COUNTS.lock().unwrap();
    counts.entry((way, fault)).or_default()[outcome as usize] += 1;
}

/// Prints a table of `injected` faults and one of `others`. If `write` is set, writes them into the
/// documentation too.
pub(crate) fn print(injected: &[&'static str], others: &[&'static str], write: bool) {
    let table = format!("{}\n{}\n{}", matrix(injected), matrix(others), total());
    println!("{table}");
    if write {
        let path = testkit::prebuilt::root().join("docs/reliability.md");
        let text = String::from_utf8(testkit::files::read(&path).unwrap()).unwrap();
        let (begin, end) = ("<!-- faults: begin -->\n", "<!-- faults: end -->");
        let (before, rest) = text.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let text = format!("{before}{begin}{table}{end}{after}");
        testkit::files::write(&path, text.as_bytes()).unwrap();
    }
}

/// A row for each command, a column for each of `faults`.
fn matrix(faults: &[&'static str]) -> String {
    let counts = COUNTS.lock().unwrap();
    let mut out = format!("| command | {} |\n", faults.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(faults.len()));
    for way in WAYS {
        let _ = write!(out, "| {} |", way.name);
        for fault in faults {
            match counts.get(&(way.name, *fault)) {
                Some([old, new]) => {
                    let _ = write!(out, " {old} old, {new} new |");
                }
                None => out.push_str(" |"),
            }
        }
        out.push('\n');
    }
    out
}

fn total() -> String {
    let counts = COUNTS.lock().unwrap();
    let [old, new] = counts.values().fold([0, 0], |[old, new], one| [old + one[0], new + one[1]]);
    format!(
        "{} faults: the file was the old one {old} times, the new one {new} times.\n",
        old + new
    )
}
