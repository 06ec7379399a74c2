//! One file, opened once and asked often.
//!
//! Its own file because it knows every verb, and keeps what several of them need: the index of the
//! functions, and the sites.

use crate::check::{Check, Finding};
use crate::elf::{self, Verb, View};
use crate::error::Result;
use crate::functions::{Functions, Survey};
use crate::late::{Late, LateTable};
use crate::nop::{MakeNops, Nops, Select};
use crate::options::Options;
use crate::record::{Record, Recording};
use crate::scan::Target;
use crate::site::Sites;
use crate::sites::{Known, List, Scan};
use crate::sort::{Sort, Sorted};
use object::read::elf::FileHeader;
use std::cell::RefCell;
use std::fmt;

/// An object or an image.
///
/// What one question found out is kept for the next: the sites are found once, however many methods
/// need them.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// let file = mcount::File::parse(&object)?;
/// assert_eq!((file.machine(), file.bits(), file.is_image()), ("x86_64", 64, false));
/// // Nothing has recorded it yet: sites, and no table.
/// assert_eq!(file.sites()?.sites.len(), 9);
/// assert_eq!(file.table()?.sites.len(), 0);
/// assert_eq!(file.check()?[0].rule.name(), "missing-site");
///
/// let recorded = file.record()?.change.expect("it had no table").apply(&object);
/// let file = mcount::File::parse(&recorded)?;
/// assert_eq!(file.table()?.sites.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct File<'d> {
    bytes: &'d [u8],
    options: Options,
    facts: Facts,
    known: RefCell<Known<'d>>,
}

/// What never changes.
#[derive(Clone, Copy)]
struct Facts {
    machine: &'static str,
    bits: u8,
    big_endian: bool,
    is_image: bool,
}

/// Reads [`Facts`].
struct Open;

impl<'d> Verb<'d> for Open {
    type Output = Facts;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Facts> {
        let target = Target::of(view)?;
        Ok(Facts {
            machine: target.arch.name,
            bits: if view.is_64() { 64 } else { 32 },
            big_endian: view.is_big_endian(),
            is_image: target.is_image,
        })
    }
}

impl<'d> File<'d> {
    /// Opens the object or image that `bytes` are, with default [`Options`].
    ///
    /// # Errors
    ///
    /// The bytes are no ELF file of a known processor, or its headers are malformed.
    pub fn parse(bytes: &'d [u8]) -> Result<Self> {
        let facts = elf::open(bytes, Open)?;
        let known = RefCell::new(Known::kept());
        Ok(Self { bytes, options: Options::default(), facts, known })
    }

    /// The same file, asked with these options.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        let known = RefCell::new(Known::kept());
        Self { options, known, ..self }
    }

    /// The name of the processor.
    #[must_use]
    pub fn machine(&self) -> &'static str {
        self.facts.machine
    }

    /// 32 or 64.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.facts.bits
    }

    /// Whether its data is big-endian.
    #[must_use]
    pub fn is_big_endian(&self) -> bool {
        self.facts.big_endian
    }

    /// Whether it is linked: places have addresses.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.facts.is_image
    }

    /// Its call sites.
    ///
    /// # Errors
    ///
    /// As [`crate::scan()`].
    pub fn sites(&self) -> Result<Sites> {
        elf::open(self.bytes, Scan(&self.options, &mut self.known.borrow_mut()))
    }

    /// The entries of its tables.
    ///
    /// # Errors
    ///
    /// As [`crate::read_table`].
    pub fn table(&self) -> Result<Sites> {
        elf::open(self.bytes, List(&self.options, &mut self.known.borrow_mut()))
    }

    /// Every function with its sites, and the table.
    ///
    /// # Errors
    ///
    /// As [`crate::scan()`].
    pub fn functions(&self) -> Result<Functions> {
        elf::open(self.bytes, Survey(&self.options, &mut self.known.borrow_mut()))
    }

    /// What is wrong with its table.
    ///
    /// # Errors
    ///
    /// As [`crate::scan()`].
    pub fn check(&self) -> Result<Vec<Finding>> {
        elf::open(self.bytes, Check(&self.options, &mut self.known.borrow_mut()))
    }

    /// What to write so that this object has the right table.
    ///
    /// # Errors
    ///
    /// As [`crate::record()`].
    pub fn record(&self) -> Result<Recording> {
        elf::open(self.bytes, Record(&self.options))
    }

    /// The table that this image should have.
    ///
    /// # Errors
    ///
    /// As [`crate::late_table`].
    pub fn late_table(&self) -> Result<LateTable> {
        elf::open(self.bytes, Late(&self.options))
    }

    /// What to write so that the table of this image is sorted; with `drop_stale`, so that it has no
    /// entries that no function covers.
    ///
    /// # Errors
    ///
    /// As [`crate::sort_table`].
    pub fn sort(&self, drop_stale: bool) -> Result<Sorted> {
        elf::open(self.bytes, Sort { options: &self.options, drop_stale })
    }

    /// What to write so that recorded calls are NOPs, in the functions that `select` takes.
    ///
    /// # Errors
    ///
    /// As [`crate::make_nops`].
    pub fn make_nops(&self, select: Select<'_>) -> Result<Nops> {
        elf::open(self.bytes, MakeNops { options: &self.options, select })
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { machine, bits, is_image, .. } = self.facts;
        let kind = if is_image { "image" } else { "object" };
        write!(f, "File({machine}, {bits} bits, {kind}, {} bytes)", self.bytes.len())
    }
}
