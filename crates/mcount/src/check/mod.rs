//! The verb `check` compares the hooks in the code with the table. There is a named rule for each way in
//! which they can disagree.
//!
//! `object` and `image` read the tables of both kinds of files, as [`JudgedTable`]s. [`Judge`] goes through
//! those. `sleds` looks at the compiler's list of sleds, which is no table of calls.

mod image;
mod judge;
mod object;
mod rule;
mod sleds;

pub use rule::{Level, Rule};

use crate::elf::{Verb, View};
use crate::error::Result;
use crate::options::{CheckOptions, Options};
use crate::scan::Target;
use crate::site::Kind;
use crate::sites::Known;
use judge::Judge;

/// One thing that is wrong with a table, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The name of the section with the hook, or of the table if an entry leads to no section. `None` if
    /// the finding is about the whole file.
    pub section: Option<String>,
    /// The place, in bytes from the start of the section.
    pub offset: Option<u64>,
    /// The address of the place, in an image.
    pub address: Option<u64>,
    /// The function there.
    pub symbol: Option<String>,
    /// How far the place is from the value of `symbol`, in bytes.
    pub symbol_offset: Option<i64>,
    /// The finding, in one line.
    pub detail: String,
}

/// [`crate::check()`], for each class and byte order.
pub(crate) struct Check<'o, 'd> {
    pub(crate) options: &'o Options,
    pub(crate) how: &'o CheckOptions,
    pub(crate) known: &'o mut Known<'d>,
}

impl<'d> Verb<'d> for Check<'_, 'd> {
    type Output = Vec<Finding>;

    fn run(self, view: &View<'d>) -> Result<Vec<Finding>> {
        let Self { options, how, known } = self;
        let target = Target::of(view)?;
        let functions = known.functions(&target)?;
        let mut found = known.sites(&target, options)?;
        found.retain(|site| site.kind != Some(Kind::Sled));
        let tables = if target.is_image {
            image::tables(&target, options, Some(known.bare(&target)))?
        } else {
            object::tables(&target, options)?
        };
        let others = sleds::flaws(&target)?;
        Ok(Judge::new(&target, &functions, how, &found).of(&tables, others))
    }
}

/// The index of a section, and bytes from its start.
type InSection = (u32, u64);

/// A rule that is broken at a place, and how.
type Flaw = (Rule, InSection, String);

/// A table of an object or of an image.
#[derive(Default)]
struct JudgedTable {
    /// It's the compiler's list of patchable entries, which has padding, too.
    is_list: bool,
    entries: Vec<JudgedEntry>,
    /// The flaws of the table as a whole.
    flaws: Vec<Flaw>,
}

/// One entry of a table.
struct JudgedEntry {
    /// Where the entry is.
    slot: InSection,
    /// Where it leads; `None` if that is in no section of this file.
    place: Option<InSection>,
    /// Where it would lead with its bytes reversed.
    reversed: Option<InSection>,
    /// The flaws of the way in which it leads there.
    flaws: Vec<(Rule, String)>,
}

/// `value`, of `word` bytes, with its bytes reversed.
fn reversed(value: u64, word: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "ELFCLASS32 keeps 32 bits")]
    let low = value as u32;
    if word == 8 { value.swap_bytes() } else { low.swap_bytes().into() }
}
