//! `libmcount-live`, in C programs by both compilers: programs that check themselves (`tests/live`), and programs that
//! count their own calls (`tests/trace`), all of whose functions are shown to handlers that count, too.

mod build;
mod own;
mod truth;

use libtest_mimic::Arguments;
use std::process::ExitCode;
use testkit::trial::trial;

/// A test: its name, the programs it wants, and what it does.
struct Test {
    name: String,
    wants: Vec<&'static str>,
    run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

fn main() -> ExitCode {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")) {
        return ExitCode::SUCCESS;
    }
    let tests = own::tests().into_iter().chain(truth::tests());
    let trials = tests.map(|test| trial(test.name, test.wants, test.run)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
