//! What a caller can ask of the verbs.
//!
//! Its own file, at the bottom, because every verb knows it and it knows none of them.

use crate::helpers::Helpers;
use crate::policy::Policy;
use crate::site::TABLE_SECTION;

/// What the verbs of this library are to do. A verb passes over what does not concern it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Options {
    /// Which sections and functions are recorded.
    pub policy: Policy,
    /// Hook symbols besides those of the processor (`-mfentry-name=`).
    pub hooks: Vec<String>,
    /// NOPs that the compiler (`-mnop-mcount`) or another tool left in place of calls are sites, table or
    /// not. Of another tool's, the relocation tells: an `R_*_NONE` that still names the hook.
    pub nops: bool,
    /// The name of the section that holds the table.
    pub table_section: String,
    /// [`crate::record()`]: the table is loaded writable, so that a position-independent program gets
    /// relative relocations for it and not text relocations.
    pub writable: bool,
    /// [`crate::record()`]: one table section for each section of code, ordered by it (`SHF_LINK_ORDER`),
    /// so that garbage collection keeps exactly the entries of live functions.
    pub link_order: bool,
    /// [`crate::record()`]: recorded calls become NOPs: what the tracer would do first.
    pub nop_all: bool,
    /// [`crate::check()`]: bytes of NOPs that a tracer needs; those of a call unless it is given.
    pub min_area: Option<u64>,
    /// [`crate::record()`]: an object that has a table is left alone, whatever is in it.
    pub keep_existing_table: bool,
    /// [`crate::late_table`] says which function each site is of, and which hook it calls; without, it is
    /// faster.
    pub names: bool,
    /// Threads that share the work on one image.
    pub helpers: Helpers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            hooks: Vec::new(),
            nops: false,
            table_section: TABLE_SECTION.to_owned(),
            writable: false,
            link_order: false,
            nop_all: false,
            min_area: None,
            keep_existing_table: false,
            names: true,
            helpers: Helpers::default(),
        }
    }
}
