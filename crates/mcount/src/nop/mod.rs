//! The verb `nop` turns recorded calls of the hook into NOPs, which is the first thing that a tracer
//! would do. The table stays.
//!
//! An object is changed by appending ([`object`]), and an image in place ([`image`]). Both report the
//! same.

mod image;
mod object;

pub(crate) use object::make;

use crate::elf::dynamic::Write;
use crate::elf::edit::Change;
use crate::elf::{Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::scan::functions::FunctionIndex;
use crate::scan::is_image;

/// Chooses functions by their names. The name is empty for a call that is in no function.
pub type Select<'a> = &'a dyn Fn(&[u8]) -> bool;

/// What [`crate::make_nops`] found, and what to write.
///
/// If you want all calls to become NOPs, don't apply `change` unless `without_nop` is empty and
/// `unjoined` is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nops {
    /// What to write.
    pub change: NopChange,
    /// How many calls became NOPs, plus how many areas of short NOPs became long ones.
    pub made: usize,
    /// The functions of recorded calls whose form has no NOP. A name is empty if no symbol tells.
    pub without_nop: Vec<String>,
    /// How many areas of short NOPs stay as they are, because no symbol says where their function begins.
    pub unjoined: usize,
    /// How many calls aren't in the table. They stay as they are.
    pub unrecorded: usize,
    /// How many entries of the table lead to code that is neither a call nor a NOP.
    pub strays: usize,
}

impl Nops {
    fn nothing(change: NopChange) -> Self {
        let without_nop = Vec::new();
        Self { change, made: 0, without_nop, unjoined: 0, unrecorded: 0, strays: 0 }
    }
}

/// How a file is changed: an object by appending, an image in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NopChange {
    /// What to append; `None` if there is nothing to do.
    Object(Option<Change>),
    /// Bytes to write, at offsets in the file.
    Image(Vec<Write>),
}

/// [`crate::make_nops`], for each class and byte order.
pub(crate) struct MakeNops<'o> {
    pub(crate) options: &'o Options,
    pub(crate) select: Select<'o>,
}

impl<'d> Verb<'d> for MakeNops<'_> {
    type Output = Nops;

    fn run(self, view: &View<'d>) -> Result<Nops> {
        if is_image(view) {
            image::nops(view, self.options, self.select)
        } else {
            object::nops(view, self.options, self.select)
        }
    }
}

/// The functions whose calls become NOPs.
struct Selected<'f, 'd> {
    functions: &'f FunctionIndex<'d>,
    select: Select<'f>,
}

impl<'d> Selected<'_, 'd> {
    /// The name of the function at a place. Empty if no symbol tells.
    fn name(&self, (section, offset): (u32, u64)) -> &'d [u8] {
        self.functions.find(section, offset, 0).map(|(name, _)| name).unwrap_or_default()
    }

    /// Whether the call at a place becomes a NOP.
    fn has(&self, place: (u32, u64)) -> bool {
        (self.select)(self.name(place))
    }

    /// The name of the function at a place, as text.
    fn text(&self, place: (u32, u64)) -> String {
        crate::names::lossy(self.name(place)).into_owned()
    }
}
