//! Numbers that more than one module knows: flags of the configuration, how calls end.
//!
//! Their own file so that no two modules need each other for them.

use super::config;

/// Times are counts of events.
pub(crate) const UNTIMED: u64 = 2;
/// Only entries are recorded.
pub(crate) const ENTRIES: u64 = 4;
/// Recording depends on the callers of a call.
pub(crate) const LIMITED: u64 = 8;
/// The trace is in memory.
pub(crate) const IN_MEMORY: u64 = 256;

/// Is this flag of the configuration set?
pub(crate) fn has(flag: u64) -> bool {
    config().flags & flag != 0
}

/// Calls beneath this function are recorded, and it is, too.
pub(crate) const UNDER: u32 = 1;
/// Neither this function nor what is beneath it is recorded.
pub(crate) const NOT_UNDER: u32 = 2;
/// Calls beneath this function are recorded, and it isn't.
pub(crate) const UNDER_HIDDEN: u32 = 3;
/// The bits of these.
pub(crate) const NESTING: u32 = 3;
/// A bit besides: recording starts with calls of this function.
pub(crate) const STARTS: u32 = 4;
/// A bit besides: recording stops when this function has been called.
pub(crate) const STOPS: u32 = 8;
/// A bit besides: the function may wait, and its calls are recorded only if they take a while.
pub(crate) const WAITS: u32 = 16;

/// How a call ended, as the trace has it.
pub(crate) const RETURN: u64 = 0;
pub(crate) const TAIL_CALL: u64 = 1;
pub(crate) const UNWOUND: u64 = 2;
