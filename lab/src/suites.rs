//! `cargo lab suites`: the test suites of Debian's python, perl, git and openssl, with those very programs, as they are and with every
//! possible function of them and of their libraries probed. Each single test has to give the same result.
//!
//! The suites are upstream's, from Debian's sources, and say themselves which of their tests pass. A suite has hundreds of files; a seed
//! puts them in an order, and as many are run as are asked for.

mod places;
mod results;

use self::places::{Place, SUITES, Suite};
use self::results::Results;
use crate::{Result, files, programs};
use lexopt::{Arg, ValueExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo lab suites [OPTION…] [SUITE…]

Runs the tests of python, perl, git and openssl with Debian's programs, without mcount and with every function probed, and compares.

  --mcount PATH   the program to test (default: target/release/mcount, built now)
  --seed N        the order in which files are run (default: 1)
  --count N       so many files of each suite (default: 20; 0: all)
  --only TEXT     only files whose name has this in it
  --patience S    leave out files that take longer than S seconds untraced (default: 20)
";

/// What a trace may take: only the newest calls are kept.
const RING: &str = "64M";

/// How often longer a file may take with probes, and how many seconds besides.
const LONGER: u64 = 100;
const BESIDES: u64 = 300;

struct Wishes {
    mcount: PathBuf,
    seed: u64,
    count: usize,
    only: String,
    patience: u64,
}

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut mcount = None;
    let (mut seed, mut count, mut only, mut patience) = (1, 20, String::new(), 20);
    let mut names: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Long("seed") => seed = parser.value()?.parse()?,
            Arg::Long("count") => count = parser.value()?.parse()?,
            Arg::Long("only") => only = parser.value()?.string()?,
            Arg::Long("patience") => patience = parser.value()?.parse()?,
            Arg::Value(name) => names.push(name.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let known = |name: &&String| SUITES.iter().all(|suite| suite.name != **name);
    if let Some(name) = names.iter().find(known) {
        return Err(format!("no suite is called {name}\n\n{USAGE}").into());
    }
    let mcount = programs::mcount(mcount)?;
    let wishes = Wishes { mcount, seed, count, only, patience };
    let wanted = |suite: &&Suite| names.is_empty() || names.iter().any(|name| name == suite.name);
    let mut rows = Vec::new();
    let mut is_well = true;
    for suite in SUITES.iter().filter(wanted) {
        let summary = examine(suite, &wishes)?;
        is_well &= summary.differing == 0;
        rows.push(summary.row(suite));
    }
    println!("\n| suite | files | run | single tests | differ | took longer than {patience} s |");
    println!("|---|--:|--:|--:|--:|--:|");
    for row in rows {
        println!("{row}");
    }
    Ok(is_well)
}

/// What came out of a suite.
#[derive(Default)]
struct Summary {
    files: usize,
    run: usize,
    tests: usize,
    /// Files in which something differs.
    differing: usize,
    slow: usize,
}

impl Summary {
    fn row(&self, suite: &Suite) -> String {
        let Self { files, run, tests, differing, slow } = self;
        format!("| {} | {files} | {run} | {tests} | {differing} | {slow} |", suite.title)
    }
}

/// Runs some files of a suite, or all.
fn examine(suite: &Suite, wishes: &Wishes) -> Result<Summary> {
    let root = files::target().join("suites").join(suite.name);
    files::make_folder(&root)?;
    let place = (suite.prepare)(&root)?;
    let mut all = (suite.files)(&place)?;
    all.sort_unstable();
    let mut summary = Summary { files: all.len(), ..Summary::default() };
    all.retain(|name| name.contains(&wishes.only));
    shuffle(&mut all, wishes.seed);
    for file in all {
        if wishes.count != 0 && summary.run == wishes.count {
            break;
        }
        let plain = attempt(suite, &place, &file, None, wishes.patience)?;
        if plain.is_late {
            summary.slow += 1;
            continue;
        }
        // One that only says that it can't be run here shows nothing.
        if plain.results.is_empty() {
            continue;
        }
        let patience = BESIDES + LONGER * (1 + plain.time.as_secs());
        let traced = attempt(suite, &place, &file, Some(&wishes.mcount), patience)?;
        summary.run += 1;
        summary.tests += plain.results.len();
        let differences = plain.differences(&traced);
        summary.differing += usize::from(!differences.is_empty());
        let times = [plain.time, traced.time].map(|time| time.as_secs_f64());
        let word = if differences.is_empty() { "same" } else { "DIFFERENT" };
        println!(
            "{} {file}: {word}, {} tests, {:.1} s and {:.1} s",
            suite.name,
            plain.results.len(),
            times[0],
            times[1]
        );
        for line in differences.iter().take(10) {
            println!("    {line}");
        }
        if !differences.is_empty() {
            let name: String =
                file.chars().map(|letter| if letter == '/' { '-' } else { letter }).collect();
            for (kind, one) in [("plain", &plain), ("traced", &traced)] {
                files::write(&root.join(format!("{name}.{kind}")), one.printed.as_bytes())?;
            }
        }
    }
    Ok(summary)
}

/// Puts names in an order that `seed` tells (`SplitMix64`, Fisher and Yates).
fn shuffle(names: &mut [String], seed: u64) {
    let mut state = seed;
    for last in (1..names.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let other = usize::try_from(mixed % (last as u64 + 1)).unwrap_or(0);
        names.swap(last, other);
    }
}

/// One run of a file of tests.
struct Attempt {
    /// As `timeout` has it.
    code: Option<i32>,
    results: Results,
    printed: String,
    time: Duration,
    is_late: bool,
}

impl Attempt {
    fn differences(&self, traced: &Self) -> Vec<String> {
        let mut found = self.results.differences(&traced.results);
        if self.code != traced.code {
            found.push(format!("ends with {:?}, traced with {:?}", self.code, traced.code));
        }
        found
    }
}

/// Runs `file` of a suite, traced if there's an `mcount`, for so many seconds at most.
fn attempt(
    suite: &Suite,
    place: &Place,
    file: &str,
    mcount: Option<&Path>,
    patience: u64,
) -> Result<Attempt> {
    let scratch = tempfile::tempdir()?;
    let trace = scratch.path().join("trace.mcount");
    let (folder, words) = (suite.command)(place, file, scratch.path());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &patience.to_string()]);
    if let Some(mcount) = mcount {
        command.arg(mcount).args(["trace", "--children", "--probe", "*", "--ring", RING, "-o"]);
        command.arg(&trace).arg("--");
    }
    command.args(&words).current_dir(folder).envs(suite.variables.iter().copied());
    for (name, value) in &place.variables {
        command.env(name, value);
    }
    let output = scratch.path().join("output");
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&output)?;
    command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written);
    let start = Instant::now();
    let status = command.status()?;
    let time = start.elapsed();
    let printed = String::from_utf8_lossy(&files::read(&output)?).into_owned();
    let results = (suite.results)(&printed, scratch.path());
    Ok(Attempt { code: status.code(), is_late: status.code() == Some(124), results, printed, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_tells_the_order() {
        let names = || (0..100).map(|number| number.to_string()).collect::<Vec<_>>();
        let order = |seed| {
            let mut names = names();
            shuffle(&mut names, seed);
            names
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable_by_key(|name| name.parse::<u32>().unwrap_or(0));
        assert_eq!(sorted, names());
    }
}
