//! The verbs `scan` and `read_table`: every site, or every entry of the tables, with its section,
//! function and kind.
//!
//! An object has relocations that say what is called ([`object`]); an image must be decoded
//! ([`image`]). What both come to is the same.

pub(crate) mod image;
pub(crate) mod object;

use crate::elf::{Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use crate::scan::functions::Functions;
use crate::site::{CallSite, Sites};
use ::object::read::elf::FileHeader;

/// [`crate::scan()`], for each class and byte order.
pub(crate) struct Scan<'o>(pub(crate) &'o Options);

/// [`crate::read_table`], for each class and byte order.
pub(crate) struct List<'o>(pub(crate) &'o Options);

impl<'d> Verb<'d> for Scan<'_> {
    type Output = Sites;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Sites> {
        let target = Target::of(view)?;
        let functions = Functions::new(&target)?;
        let find = if target.is_image { image::found } else { object::found };
        Ok(sites(&target, find(&target, &functions, self.0)?))
    }
}

impl<'d> Verb<'d> for List<'_> {
    type Output = Sites;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Sites> {
        let target = Target::of(view)?;
        let functions = Functions::new(&target)?;
        let find = if target.is_image { image::entries } else { object::entries };
        Ok(sites(&target, find(&target, &functions, self.0)?))
    }
}

fn sites<Elf: FileHeader>(target: &Target<'_, '_, Elf>, sites: Vec<CallSite>) -> Sites {
    Sites {
        machine: target.arch.name,
        bits: if target.view.is_64() { 64 } else { 32 },
        big_endian: target.view.is_big_endian(),
        is_image: target.is_image,
        sites,
    }
}

/// The sites of `target`, and the entries of its tables in their own order.
///
/// # Errors
///
/// As [`crate::scan()`] and [`crate::read_table`].
pub(crate) fn survey<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    functions: &Functions<'d>,
    options: &Options,
) -> Result<(Vec<CallSite>, Vec<CallSite>)> {
    let survey = if target.is_image { image::survey } else { object::survey };
    survey(target, functions, options)
}
