//! Late recording, held against two oracles that share no code with it: what `objdump` says each call
//! calls, and programs that disarm each entry of their table and count (`tests/runtime/oracle.c`).
//! Each program is one way of compiling and linking the runtime oracle, made by `mcount link`.

mod beside;
mod command;
mod compilers;
#[expect(clippy::match_same_arms, reason = "each arm is a fact of its own")]
mod matrix;
mod programs;
mod scripts;
mod spellings;
#[path = "../runtime/targets/mod.rs"]
#[expect(dead_code, reason = "the runtime oracle uses the rest")]
mod targets;
#[expect(clippy::match_same_arms, reason = "one arm a processor")]
mod truth;

use libtest_mimic::Arguments;
use programs::{Shared, perform};
use std::process::ExitCode;
use std::sync::Arc;
use testkit::sample::one_in;
use testkit::trial::trial;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let shared = Shared::new().map(Arc::new);
    let mut trials = Vec::new();
    for case in one_in(6, matrix::cases()) {
        let shared = shared.clone();
        trials.push(trial(case.name(), case.programs(), move || perform(&case, &*shared?)));
    }
    let all = [command::TESTS, scripts::TESTS, spellings::TESTS, beside::TESTS, compilers::TESTS];
    for test in all.concat() {
        trials.push(trial(format!("link::{}", test.name), test.programs.iter().copied(), test.run));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
