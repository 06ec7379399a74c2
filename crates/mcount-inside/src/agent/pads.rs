//! Calls whose slot another frame has, too: a library doesn't tell them apart yet, as the agent does (`pads.rs` there).

/// Slots that several frames have aren't told apart: the later frame takes the shadow.
pub(super) const HAS_PADS: bool = false;
pub(super) const OF_PAD: u64 = 0;

/// The caller's address of a frame that returns to a pad: there are none.
pub(super) fn caller_of(_: u64) -> Option<u64> {
    None
}

/// Have frames come back in this process? Nobody notices.
pub(super) fn is_proven() -> bool {
    false
}

/// Nothing is known of frames that aren't on the stack.
pub(super) unsafe fn claim(_slot: u64, _address: u64) {}

/// There's no word of limits.
pub(super) unsafe fn nest(_slot: u64) -> u64 {
    0
}

/// There's no pad.
pub(super) unsafe fn displace(
    _slot: u64,
    _caller: u64,
    _nest: u64,
    _is_recorded: bool,
) -> Option<u64> {
    None
}

/// There's no pad to return to.
pub(super) unsafe fn return_to(_slot: *mut u64, _pad: u64) {}
