//! `mcount sort` and `mcount nop` on linked images. The oracle is a program that walks its own table
//! at run time, where the loader has made its values (`tests/images/walk.c`), and what readelf and
//! objdump print; neither shares code with mcount.
//!
//! The programs are the runtime oracle's, for the same processors. `MCOUNT_TEST_ALL=1` links each of
//! them in each way; otherwise some are left out, for time.

mod build;
mod check;
mod commands;
mod matrix;
mod nop;
mod sort;
#[path = "../runtime/targets/mod.rs"]
#[expect(dead_code, reason = "the runtime oracle uses the rest")]
mod targets;
mod truth;

use libtest_mimic::Arguments;
use std::process::ExitCode;
use std::sync::Arc;
use testkit::sample::one_in;
use testkit::tools::need;
use testkit::trial::trial;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let shared = build::Shared::new().map(Arc::new);
    let mut trials = Vec::new();
    for case in one_in(3, matrix::cases()) {
        let shared = shared.clone();
        trials.push(trial(matrix::name(&case), matrix::programs(&case), move || {
            matrix::perform(&case, &*shared?)
        }));
    }
    for test in commands::TESTS {
        for (target, flavour) in test.on {
            let shared = shared.clone();
            let name = format!("{}::{target}::{}", test.name, flavour.label);
            trials.push(trial(name, [], move || {
                let case = matrix::first(target, *flavour).ok_or("no such target")?;
                let case = commands::flagged(case, test.flags);
                need(matrix::programs(&case));
                (test.run)(&case, &*shared?)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// An error with `what` unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
