//! `mcount COMMAND ...`: see [`mcount_cli::cli`].

use mcount_store::signals::on_stack;
use rustix::process::{Resource, getrlimit};
use std::process::ExitCode;

/// Bytes of stack that are enough for every command: those that a program usually has.
const STACK: u32 = 8 << 20;

fn main() -> ExitCode {
    let run = || mcount_cli::cli::run(std::env::args_os());
    let limit = getrlimit(Resource::Stack).current;
    let is_small = limit.is_some_and(|bytes| bytes < u64::from(STACK));
    let code = if is_small { on_stack(STACK, run).unwrap_or_else(|_| run()) } else { run() };
    ExitCode::from(code)
}
