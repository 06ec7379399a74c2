//! Long output on a terminal goes through a pager, as git's does.

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The program that is run if `PAGER` isn't set.
const DEFAULT: &str = "less";

/// Lets `write` write to a pager if standard output is a terminal, and else to standard output.
///
/// # Errors
///
/// Those of `write`.
pub(crate) fn paged<T>(write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    let Some(mut pager) = start() else { return write(&mut io::stdout().lock()) };
    // ^C is for the pager: it ends a search there, and not the pager itself.
    let _ = flag::register(SIGINT, Arc::<AtomicBool>::default());
    let result = match pager.stdin.take() {
        Some(mut stdin) => write(&mut stdin),
        None => write(&mut io::stdout().lock()),
    };
    let _ = pager.wait();
    result
}

/// The pager, if one is wanted and can be started.
fn start() -> Option<Child> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let pager = env::var_os("PAGER").unwrap_or_else(|| DEFAULT.into());
    if pager.is_empty() || pager == "cat" {
        return None;
    }
    let mut command = Command::new("sh");
    // Quit if it fits on the screen, show colours, leave the screen as it is.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.arg("-c").arg(pager).stdin(Stdio::piped()).spawn().ok()
}
