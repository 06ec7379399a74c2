//! Runs tests, and reports one whose tools are missing as ignored, with the reason.
//!
//! Every test program of the workspace has `harness = false` and calls [`main`], which runs the functions that are
//! marked `#[testkit::test]`; or it makes its tests itself, with [`trial`]. Rust's own harness can only ignore what
//! was known at compile time.
//!
//! If `MCOUNT_TEST_TIMES` names a file, each test adds a line to it: milliseconds, program, test, and why it was
//! ignored. `cargo xtask test` reads it.

use crate::ignored::catch;
pub use crate::ignored::ignore;
use crate::tools::need;
use libtest_mimic::{Arguments, Completion, Trial};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[doc(hidden)]
pub use linkme;

/// What `#[testkit::test]` makes of a function.
#[derive(Debug)]
pub struct Test {
    /// Where the function is, as `module_path!` says it.
    pub module: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The runs of it.
    pub cases: fn() -> Vec<Case>,
}

/// One run of a test function.
pub struct Case {
    /// The row, if the function has several.
    label: Option<String>,
    run: Box<dyn FnOnce() + Send>,
}

/// Every function of this program that is marked `#[testkit::test]`.
#[linkme::distributed_slice]
pub static TESTS: [Test];

/// The case of a function without rows.
#[must_use]
pub fn once(test: fn()) -> Vec<Case> {
    vec![Case { label: None, run: Box::new(test) }]
}

/// A case for each row. Rows with the same label are numbered.
pub fn each<R: Row + Send + 'static>(
    rows: impl IntoIterator<Item = R>,
    test: impl Fn(R) + Copy + Send + 'static,
) -> Vec<Case> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut cases = Vec::new();
    for row in rows {
        let mut label = row.label();
        let count = seen.entry(label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            label = format!("{label} #{count}");
        }
        cases.push(Case { label: Some(label), run: Box::new(move || test(row)) });
    }
    cases
}

/// The values that a test has a case for.
pub trait Row {
    /// The name of the case.
    fn label(&self) -> String;
}

impl Row for str {
    fn label(&self) -> String {
        self.to_owned()
    }
}

impl<R: Row + ?Sized> Row for &R {
    fn label(&self) -> String {
        (**self).label()
    }
}

/// A table's row is called as its first column.
macro_rules! tuples {
    ($($rest:ident)*) => {
        impl<First: Row, $($rest),*> Row for (First, $($rest),*) {
            fn label(&self) -> String {
                self.0.label()
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

/// Runs the tests that are marked `#[testkit::test]`.
#[must_use]
pub fn main() -> ExitCode {
    crate::interrupt::not_ignored();
    let mut trials = Vec::new();
    for test in TESTS {
        let module = test.module.split_once("::").map_or("", |(_, module)| module);
        let name = if module.is_empty() {
            test.name.to_owned()
        } else {
            format!("{module}::{}", test.name)
        };
        for Case { label, run } in (test.cases)() {
            let name = label.map_or_else(|| name.clone(), |label| format!("{name}::{label}"));
            trials.push(trial(name, [], || {
                run();
                Ok(())
            }));
        }
    }
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that needs `programs`.
pub fn trial(
    name: impl Into<String>,
    programs: impl IntoIterator<Item = &'static str> + Send + 'static,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let name = name.into();
    let own_name = name.clone();
    Trial::ignorable_test(name, move || {
        let begin = Instant::now();
        let result = catch(move || {
            need(programs);
            run()
        });
        let reason = match &result {
            Ok(Some(reason)) => reason.as_str(),
            _ => "",
        };
        note(begin.elapsed(), &own_name, reason)?;
        Ok(result?.map_or(Completion::Completed, Completion::ignored_with))
    })
}

/// Adds a line to the file that `MCOUNT_TEST_TIMES` names.
fn note(took: Duration, test: &str, reason: &str) -> Result<(), String> {
    let Some(path) = std::env::var_os("MCOUNT_TEST_TIMES") else { return Ok(()) };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_stem().unwrap_or_default().to_string_lossy();
    let program = program.rsplit_once('-').map_or(&*program, |(program, _hash)| program);
    let line = format!("{}\t{program}\t{test}\t{reason}\n", took.as_millis());
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| format!("{}: {error}", Path::new(&path).display()))
}
