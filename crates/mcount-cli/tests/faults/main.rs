//! Faults: every command that writes, on every path it takes to the disk, with something going
//! wrong at every step of it. Whatever goes wrong, each file is the old one or the new one, whole;
//! no temporary is left, or the next run clears it; the exit code is right; and the next run
//! completes the job, with the same bytes.
//!
//! Its own program, because it counts: at the end it prints a table of fault × command × outcomes.
//! `MCOUNT_BLESS=1` writes that table into docs/reliability.md.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test")]

mod inject;
mod report;
mod surroundings;
mod way;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use testkit::sample::one_in;
use testkit::trial;
use way::{WAYS, Way};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for way in WAYS {
        for fault in inject::FAULTS {
            trials.push(trial(way, fault.name, &["strace"], || inject::all(way, fault)));
        }
        for fault in surroundings::FAULTS {
            trials.push(trial(way, fault.name, fault.tools, || (fault.run)(way, fault.name)));
        }
    }
    let is_all = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, one_in(3, trials));
    let passed = !conclusion.has_failed();
    let injected: Vec<_> = inject::FAULTS.iter().map(|fault| fault.name).collect();
    let others: Vec<_> = surroundings::FAULTS.iter().map(|fault| fault.name).collect();
    let writes = passed && is_all && std::env::var_os("MCOUNT_BLESS").is_some();
    report::print(&injected, &others, writes);
    if passed { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

fn trial(
    way: &'static Way,
    fault: &str,
    tools: &'static [&'static str],
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let binutils = ["as", "ar", "ld", "readelf"];
    let programs = binutils.into_iter().chain(tools.iter().copied());
    trial::trial(format!("{} / {fault}", way.name), programs, run)
}
