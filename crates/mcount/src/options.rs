//! The requests of a caller. [`Options`] say what the sites of a file are and which of them the table
//! should have, so they matter to every question about the file. What matters to one question only has
//! a type of its own.

use crate::helpers::Helpers;
use crate::policy::Policy;
use crate::setters::setters;
use crate::site::TABLE_SECTION;
use std::borrow::Cow;

/// The definition of a file's sites, and of those that its table should have.
///
/// ```
/// use mcount::{Base, Options, Policy};
/// let options = Options::default().policy(Policy::of(Base::All)).nops(true);
/// assert_eq!(options.table_section, "__mcount_loc");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Which sections and functions are recorded.
    pub policy: Policy,
    /// Hook symbols besides those of the processor (`-mfentry-name=`).
    pub hooks: Vec<String>,
    /// Whether the NOPs that a compiler (`-mnop-mcount`) or another tool left in place of calls are sites
    /// even if no table leads to them. Those of another tool have a relocation of type `R_*_NONE` that
    /// still names the hook.
    pub nops: bool,
    /// The name of the section that holds the table.
    pub table_section: String,
    /// Threads that share the work on a large image.
    pub helpers: Helpers,
}

setters!(Options {
    policy: Policy,
    hooks: Vec<String>,
    nops: bool,
    table_section: String,
    helpers: Helpers,
});

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            hooks: Vec::new(),
            nops: false,
            table_section: TABLE_SECTION.to_owned(),
            helpers: Helpers::default(),
        }
    }
}

impl From<Options> for Cow<'_, Options> {
    fn from(options: Options) -> Self {
        Cow::Owned(options)
    }
}

impl<'o> From<&'o Options> for Cow<'o, Options> {
    fn from(options: &'o Options) -> Self {
        Cow::Borrowed(options)
    }
}

/// How [`crate::record()`] makes the table.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct RecordOptions {
    /// Whether the table is loaded writable. Position-independent programs then need relative relocations
    /// for it, and no text relocations.
    pub writable: bool,
    /// Whether there is a table section for each section of code, linked to it (`SHF_LINK_ORDER`).
    /// Garbage collection then keeps exactly the entries of live functions.
    pub link_order: bool,
    /// Whether recorded calls become NOPs, which is the first thing that a tracer would do.
    pub nop_all: bool,
    /// Whether an object that has a table is left alone, even if the table is wrong.
    pub keep_existing_table: bool,
    /// Whether the compiler's list of patchable entries is split, a list for each section of code, if a
    /// linker would refuse or spoil it as it is. g++ up to version 12 writes such lists.
    pub split_lists: bool,
}

setters!(RecordOptions {
    writable: bool,
    link_order: bool,
    nop_all: bool,
    keep_existing_table: bool,
    split_lists: bool,
});

/// What [`crate::check()`] expects of a table.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// How many bytes of NOPs a tracer needs in a patchable area; `None` for as many as a call has.
    pub min_area: Option<u64>,
}

setters!(CheckOptions { min_area: Option<u64> });

/// What [`crate::late_table`] says about each site.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LateOptions {
    /// Whether to say which function each site is in, and which hook it calls. It is faster without.
    pub names: bool,
}

setters!(LateOptions { names: bool });

impl Default for LateOptions {
    fn default() -> Self {
        Self { names: true }
    }
}

/// What [`crate::sort_table`] does besides sorting.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SortOptions {
    /// Whether entries that no function covers become zero and lose their relocations.
    pub drop_stale: bool,
}

setters!(SortOptions { drop_stale: bool });
