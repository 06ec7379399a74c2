//! The plain data that the library hands out: call sites, and what is known of each.

use std::sync::Arc;

/// The name of the section that holds the table, unless it is given another.
pub const TABLE_SECTION: &str = "__mcount_loc";

/// The name of the section in which the compiler lists the areas of `-fpatchable-function-entry`.
pub(crate) const PATCHABLE_SECTION: &str = "__patchable_function_entries";

/// What a call site consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A call of the hook symbol.
    Call,
    /// The NOP that such a call became.
    Nop,
    /// An area of NOPs from `-fpatchable-function-entry`.
    Patchable,
    /// The hook's address in a literal pool, from where the function loads it.
    Literal,
}

impl Kind {
    /// The name that machine output has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Nop => "nop",
            Self::Patchable => "patchable",
            Self::Literal => "literal",
        }
    }
}

/// What a site of an image is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// A relocation that the linker kept (`--emit-relocs`).
    Relocations,
    /// The instructions.
    Decoding,
    /// The compiler's list of patchable entries.
    PatchableEntries,
    /// The table of the image, which leads to NOPs as long as a call.
    Table,
}

impl Source {
    /// The name that machine output has for it.
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
    /// Index of the section that holds it; `None` for an entry that leads nowhere.
    pub section_index: Option<u32>,
    /// Name of that section.
    pub section: Option<Arc<str>>,
    /// The recorded address: bytes from the start of the section, also in an image.
    pub offset: Option<u64>,
    /// The recorded address in an image, as it is linked; `None` in an object. Of an entry that leads
    /// nowhere, its value.
    pub address: Option<u64>,
    /// The function that contains it.
    pub symbol: Option<Arc<str>>,
    /// The recorded address minus the value of `symbol`, in bytes; negative where an area of NOPs
    /// begins before the function.
    pub symbol_offset: Option<i64>,
    /// What it consists of; `None` for an entry that is no site.
    pub kind: Option<Kind>,
    /// The hook symbol that is called.
    pub hook: Option<Arc<str>>,
    /// Bytes, from the recorded address, that become NOPs or are NOPs.
    pub size: Option<u64>,
    /// It is in the table.
    pub recorded: bool,
    /// The section policy leaves it out of the table.
    pub excluded: bool,
    /// An entry at a place that no function covers, as that of a weak function that was overridden
    /// is. `false` where no symbols tell.
    pub stale: bool,
}

/// What a site, or an entry of a table, is in respect of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// In the table, as it should be.
    Recorded,
    /// In the table, though the section policy leaves it out.
    RecordedExcluded,
    /// Not in the table, by the section policy.
    Excluded,
    /// A site that the table doesn't have.
    Missing,
    /// An entry that leads into a function, and to no site.
    NotASite,
    /// An entry that no function covers.
    Stale,
    /// An entry that is zero: a function that was overridden had it.
    Dropped,
    /// An entry that leads to no section of the file.
    Nowhere,
}

impl Status {
    /// The name that output has for it.
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

/// The call sites, or the table entries, of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sites {
    /// Name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Big-endian data.
    pub big_endian: bool,
    /// It is linked: places have addresses.
    pub is_image: bool,
    /// These are the entries of a table, which need not lead to sites.
    pub is_table: bool,
    /// In section order, then offset order; in an image in order of address. Entries of a table are in
    /// its own order.
    pub sites: Vec<CallSite>,
}

impl Sites {
    /// What the site or entry `site`, which is one of these, is to the table.
    #[must_use]
    pub fn status(&self, site: &CallSite) -> Status {
        if self.is_table { site.entry_status(self.is_image) } else { site.site_status() }
    }
}
