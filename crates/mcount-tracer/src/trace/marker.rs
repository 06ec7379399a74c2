//! A marker's *unit*: what runs in the place of the marker's NOP and of the instructions behind it.
//!
//! A unit is in the agent, as those of probes are:
//!
//! ```text
//!  0: jmp 2                  the switch: or to 20, where nothing is recorded
//!  2: lea -128(%rsp), %rsp   the function may have something there
//!  7: call mcount_marker     keeps all registers and the flags
//! 12: lea 128(%rsp), %rsp
//! 20: the instructions, and a jump back
//! ```
//!
//! If the instructions refer to what's near them and that's too far from the agent, they're in room near their module, and a jump
//! to there is in the unit.

use super::processor::{self, THUNK};
use mcount_hooks::usdt::Argument;
use std::ops::Range;

/// What is known of a marker besides where it is.
#[derive(Debug, Clone)]
pub(super) struct Marker {
    pub(super) arguments: Vec<Argument>,
    /// The words that copy each of them; none for one that isn't understood.
    pub(super) words: Vec<Vec<u64>>,
    pub(super) semaphore: Option<u64>,
}

/// Bytes of a unit before the instructions, and where the stack pointer is lower, from the end of the first `lea` to that of the second.
pub(super) const HEAD: usize = 20;
pub(super) const LOWERED: Range<usize> = 7..HEAD;
/// How much lower.
pub(super) const RED_ZONE: i64 = 128;
/// Where the switch is, and what's there when it's on and when it's off.
const SWITCH: (u64, u8, u8) = (1, 0, 18);

/// What a unit at `at` begins with, if `routine` is in reach.
pub(super) fn head(at: u64, routine: u64) -> Option<Vec<u8>> {
    let call = i32::try_from(routine.wrapping_sub(at + 12).cast_signed()).ok()?.to_le_bytes();
    let lower = [0x48, 0x8d, 0x64, 0x24, 0x80];
    let raise = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
    Some([&[0xeb, SWITCH.1], &lower[..], &[0xe8], &call, &raise].concat())
}

/// Where a unit at `at` is switched; what is there when it's on, and when it's off.
pub(super) fn switch(at: u64) -> (u64, [u8; 1], [u8; 1]) {
    let (offset, on, off) = SWITCH;
    (at + offset, [on], [off])
}

/// A jump to `target`, which is anywhere.
pub(super) fn far(target: u64) -> [u8; THUNK] {
    processor::thunk(target)
}
