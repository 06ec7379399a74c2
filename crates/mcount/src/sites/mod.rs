//! The verbs `scan` and `read_table` list every site, or every entry of the tables, with its section,
//! function and kind.
//!
//! In an object, relocations say what is called (`object`). An image must be decoded (`image`). The
//! results are the same. Both have the compiler's list of sleds (`sleds`).

pub(crate) mod image;
mod known;
mod object;
mod sleds;

pub(crate) use self::known::Known;

use crate::elf::{Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use crate::site::{CallSite, Sites};

/// [`crate::scan()`], for each class and byte order.
pub(crate) struct Scan<'o, 'd>(pub(crate) &'o Options, pub(crate) &'o mut Known<'d>);

/// [`crate::read_table`], for each class and byte order.
pub(crate) struct List<'o, 'd>(pub(crate) &'o Options, pub(crate) &'o mut Known<'d>);

impl<'d> Verb<'d> for Scan<'_, 'd> {
    type Output = Sites;

    fn run(self, view: &View<'d>) -> Result<Sites> {
        let target = Target::of(view)?;
        let found = self.1.sites(&target, self.0)?;
        Ok(sites(&target, found, false))
    }
}

impl<'d> Verb<'d> for List<'_, 'd> {
    type Output = Sites;

    fn run(self, view: &View<'d>) -> Result<Sites> {
        let target = Target::of(view)?;
        // For an object, `entries` finds the sites itself.
        let found = if target.is_image { self.1.sites(&target, self.0)? } else { Vec::new() };
        let entries = self.1.entries(&target, self.0, &found)?;
        Ok(sites(&target, entries, true))
    }
}

fn sites(target: &Target<'_, '_>, sites: Vec<CallSite>, is_table: bool) -> Sites {
    Sites {
        machine: target.arch.name,
        bits: if target.view.is_64() { 64 } else { 32 },
        big_endian: target.view.is_big_endian(),
        is_image: target.is_image,
        is_table,
        sites,
    }
}
