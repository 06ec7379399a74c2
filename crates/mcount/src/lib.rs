//! Finds function-tracing call sites in ELF files and keeps `__mcount_loc` correct.
//!
//! For tracing, a compiler leaves a *hook* at the start of each function: a call to a *hook symbol*
//! (`mcount`, `_mcount`, `__fentry__`, `__gnu_mcount_nc`; from `-pg` and `-mfentry`), or an area of NOPs
//! (`-fpatchable-function-entry`). A tracer finds the hooks through a table of their addresses,
//! `__mcount_loc`. This library finds hooks, and makes, reads, checks and sorts tables.
//!
//! It takes bytes and returns plain data. It opens no files, prints nothing and starts no threads. No
//! input makes it panic or read outside the bytes.
//!
//! # Where to start
//!
//! Open a file with [`File::parse`] and ask it: [`File::sites`], [`File::table`], [`File::check`]. For a
//! single question there is a function that does both, such as [`scan()`]. Everything that changes a file
//! returns the bytes to write ([`Change`], [`Write`]), and you write them.
//!
//! | question | one file, many questions | one question |
//! |---|---|---|
//! | Which call sites are there? | [`File::sites`] | [`scan()`] |
//! | What is in the table? | [`File::table`] | [`read_table`] |
//! | Which functions have a site? | [`File::functions`] | [`functions()`], [`coverage()`], [`diff()`] |
//! | Is the table right? | [`File::check`] | [`check()`] |
//! | What would the right table be, in this object? | [`File::record`] | [`record()`] |
//! | And in this image? | [`File::late_table`] | [`late_table`], [`table_object`], [`fill`] |
//! | Can the table be sorted? | [`File::sort`] | [`sort_table`] |
//! | Can recorded calls be NOPs? | [`File::make_nops`] | [`make_nops`] |
//!
//! ```
//! # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
//! # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
//! use mcount::{Options, RecordOptions};
//!
//! let options = Options::default();
//! let recording = mcount::record(&object, &options, &RecordOptions::default())?;
//! assert_eq!(recording.recorded, 8);
//! // There is no change if the object has the right table already.
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
//!
//! # Versions
//!
//! Types that may grow are `#[non_exhaustive]`. Options are set one by one, as in
//! `RecordOptions::default().writable(true)`. `tests/public-api.txt` lists all public items.
#![forbid(unsafe_code)]

mod arch;
mod check;
mod coverage;
#[cfg(feature = "demangle")]
mod demangle;
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
mod pattern;
mod policy;
mod record;
mod scan;
mod separate;
mod setters;
mod site;
mod sites;
mod sort;
mod table;
mod words;

pub use arch::{Arithmetic, Step};
pub use check::{Finding, Level, Rule};
pub use coverage::{Coverage, Gap, coverage};
#[cfg(feature = "demangle")]
pub use demangle::demangled;
pub use diff::{Difference, Instance, State, diff};
pub use elf::dynamic::Write;
pub use elf::edit::Change;
pub use error::{Error, ErrorKind, Result, SectionId};
pub use file::File;
pub use functions::{Binding, Exclusion, Function, Functions};
pub use globset::{Error as GlobError, Glob, GlobSet, GlobSetBuilder};
pub use helpers::Helpers;
pub use late::{Anchor, Fill, LateTable, ObjectOptions, table_object};
pub use names::{is_cold_part, simple_name, source_name, spellings, without_arguments};
pub use nop::{NopChange, Nops, Select};
pub use options::{CheckOptions, LateOptions, Options, RecordOptions, SortOptions};
pub use pattern::{FunctionPattern, PatternError};
pub use policy::{Base, Policy, Treatment};
pub use record::{ExcludedSection, Recording};
pub use site::{CallSite, Kind, Sites, Source, Status, TABLE_SECTION};
pub use sort::{Named, Sorted};

