//! Where in its function a hook is executed, and what room is before it.

use super::functions::{Function, Functions};
use super::processor::{self, SITE, nop_length};
use mcount::{CallSite, Kind, Options};
use mcount_hooks::code::{self, Code};
use std::collections::HashSet;
use std::io;

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

/// Where the NOPs are that compilers list. `None`: there are no others where functions begin.
pub(super) struct Listed(Option<HashSet<u64>>);

impl Listed {
    /// Those of a file.
    ///
    /// # Errors
    ///
    /// Its tables can't be read.
    pub(super) fn of(bytes: &[u8], options: &Options) -> io::Result<Self> {
        if !processor::HAS_OTHER_NOPS {
            return Ok(Self(None));
        }
        let table = mcount::read_table(bytes, options).map_err(io::Error::other)?;
        Ok(Self(Some(table.sites.iter().filter_map(|site| site.address).collect())))
    }

    /// Is this site a hook, and not what a linker has made a NOP?
    pub(super) fn is_hook(&self, site: &CallSite) -> bool {
        let is_listed = |all: &HashSet<u64>| site.address.is_some_and(|at| all.contains(&at));
        site.kind != Some(Kind::Patchable) || self.0.as_ref().is_none_or(is_listed)
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
