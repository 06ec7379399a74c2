//! Numbers that more than one module knows: flags of the configuration, how calls end.

use crate::host::Host;

/// Is this flag of the configuration set?
pub fn has<H: Host>(flag: u64) -> bool {
    H::flags() & flag != 0
}

/// A bit of the shadow OPN: at the end of the call there's more to do than to record it. The exit in `call.s` looks for it by
/// the sign.
pub const HAS_MORE: u64 = 1 << 31;

/// How a call ended, as the trace has it: it returned.
pub const RETURN: u64 = 0;
/// It ended by calling another function that returns to its caller.
pub const TAIL_CALL: u64 = 1;
/// It was left without a return.
pub const UNWOUND: u64 = 2;
