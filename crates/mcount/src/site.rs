//! The plain data that the library returns: call sites, and what is known about each.

use std::sync::Arc;

/// The usual name of the section that holds the table.
pub const TABLE_SECTION: &str = "__mcount_loc";

/// The name of the section in which the compiler lists the areas of `-fpatchable-function-entry`.
pub(crate) const PATCHABLE_SECTION: &str = "__patchable_function_entries";

/// The kind of a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A call of the hook symbol.
    Call,
    /// A NOP in place of such a call.
    Nop,
    /// An area of NOPs from `-fpatchable-function-entry`.
    Patchable,
    /// The hook's address in a literal pool, from which the function loads it.
    Literal,
    /// The sled at the entry of a function (`-fxray-instrument`): a jump over NOPs.
    Sled,
    /// The sled at a return, or at a tail call. It's an entry of the compiler's list, and no hook.
    ExitSled,
    /// The sled of an event that the source has the program write. It's an entry of the compiler's list, and no hook.
    EventSled,
}

impl Kind {
    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Nop => "nop",
            Self::Patchable => "patchable",
            Self::Literal => "literal",
            Self::Sled => "sled",
            Self::ExitSled => "exit-sled",
            Self::EventSled => "event-sled",
        }
    }
}

/// How a site of an image was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// By a relocation that the linker kept (`--emit-relocs`).
    Relocations,
    /// By decoding instructions.
    Decoding,
    /// By the compiler's list of patchable entries.
    PatchableEntries,
    /// By the table of the image, which leads to NOPs that are as long as a call.
    Table,
}

impl Source {
    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Relocations => "relocations",
            Self::Decoding => "decoding",
            Self::PatchableEntries => "patchable-entries",
            Self::Table => "table",
        }
    }
}

/// One hook in one function, or one entry of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSite {
    /// The index of its section; `None` for an entry that leads nowhere.
    pub section_index: Option<u32>,
    /// The name of that section.
    pub section: Option<Arc<str>>,
    /// The place that is recorded, in bytes from the start of the section. Images have it too.
    pub offset: Option<u64>,
    /// The address that is recorded, in an image; `None` in an object. For an entry that leads nowhere,
    /// its value.
    pub address: Option<u64>,
    /// The function that it is in.
    pub symbol: Option<Arc<str>>,
    /// How far it is from the value of `symbol`, in bytes. Negative if an area of NOPs begins before the
    /// function.
    pub symbol_offset: Option<i64>,
    /// Its kind; `None` for an entry that isn't a site.
    pub kind: Option<Kind>,
    /// The hook symbol that is called.
    pub hook: Option<Arc<str>>,
    /// How many bytes become NOPs, or are NOPs.
    pub size: Option<u64>,
    /// Whether it is in the table. Sleds are in their own (`xray_instr_map`).
    pub recorded: bool,
    /// Whether the policy excludes it from the table.
    pub excluded: bool,
    /// Whether no function covers its place. Weak functions that were overridden leave such entries.
    /// `false` if no symbols tell.
    pub stale: bool,
}

/// Whether a site is in the table, or whether an entry should be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// A site that is in the table, as it should be.
    Recorded,
    /// A site that is in the table, but the policy excludes it.
    RecordedExcluded,
    /// A site that isn't in the table, because the policy excludes it.
    Excluded,
    /// A site that isn't in the table, but should be.
    Missing,
    /// An entry that leads into a function, but not to a site.
    NotASite,
    /// An entry that leads to a place that no function covers.
    Stale,
    /// An entry that is zero, because its function was overridden or discarded.
    Dropped,
    /// An entry that leads to no section of the file.
    Nowhere,
}

impl Status {
    /// Its name in the output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::RecordedExcluded => "recorded, excluded",
            Self::Excluded => "excluded",
            Self::Missing => "missing",
            Self::NotASite => "not a site",
            Self::Stale => "stale",
            Self::Dropped => "dropped",
            Self::Nowhere => "nowhere",
        }
    }
}

impl CallSite {
    /// The status of a site that was found in code.
    fn site_status(&self) -> Status {
        match (self.recorded, self.excluded) {
            (true, false) => Status::Recorded,
            (true, true) => Status::RecordedExcluded,
            (false, true) => Status::Excluded,
            (false, false) => Status::Missing,
        }
    }

    /// The status of an entry of a table, which may lead to anything.
    fn entry_status(&self, is_image: bool) -> Status {
        match (self.section_index, self.address) {
            (None, Some(0)) if is_image => Status::Dropped,
            (None, _) => Status::Nowhere,
            _ if self.stale => Status::Stale,
            _ if self.kind.is_none() => Status::NotASite,
            _ => self.site_status(),
        }
    }
}

/// The call sites of a file, or the entries of its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sites {
    /// The name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Whether data is big-endian.
    pub big_endian: bool,
    /// Whether the file is linked, so that places have addresses.
    pub is_image: bool,
    /// Whether these are the entries of tables, which may lead to anything.
    pub is_table: bool,
    /// The sites in section order, then offset order; in an image, in order of address. Entries are in
    /// the order of the table.
    pub sites: Vec<CallSite>,
}

impl Sites {
    /// The state of `site`, one of these, in the table.
    #[must_use]
    pub fn status(&self, site: &CallSite) -> Status {
        if self.is_table { site.entry_status(self.is_image) } else { site.site_status() }
    }
}
