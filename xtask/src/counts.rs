//! `cargo xtask bench --check`: the instructions that pieces of the library's work take, counted by
//! callgrind, against those in `benches/expected.json`.
//!
//! A count is the same every time, whatever else the machine does, but another compiler, C library
//! or processor makes other instructions. Those that the expectation was made with are in it; with
//! others nothing is compared, and that is said.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::parallel::side_by_side;
use crate::programs::{self, Profile};
use crate::{Result, files};

/// What a count may differ by, in percent of what is expected.
const TOLERANCE: u64 = 2;

/// Counts, and what they hold for.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    made_with: BTreeMap<String, String>,
    counts: BTreeMap<String, u64>,
}

impl Counts {
    /// What a file says. By hand, because a derived reader takes longer to compile than all chores.
    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut value: Value = serde_json::from_slice(bytes)?;
        let mut table = |name: &str| value.get_mut(name).map(Value::take).unwrap_or_default();
        let (made_with, counts) = (table("made_with"), table("counts"));
        Ok(Self {
            made_with: serde_json::from_value(made_with)?,
            counts: serde_json::from_value(counts)?,
        })
    }
}

/// Whether callgrind is here.
pub(crate) fn is_possible() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Counts and compares, or with `bless` writes; `false` where a count is off.
pub(crate) fn check(bless: bool) -> Result<bool> {
    let path = files::workspace().join("benches/expected.json");
    let made_with = environment()?;
    if !bless {
        let expected = Counts::parse(&files::read(&path)?)?;
        if let Some(difference) = difference(&expected.made_with, &made_with) {
            println!("instruction counts are not compared: {difference}");
            return Ok(true);
        }
    }
    let program = programs::build("benches", Profile::Dist)?.join("benches");
    let folder = files::workspace().join("target/bench/counts");
    files::make_folder(&folder)?;
    let cases = String::from_utf8(Command::new(&program).output()?.stdout)?;
    let count = |case: &&str| Ok(((*case).to_owned(), count(&program, &folder, case)?));
    let counts = side_by_side(cases.lines().collect(), count);
    let counts = counts.into_iter().map(|(count, _)| count).collect::<Result<_>>()?;
    let found = Counts { made_with, counts };
    if bless {
        let value = json!({"made_with": found.made_with, "counts": found.counts});
        let text = serde_json::to_string_pretty(&value)? + "\n";
        files::write(&path, text.as_bytes())?;
        println!("wrote {}", path.display());
        return Ok(true);
    }
    let expected = Counts::parse(&files::read(&path)?)?;
    Ok(compare(&expected.counts, &found.counts))
}

/// The first thing that the counts depend on and that is another now.
fn difference(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let other = then.iter().find(|(name, value)| now.get(*name) != Some(value))?;
    let is = now.get(other.0).map_or("unknown", String::as_str);
    Some(format!("the {} is {is}, and was {}", other.0, other.1))
}

/// Prints each count; whether all are within the tolerance.
fn compare(expected: &BTreeMap<String, u64>, found: &BTreeMap<String, u64>) -> bool {
    let mut is_well = true;
    for (case, count) in found {
        let Some(was) = expected.get(case) else {
            println!("{case}: {count}, and nothing is expected: --bless");
            is_well = false;
            continue;
        };
        let is_near = count.abs_diff(*was) * 100 <= was * TOLERANCE;
        let word = match (is_near, count > was) {
            (true, _) => "",
            (false, true) => ", MORE than expected",
            (false, false) => ", LESS than expected: --bless, so that it stays so",
        };
        println!("{case}: {count}, expected {was}{word}");
        is_well &= is_near;
    }
    for case in expected.keys().filter(|case| !found.contains_key(*case)) {
        println!("{case}: is no case any more: --bless");
        is_well = false;
    }
    is_well
}

/// The instructions of one case.
fn count(program: &Path, folder: &Path, case: &str) -> Result<u64> {
    let output = folder.join(case.replace([' ', ','], "-"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted*"]);
    valgrind.arg(format!("--callgrind-out-file={}", output.display())).arg(program).arg(case);
    let done = valgrind.output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{case}: {said}").into());
    }
    let profile = String::from_utf8(files::read(&output)?)?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.filter(|total| *total != 0).ok_or_else(|| format!("{case}: nothing was counted").into())
}

/// What the counts depend on.
fn environment() -> Result<BTreeMap<String, String>> {
    let said = |program: &str, argument: &str| -> Result<String> {
        let output = Command::new(program).arg(argument).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // With AVX2 the searches for bytes take other instructions.
    let flags = files::read(Path::new("/proc/cpuinfo"))?;
    let has_avx2 = String::from_utf8_lossy(&flags).split_whitespace().any(|flag| flag == "avx2");
    let known = [
        ("compiler", said("rustc", "--version")?),
        ("C library", said("getconf", "GNU_LIBC_VERSION")?),
        ("processor", format!("{}, AVX2: {has_avx2}", std::env::consts::ARCH)),
    ];
    Ok(known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn the_file_is_read() {
        let found =
            Counts::parse(br#"{"counts": {"a": 3}, "made_with": {"compiler": "x"}}"#).unwrap();
        assert_eq!(found.counts, counts(&[("a", 3)]));
        assert_eq!(found.made_with.get("compiler").unwrap(), "x");
        assert!(Counts::parse(br#"{"counts": {"a": 3}}"#).is_err());
    }

    #[test]
    fn two_percent_are_tolerated() {
        let expected = counts(&[("a", 1000)]);
        for (count, is_well) in [(980, true), (1020, true), (979, false), (1021, false)] {
            assert_eq!(compare(&expected, &counts(&[("a", count)])), is_well, "{count}");
        }
        assert!(!compare(&expected, &counts(&[])));
        assert!(!compare(&expected, &counts(&[("a", 1000), ("b", 1)])));
    }
}
