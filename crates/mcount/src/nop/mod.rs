//! The verb `nop`: recorded calls of the hook become instructions that do nothing, as a tracer would
//! make them first. The table is kept.
//!
//! An object is changed by appending ([`object`]), an image in its place ([`image`]). Both say the
//! same of what they find.

mod image;
mod object;

pub(crate) use object::make;

use crate::elf::dynamic::Write;
use crate::elf::edit::Change;
use crate::elf::{Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::scan::functions::Functions;
use crate::scan::is_image;
use ::object::read::elf::FileHeader;

/// Whether a function is one of those, by its name; empty for a call that is in no function.
pub type Select<'a> = &'a dyn Fn(&[u8]) -> bool;

/// What turning calls into NOPs comes to.
///
/// A caller that wants all calls gone should not apply `change` if `without_nop` or `unjoined` says
/// that some would stay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nops {
    /// What to write.
    pub change: NopChange,
    /// Sites that became NOPs, or one NOP of several.
    pub made: usize,
    /// The functions of recorded calls whose form has no NOP; empty names where no symbol tells.
    pub without_nop: Vec<String>,
    /// Areas of short NOPs that stay as they are, because no symbol says where their function begins.
    pub unjoined: usize,
    /// Calls that the table does not have; they are left alone.
    pub unrecorded: usize,
    /// Entries of the table that lead to code, and there to neither a call nor a NOP.
    pub strays: usize,
}

impl Nops {
    fn nothing(change: NopChange) -> Self {
        let without_nop = Vec::new();
        Self { change, made: 0, without_nop, unjoined: 0, unrecorded: 0, strays: 0 }
    }
}

/// How a file is changed: an object by appending, an image in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NopChange {
    /// `None` if there is nothing to do.
    Object(Option<Change>),
    /// Bytes at offsets of the file.
    Image(Vec<Write>),
}

/// [`crate::make_nops`], for each class and byte order.
pub(crate) struct MakeNops<'o> {
    pub(crate) options: &'o Options,
    pub(crate) select: Select<'o>,
}

impl<'d> Verb<'d> for MakeNops<'_> {
    type Output = Nops;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Nops> {
        if is_image(view) {
            image::nops(view, self.options, self.select)
        } else {
            object::nops(view, self.options, self.select)
        }
    }
}

/// The functions whose calls become NOPs.
struct Selected<'f, 'd> {
    functions: &'f Functions<'d>,
    select: Select<'f>,
}

impl<'d> Selected<'_, 'd> {
    /// The name of the function at a place; empty if no symbol tells.
    fn name(&self, (section, offset): (u32, u64)) -> &'d [u8] {
        self.functions.find(section, offset, 0).map(|(name, _)| name).unwrap_or_default()
    }

    fn has(&self, place: (u32, u64)) -> bool {
        (self.select)(self.name(place))
    }

    /// The name of the function at a place, as text.
    fn text(&self, place: (u32, u64)) -> String {
        String::from_utf8_lossy(self.name(place)).into_owned()
    }
}
