//! `mcount trace`, held against programs that count their own calls (`tests/trace/hits.h`): whatever compiler
//! and flags made them, the trace has exactly those calls, and what they print and how they end is as without
//! tracing.
//!
//! What is known to be wrong is in the tables with the reason, and ignored; `--include-ignored` runs it.

mod attach;
mod attach_forks;
mod attach_killed;
mod attach_where;
mod clocks;
mod conditions;
mod control;
mod counters;
mod damaged;
mod declared;
mod ended;
mod events;
mod faults;
mod inherited;
mod instrumented;
mod kernel_functions;
mod languages;
mod layouts;
mod library_calls;
mod library_values;
mod marks;
mod matrix;
mod off_cpu;
mod options;
mod probes;
mod probes_any;
mod programs;
mod sample;
mod sample_busy;
mod sample_callers;
mod sample_puns;
mod sample_seldom;
mod sample_slow;
mod sanitizers;
mod sizes;
mod sleds;
mod steps;
mod surroundings;
mod system_calls;
mod system_calls_where;
mod terminal;
mod told;
mod top;
mod truth;
mod values;
mod waits;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use testkit::elsewhere;
use testkit::trial::{ignore, trial};

/// A test: its name, the programs it wants, why it fails so far, and what it does.
struct Test {
    name: String,
    wants: Vec<&'static str>,
    open: Option<&'static str>,
    run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

impl Test {
    fn trial(self, include_open: bool) -> Trial {
        let Self { name, wants, open, run } = self;
        let wants = elsewhere::wanted(wants);
        trial(name, wants, move || match open {
            Some(reason) if !include_open => ignore(reason),
            _ => run(),
        })
    }
}

fn main() -> ExitCode {
    testkit::interrupt::not_ignored();
    let arguments = Arguments::from_args();
    let include_open = arguments.include_ignored || arguments.ignored;
    let is_built = cfg!(can_trace);
    if !is_built || !cfg!(target_os = "linux") {
        return ExitCode::SUCCESS;
    }
    let tests = matrix::tests().into_iter().chain(programs::tests()).chain(steps::tests());
    let tests = tests.chain(faults::tests()).chain(options::tests()).chain(surroundings::tests());
    let tests = tests
        .chain(attach::tests())
        .chain(attach_forks::tests())
        .chain(attach_killed::tests())
        .chain(attach_where::tests())
        .chain(terminal::tests())
        .chain(top::tests())
        .chain(sample::tests())
        .chain(sample_slow::tests())
        .chain(sample_callers::tests())
        .chain(sample_busy::tests())
        .chain(sample_puns::tests())
        .chain(sample_seldom::tests());
    let tests = tests.chain(control::tests()).chain(damaged::tests()).chain(off_cpu::tests());
    let tests = tests
        .chain(values::tests())
        .chain(conditions::tests())
        .chain(counters::tests())
        .chain(ended::tests())
        .chain(marks::tests())
        .chain(declared::tests())
        .chain(told::tests())
        .chain(clocks::tests())
        .chain(sanitizers::tests())
        .chain(sizes::tests())
        .chain(sleds::tests())
        .chain(inherited::tests())
        .chain(instrumented::tests())
        .chain(waits::tests())
        .chain(system_calls::tests())
        .chain(system_calls_where::tests())
        .chain(kernel_functions::tests())
        .chain(events::tests());
    let tests =
        tests.chain(languages::tests()).chain(layouts::tests()).chain(library_calls::tests());
    let tests = tests.chain(library_values::tests());
    let tests = tests.chain(probes::tests()).chain(probes_any::tests());
    let trials = tests.map(|test| test.trial(include_open)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