/// Finds the call sites of an object or an image.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// let sites = mcount::scan(&object, &mcount::Options::default())?;
/// for site in &sites.sites {
///     println!("{:?}+{:#x}: {:?}", site.section, site.offset.unwrap_or(0), sites.status(site));
/// }
/// assert_eq!(sites.sites.len(), 9);
/// assert_eq!(sites.sites[0].hook.as_deref(), Some("__fentry__"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// `file` is no ELF object or image of a known processor, or it is malformed.
pub fn scan(file: &[u8], options: &Options) -> Result<Sites> {
    elf::open(file, sites::Scan(options, &mut sites::Known::default()))
}

/// Reads the tables of an object or an image: `__mcount_loc` and `__patchable_function_entries`.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::Status;
/// let table = mcount::read_table(&image, &mcount::Options::default())?;
/// let rows: Vec<_> = table.sites.iter().map(|entry| (entry.address, table.status(entry))).collect();
/// let recorded = |address| (Some(address), Status::Recorded);
/// assert_eq!(rows, [recorded(0x1020), recorded(0x1010), (Some(0x1040), Status::Stale)]);
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan()`].
pub fn read_table(file: &[u8], options: &Options) -> Result<Sites> {
    elf::open(file, sites::List(options, &mut sites::Known::default()))
}

/// Lists every function of an object or an image with its sites, and the table.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// let functions = mcount::functions(&image, &mcount::Options::default())?;
/// let names: Vec<_> = functions.functions.iter().map(|f| (f.name.as_str(), f.is_recorded())).collect();
/// assert_eq!(names, [("__fentry__", false), ("run", true), ("_start", true)]);
/// // Why has a function no hook?
/// assert_eq!(mcount::coverage(&functions).without_site(), 1);
/// // What changed between two builds?
/// assert!(mcount::diff(&functions, &functions, false).is_empty());
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan()`].
pub fn functions(file: &[u8], options: &Options) -> Result<Functions> {
    elf::open(file, functions::Survey(options, &mut sites::Known::default()))
}

/// Compares the table of an object or an image, whichever tool made it, with the hooks in the code.
/// Returns what is wrong: first by entry, then by place.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// let findings = mcount::check(&image, &Default::default(), &Default::default())?;
/// let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
/// assert_eq!(rules, ["unsorted", "stale-entry"]);
/// assert_eq!(findings[1].address, Some(0x1040));
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan()`].
pub fn check(file: &[u8], options: &Options, how: &CheckOptions) -> Result<Vec<Finding>> {
    let known = &mut sites::Known::default();
    elf::open(file, check::Check { options, how, known })
}

/// Finds the call sites of an object, and says what to write so that it has the right table.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// use mcount::{Base, Options, Policy, RecordOptions};
/// // As for a user program: record all sections of code, in a table that is loaded writable.
/// let options = Options::default().policy(Policy::of(Base::All));
/// let how = RecordOptions::default().writable(true);
///
/// let recording = mcount::record(&object, &options, &how)?;
/// assert_eq!(recording.recorded, 9);
/// let object = recording.change.expect("there was no table").apply(&object);
/// // Recording twice is recording once.
/// assert!(!mcount::record(&object, &options, &how)?.changed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`scan()`]. Also if `object` is an image, or if the new object would be too large for its class.
pub fn record(object: &[u8], options: &Options, how: &RecordOptions) -> Result<Recording> {
    elf::open(object, record::Record { options, how })
}

/// Finds the sites of a linked image, which are the table that it should have.
///
/// The table gets into the image by another link, with an object that carries it.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::{LateOptions, ObjectOptions, Options};
/// let table = mcount::late_table(&image, &Options::default(), &LateOptions::default())?;
/// assert_eq!(table.addresses().collect::<Vec<_>>(), [0x1010, 0x1020]);
///
/// // This object, linked in, gives the image its table.
/// let object = mcount::table_object(&table, &ObjectOptions::default().writable(true))?;
/// assert_eq!(mcount::read_table(&object, &Options::default())?.sites.len(), 2);
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan()`]. Also if `image` is an object.
pub fn late_table(image: &[u8], options: &Options, how: &LateOptions) -> Result<LateTable> {
    let known = &mut sites::Known::default();
    elf::open(image, late::Late { options, how, known })
}

