//! Calls of library functions that may wait: `mcount trace` records them by default, if they take a while.

pub(super) use mcount_symbols::waiting::{is_lock, may_wait};

/// Shorter calls aren't recorded, in nanoseconds: such a lock was free, such a read found its data. Recording one takes about a
/// hundred nanoseconds, so those that are recorded cost at most 2 % of the time that they take.
pub(super) const SHORTEST: u64 = 5_000;
