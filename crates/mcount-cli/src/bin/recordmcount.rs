//! `recordmcount [-w] file.o...`: see [`mcount_cli::recordmcount`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(mcount_cli::recordmcount::run(std::env::args_os().skip(1)))
}