/// Says what to write so that the table of a linked image is `table`. That saves a link if the table has
/// the right size already.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::{Fill, Options};
/// let options = Options::default();
/// let mut table = mcount::late_table(&image, &options, &Default::default())?;
/// assert_eq!(mcount::fill(&image, &table, &options)?, Fill::Impossible { room: 3 });
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// `image` is no ELF image of a known processor, or it is malformed.
pub fn fill(image: &[u8], table: &LateTable, options: &Options) -> Result<Fill> {
    elf::open(image, late::Filler { options, table })
}

/// Says what to write so that the table of a linked image is sorted.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::{Options, SortOptions};
/// let options = Options::default();
/// let sorted = mcount::sort_table(&image, &options, &SortOptions::default().drop_stale(true))?;
/// assert_eq!((sorted.entries, sorted.stale), (3, vec![0x1040]));
///
/// let mut image = image;
/// for (offset, bytes) in sorted.writes {
///     let start = offset as usize;
///     image[start..start + bytes.len()].copy_from_slice(&bytes);
/// }
/// let table = mcount::read_table(&image, &options)?;
/// let addresses: Vec<_> = table.sites.iter().filter_map(|entry| entry.address).collect();
/// assert_eq!(addresses, [0, 0x1010, 0x1020]);
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`late_table`]. Also if `image` has no table, or if the loader relocates the table in a way that
/// can't be changed.
pub fn sort_table(image: &[u8], options: &Options, how: &SortOptions) -> Result<Sorted> {
    elf::open(image, sort::Sort { options, how })
}

/// Says what to write so that recorded calls of an object or an image become NOPs, in the functions that
/// `select` chooses. Areas of short NOPs become long ones. The table stays.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::{NopChange, Options};
/// let nops = mcount::make_nops(&image, &Options::default(), &|function| function != b"run")?;
/// assert_eq!((nops.made, nops.without_nop.len()), (1, 0));
/// let NopChange::Image(writes) = nops.change else { unreachable!("an image is changed in place") };
/// assert_eq!(writes[0].1, [0x0f, 0x1f, 0x44, 0, 0]);
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan()`].
pub fn make_nops(file: &[u8], options: &Options, select: Select<'_>) -> Result<Nops> {
    elf::open(file, nop::MakeNops { options, select })
}

/// An empty table for a link of objects such as `object`. [`LateTable::reserve`] makes room in it.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// let mut table = mcount::placeholder(&object)?;
/// table.reserve(9);
/// let room = mcount::table_object(&table, &Default::default())?;
/// assert_eq!(mcount::read_table(&room, &Default::default())?.sites.len(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`scan()`]. Also if `object` is an image.
pub fn placeholder(object: &[u8]) -> Result<LateTable> {
    elf::open(object, late::Reserve)
}

/// Puts the symbols of a separate debug file into its stripped image. Returns `None` if `image` has
/// symbols, or if `debug` has none for it.
///
/// The caller knows that the two belong together, for example by their build ID.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// // This image isn't stripped.
/// assert_eq!(mcount::with_symbols(&image, &image)?, None);
/// # Ok::<(), mcount::Error>(())
/// ```
///
/// # Errors
///
/// One of them is no ELF file, or is malformed.
pub fn with_symbols(image: &[u8], debug: &[u8]) -> Result<Option<Vec<u8>>> {
    elf::open(image, separate::WithSymbols(debug))
}

/// How the relocations of debug sections differ from "store symbol plus addend" on the processor
/// `machine` (`e_machine`). Returns the ones that compute, and whether all others take their addend from
/// the section even if they have a field for it.
///
/// ```
/// let (arithmetic, _) = mcount::debug_relocations(243);
/// assert!(!arithmetic.is_empty(), "linkers for RISC-V delete code, so lengths are computed");
/// let (arithmetic, _) = mcount::debug_relocations(62);
/// assert!(arithmetic.is_empty(), "on x86-64 they aren't");
/// ```
#[must_use]
pub fn debug_relocations(machine: u16) -> (&'static [Arithmetic], bool) {
    arch::of_debug(machine)
}

/// The names of all supported processors.
///
/// ```
/// assert!(mcount::machines().any(|name| name == "sparc64"));
/// ```
pub fn machines() -> impl Iterator<Item = &'static str> {
    arch::ALL.iter().map(|arch| arch.name)
}
