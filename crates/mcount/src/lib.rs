//! Finds the places where a compiler left a hook for function tracing, and keeps the table of
//! those places right.
//!
//! A hook is a call of a *hook symbol* (`mcount`, `_mcount`, `__fentry__`, `__gnu_mcount_nc`; from
//! `-pg` and `-mfentry`), the NOP that such a call becomes, or an area of NOPs
//! (`-fpatchable-function-entry`). The table, `__mcount_loc`, has the address of each.
//!
//! The library takes bytes and returns plain data. It opens no file, prints nothing and starts no
//! thread; whatever the bytes are, it neither panics nor reads outside them.
//!
//! Each verb is a function of the bytes of a file and of [`Options`]. What is to be written is handed
//! out as data ([`Change`], [`Write`]) and is for the caller to write.
//!
//! ```
//! # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
//! # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
//! let options = mcount::Options::default();
//! let recording = mcount::record(&object, &options)?;
//! assert_eq!(recording.recorded, 8);
//! // The new object; none if the old one is right already.
//! let object = match recording.change {
//!     Some(change) => change.apply(&object),
//!     None => object,
//! };
//!
//! let table = mcount::read_table(&object, &options)?;
//! let first = &table.sites[0];
//! assert_eq!((first.section.as_deref(), first.offset), (Some(".text"), Some(0)));
//! assert_eq!(first.symbol.as_deref(), Some("sample_static"));
//!
//! let error = mcount::scan(b"no object", &options).unwrap_err();
//! assert_eq!(error.to_string(), "not an ELF file");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod arch;
mod check;
mod coverage;
mod diff;
mod elf;
mod error;
mod file;
mod functions;
mod helpers;
mod late;
mod names;
mod nop;
mod options;
mod policy;
mod record;
mod scan;
mod separate;
mod site;
mod sites;
mod sort;
mod table;
mod words;

pub use arch::{Arithmetic, Step};
pub use check::{Finding, Level, Rule};
pub use coverage::{Coverage, Gap, coverage};
pub use diff::{Difference, Instance, State, diff};
pub use elf::dynamic::Write;
pub use elf::edit::Change;
pub use error::{Error, ErrorKind, Result, SectionId};
pub use file::File;
pub use functions::{Binding, Exclusion, Function, Functions};
pub use globset::{Error as GlobError, Glob, GlobSet, GlobSetBuilder};
pub use helpers::Helpers;
pub use late::{Anchor, Fill, LateTable, ObjectOptions, fill, table_object};
pub use names::{is_cold_part, source_name};
pub use nop::{NopChange, Nops, Select};
pub use options::Options;
pub use policy::{Base, Policy, Treatment};
pub use record::{ExcludedSection, Recording};
pub use site::{CallSite, Kind, Sites, Source, Status, TABLE_SECTION};
pub use sort::{Named, Sorted};

/// Finds the call sites of `file`, an object or an image.
///
/// # Errors
///
/// [`Error`] where `file` is no ELF file of a known processor, or is malformed.
pub fn scan(file: &[u8], options: &Options) -> Result<Sites> {
    elf::open(file, sites::Scan(options, &mut sites::Known::default()))
}

/// Reads the tables of `file`, an object or an image: `__mcount_loc` and
/// `__patchable_function_entries`.
///
/// # Errors
///
/// As [`scan()`].
pub fn read_table(file: &[u8], options: &Options) -> Result<Sites> {
    elf::open(file, sites::List(options, &mut sites::Known::default()))
}

/// Every function of `file`, an object or an image, with its sites, and the table.
///
/// # Errors
///
/// As [`scan()`].
pub fn functions(file: &[u8], options: &Options) -> Result<Functions> {
    elf::open(file, functions::Survey(options, &mut sites::Known::default()))
}

/// Compares the table of `file`, an object or an image, whoever made it, with the hooks that are
/// there: what is wrong, in the order of the entries, then by place.
///
/// # Errors
///
/// As [`scan()`].
pub fn check(file: &[u8], options: &Options) -> Result<Vec<Finding>> {
    elf::open(file, check::Check(options, &mut sites::Known::default()))
}

/// Finds the call sites of `object` and says what to write so that it has the right table.
///
/// # Errors
///
/// As [`scan()`], and for an image; also where the new object would not fit into its class.
pub fn record(object: &[u8], options: &Options) -> Result<Recording> {
    elf::open(object, record::Record(options))
}

/// Finds the sites of the linked `image`: the table that it should have.
///
/// # Errors
///
/// [`Error`] where `image` is no ELF image of a known processor, or is malformed.
pub fn late_table(image: &[u8], options: &Options) -> Result<LateTable> {
    elf::open(image, late::Late(options))
}

/// Sorts the table of the linked `image`; with `drop_stale`, the entries that no function covers
/// become zero and lose their relocations.
///
/// # Errors
///
/// As [`late_table`]; also where `image` has no table, or one that is relocated in a way that cannot be
/// moved.
pub fn sort_table(image: &[u8], options: &Options, drop_stale: bool) -> Result<Sorted> {
    elf::open(image, sort::Sort { options, drop_stale })
}

/// Turns the recorded calls of `file`, an object or an image, into the processor's NOPs, in the
/// functions that `select` takes; areas of short NOPs become long ones. The table is kept.
///
/// # Errors
///
/// As [`scan()`] or [`late_table`].
pub fn make_nops(file: &[u8], options: &Options, select: Select<'_>) -> Result<Nops> {
    elf::open(file, nop::MakeNops { options, select })
}

/// An empty table for a link of objects such as `object`: [`LateTable::reserve`] makes room in it.
///
/// # Errors
///
/// As [`scan()`]; an image is none.
pub fn placeholder(object: &[u8]) -> Result<LateTable> {
    elf::open(object, late::Reserve)
}

/// The stripped `image` with the symbols of `debug`, its separate debug file; `None` if `image` has
/// symbols or `debug` has none for it. That they belong together is for the caller to know.
///
/// # Errors
///
/// One of them is no ELF file, or malformed.
pub fn with_symbols(image: &[u8], debug: &[u8]) -> Result<Option<Vec<u8>>> {
    elf::open(image, separate::WithSymbols(debug))
}

/// How relocations of debug sections differ from "store symbol plus addend" on the processor
/// `machine` (`e_machine`): those that compute, and whether all others take the addend from the
/// section, whatever field the relocation has for it.
#[must_use]
pub fn debug_relocations(machine: u16) -> (&'static [Arithmetic], bool) {
    arch::of_debug(machine)
}

/// The names of all supported processors.
pub fn machines() -> impl Iterator<Item = &'static str> {
    arch::ALL.iter().map(|arch| arch.name)
}
