//! Runs the test programs, as many at a time as there are processors, and says which tests were ignored and which
//! took longest.
//!
//! `cargo test` runs one program after the other, and each ends with a processor idle while the last test runs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::parallel::side_by_side;
use crate::test_programs::{self, TestProgram};
use crate::{Result, files, lab};

/// What the seed is called in `testkit::sample`.
const SAMPLE: &str = "MCOUNT_SAMPLE";

/// How many of the slowest tests and programs are printed.
const SLOWEST: usize = 12;

/// What the harness of `testkit` writes about one test.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    milliseconds: u64,
    program: String,
    test: String,
    /// Why it was ignored, or nothing.
    reason: String,
}

/// Builds all tests, and lints what is compiled for them; `None` if one can't be compiled, or clippy finds something.
pub(super) fn build() -> Result<Option<Vec<TestProgram>>> {
    println!("== cargo test --workspace --no-run, by clippy -D warnings");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--workspace"]).current_dir(files::workspace());
    let Some(mut programs) = test_programs::build(linting(&mut cargo))? else { return Ok(None) };
    // In the same folder, because most of its dependencies are the same.
    let mut experiments = lab::cargo("test");
    // They run for a second. Optimizing them takes a minute.
    let experiments = experiments.args(["--config", "profile.dev.opt-level=0"]);
    let experiments = test_programs::build(linting(experiments))?;
    let Some(experiments) = experiments else { return Ok(None) };
    programs.extend(experiments);
    Ok(Some(programs))
}

/// Has `cargo` compile the packages of the workspace with clippy's driver, which is the compiler with more lints. `cargo clippy`
/// would check them and their dependencies once more, which takes three minutes.
///
/// With `rust-version` in Cargo.toml, this also finds what the declared Rust doesn't have (`incompatible_msrv`).
pub(super) fn linting(cargo: &mut Command) -> &mut Command {
    // As `cargo clippy` tells it; the words are clippy's own.
    let arguments = ["-D", "warnings", ""].join("__CLIPPY_HACKERY__");
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", arguments)
}

/// Runs all tests; `false` if one failed. `is_complete` says that a missing tool is a failure. Of many alike tests, those run that
/// `seed` chooses, or all.
pub(super) fn all(
    programs: Vec<TestProgram>,
    is_complete: bool,
    seed: Option<u64>,
) -> Result<bool> {
    println!("== cargo test --workspace");
    match seed {
        Some(seed) => println!("== a part of the alike tests: cargo xtask test --seed {seed}"),
        None => println!("== all of the alike tests"),
    }
    let folder = tempfile::tempdir()?;
    let times = folder.path().join("times");
    files::write(&times, b"")?;
    let run = |program: &TestProgram| {
        let mut command = Command::new(&program.program);
        command.current_dir(&program.folder).env("MCOUNT_TEST_TIMES", &times);
        match seed {
            Some(seed) => command.env(SAMPLE, seed.to_string()),
            None => command.env_remove(SAMPLE),
        };
        if is_complete {
            command.env("MCOUNT_REQUIRE_TOOLS", "1");
        }
        one(program, &mut command)
    };
    let mut results = side_by_side(programs, run);
    let outcomes = outcomes(&String::from_utf8_lossy(&files::read(&times)?))?;
    print_ignored(&outcomes);
    print_slowest(outcomes);
    results.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    println!("== slowest test programs");
    for (result, seconds) in results.iter().take(SLOWEST) {
        println!("{seconds:8.1} s  {}", result.as_ref().map_or("(not started)", |(name, _)| name));
    }
    let mut is_well = true;
    for (result, _) in results {
        is_well &= result?.1;
    }
    Ok(is_well)
}

/// Runs one program, and prints what it came to; all it said if it failed. Its name, and whether it succeeded.
fn one(program: &TestProgram, command: &mut Command) -> Result<(String, bool)> {
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let counts = test_programs::counts(&stdout)
        .unwrap_or_else(|| format!("did not end as tests do: {}", output.status));
    let line = format!("{}: {counts}, {:.1} s", program.name, begin.elapsed().as_secs_f64());
    let is_well = output.status.success();
    // One call, so that programs that end together don't mix.
    println!("{}", if is_well { line } else { format!("{stdout}{stderr}== failed: {line}") });
    Ok((program.name.clone(), is_well))
}

/// The lines that the harness wrote.
fn outcomes(written: &str) -> Result<Vec<Outcome>> {
    let mut found = Vec::new();
    for line in written.lines() {
        let mut fields = line.splitn(4, '\t').map(str::to_owned);
        let (Some(milliseconds), Some(program), Some(test), Some(reason)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        found.push(Outcome { milliseconds: milliseconds.parse()?, program, test, reason });
    }
    Ok(found)
}

/// Says why tests were ignored, how many, and in which programs.
fn print_ignored(outcomes: &[Outcome]) {
    let mut reasons: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.reason.is_empty()) {
        reasons.entry(&outcome.reason).or_default().push(outcome);
    }
    if !reasons.is_empty() {
        println!("== ignored tests");
    }
    for (reason, outcomes) in reasons {
        let programs: BTreeSet<&str> = outcomes.iter().map(|o| o.program.as_str()).collect();
        let programs: Vec<&str> = programs.into_iter().collect();
        match outcomes.as_slice() {
            [only] => println!("{reason}: {}: {}", only.program, only.test),
            more => println!("{reason}: {} tests of {}", more.len(), programs.join(", ")),
        }
    }
}

fn print_slowest(mut outcomes: Vec<Outcome>) {
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.milliseconds));
    println!("== slowest tests");
    for Outcome { milliseconds, program, test, .. } in outcomes.iter().take(SLOWEST) {
        println!("{:6}.{} s  {program}: {test}", milliseconds / 1000, milliseconds % 1000 / 100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let found = outcomes("12\tcosts\tscan\t\n0\tlate\tx::y\tnot installed: gcc\n").unwrap();
        let last = found.last().unwrap();
        assert_eq!((found.len(), last.reason.as_str()), (2, "not installed: gcc"));
        assert!(outcomes("soon\tcosts\tscan\t\n").is_err());
    }
}
