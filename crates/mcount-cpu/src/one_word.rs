//! Sites that are one word of four bytes, on processors where threads may run while it's exchanged for another.

use crate::engine::{Step, Value};

/// Bytes of a site.
pub const SITE: usize = 4;

/// Between an idle site and an armed one: one word.
pub const AT_ONCE: &[Step] = &[Step { first: 0, end: SITE, value: Value::New }];

/// The same where no thread runs: nothing else is needed.
pub const ALL_STAND: &[Step] = AT_ONCE;

/// Is the area at the start of some code one instruction? Here it always is, and no thread can be inside it.
#[must_use]
pub fn is_one_instruction(_code: &[u8], length: usize) -> bool {
    length == SITE
}

/// Where a thread goes on that ran into a breakpoint at `site`: after it, as if the site were idle.
#[must_use]
pub fn behind_trap(site: u64, length: usize) -> u64 {
    site.wrapping_add(length as u64)
}
