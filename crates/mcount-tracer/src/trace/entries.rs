//! Where in its function a hook is executed, and what room is before it.

use super::functions::{Function, Functions};
use super::processor::{self, SITE, nop_length};
use mcount::CallSite;
use mcount_hooks::code::{self, Code};

/// Where a hook is executed.
pub(super) struct HookEntry {
    pub(super) entry: u64,
    pub(super) function: Function,
    /// A symbol says which function it is.
    pub(super) is_named: bool,
}

impl HookEntry {
    /// That of the site whose entry in the table is `recorded`. `None`: the beginning of its function is
    /// unknown.
    pub(super) fn of(
        site: &CallSite,
        recorded: u64,
        code: &Code<'_>,
        functions: &Functions<'_, '_>,
    ) -> Option<Self> {
        let entry = code::entry_of(site, recorded);
        if let Some(function) = functions.at(entry) {
            return Some(Self { entry, function, is_named: true });
        }
        if let Some(function) = functions.without_symbol(recorded) {
            return Some(Self { entry: recorded, function, is_named: false });
        }
        let function = functions.next_without_symbol(recorded)?;
        let start = function.address;
        let entry = processor::entry_of(start, code.at(start));
        are_nops(code, recorded, start).then_some(Self { entry, function, is_named: false })
    }
}

/// Is there nothing but NOPs from `start` to `end`, and the start of an instruction at both?
fn are_nops(code: &Code<'_>, start: u64, end: u64) -> bool {
    let mut at = start;
    while at < end {
        let Some(length) = nop_length(code.at(at)) else { return false };
        at += length as u64;
    }
    at == end
}

/// Where a jump fits that ends where the function begins: the area has only NOPs from `start` to `entry`.
pub(super) fn room_before(code: &Code<'_>, start: u64, entry: u64) -> Option<u64> {
    (are_nops(code, start, entry) && entry - start >= SITE as u64).then(|| entry - SITE as u64)
}
