//! Calls of library functions that may wait: `mcount trace` records them by default, if they take a while.

pub(super) use mcount_symbols::waiting::may_wait;

/// Shorter calls aren't recorded, in nanoseconds: such a lock was free, such a read found its data. The shortest way into the
/// kernel and back takes about a tenth of it, and a thread that really waits can't be back within it.
pub(super) const SHORTEST: u64 = 1_000;
