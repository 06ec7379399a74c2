//! `mcount COMMAND ...`: see [`mcount_cli::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(mcount_cli::cli::run(std::env::args_os()))
}
