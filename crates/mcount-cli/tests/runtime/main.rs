//! The runtime oracle. A recorder that misreads a processor's ABI agrees with tests that misread it
//! the same way; a running program does not. Each case is a small program whose functions call a
//! hook, recorded with `mcount record`, linked and run, natively or by qemu. The program walks its
//! own table, turns one hook after the other into NOPs, and counts hook calls: exactly those of the
//! function that contains the entry must disappear. See `tests/runtime/oracle.c`.
//!
//! `MCOUNT_TEST_RECORDER` names another recorder (and `MCOUNT_TEST_CFLAGS` more flags for the traced
//! functions), to try the oracle itself.

mod build;
mod targets;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use testkit::sample::one_in;
use testkit::trial::trial;

use build::{Case, Route, Untraced, perform};
use targets::target::patchable;
use targets::{TARGETS, Target};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let untraced = Untraced::new().map(Arc::new);
    let mut trials = Vec::new();
    for target in TARGETS {
        for case in cases(target) {
            let untraced = untraced.clone();
            trials.push(trial(name(&case), programs(&case), move || judge(&case, &*untraced?)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Every way of compiling and linking; and in the first of them, patchable entries and every route.
fn cases(target: &'static Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for &variant in target.variants {
        for &link in variant.links {
            for optimise in ["-O0", "-O2"] {
                cases.push(Case { target, variant, optimise, link, route: Route::Direct });
            }
        }
    }
    let Some(&first) = cases.first() else { return cases };
    let mut cases = one_in(4, cases);
    let variant = patchable(first.variant);
    cases.push(Case { variant, optimise: "-O2", ..first });
    let routes = [
        Route::Relocatable,
        Route::Objcopy,
        Route::StripDebug,
        Route::Archive,
        Route::Collected,
        Route::Missing,
        Route::Shifted,
        Route::Extra,
    ];
    cases.extend(routes.map(|route| Case { optimise: "-O2", route, ..first }));
    cases
}

fn name(case: &Case) -> String {
    let variant = case.variant.label;
    let (target, link) = (case.target.toolchain.name, case.link.label());
    format!("{target}::{variant}::{link}::{}::{}", &case.optimise[1..], case.route.label())
}

/// Runs a case; a sabotaged one must fail, and by the oracle's word.
fn judge(case: &Case, untraced: &Untraced) -> Result<(), String> {
    match (case.route.sabotaged(), perform(case, untraced)) {
        (false, Ok(output)) if output.starts_with("ok ") => Ok(()),
        (true, Err(error)) if error.contains("\nFAIL ") => Ok(()),
        (true, Ok(output)) => Err(format!("not seen: {output}")),
        (_, Ok(output) | Err(output)) => Err(output),
    }
}

fn programs(case: &Case) -> Vec<&'static str> {
    let mut programs: Vec<&str> = case.target.toolchain.programs().collect();
    programs.extend(case.variant.compiler.first());
    if case.variant.link_flags.contains(&"-fuse-ld=lld") {
        programs.push("ld.lld");
    }
    programs
}
