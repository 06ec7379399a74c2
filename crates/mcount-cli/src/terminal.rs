//! How wide standard output is.

use rustix::termios::tcgetwinsize;
use std::env;
use std::io::{self, IsTerminal};

/// What a terminal has that doesn't say.
const USUAL: usize = 80;

/// The characters of a line, if standard output is a terminal: what `COLUMNS` says, or the terminal.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let told = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let own = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    Some(told.or(own).filter(|width| *width > 0).unwrap_or(USUAL))
}
