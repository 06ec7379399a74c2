//! [`File`]: one file, opened once and asked often.

use crate::check::{Check, Finding};
use crate::elf::{Verb, View};
use crate::error::Result;
use crate::functions::{Functions, Survey};
use crate::late::{Fill, Filler, Late, LateTable, Reserve};
use crate::nop::{MakeNops, Nops, Select};
use crate::options::{CheckOptions, LateOptions, Options, RecordOptions, SortOptions};
use crate::record::{Record, Recording};
use crate::scan::{self, Identity};
use crate::site::Sites;
use crate::sites::{Known, List, Scan};
use crate::sort::{Sort, Sorted};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

/// An object or an image.
///
/// The headers are read and checked once, and what one question found out is kept for the next. For
/// example, the sites are searched for once, however many methods need them.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// let file = mcount::File::parse(&object)?;
/// assert_eq!((file.machine(), file.bits(), file.is_image()), ("x86_64", 64, false));
///
/// // It has call sites, and no table yet.
/// assert_eq!(file.sites()?.sites.len(), 9);
/// assert_eq!(file.table()?.sites.len(), 0);
/// assert_eq!(file.check(&Default::default())?[0].rule.name(), "missing-site");
///
/// let recording = file.record(&Default::default())?;
/// let recorded = recording.change.expect("there was no table").apply(&object);
/// let file = mcount::File::parse(&recorded)?;
/// assert_eq!(file.table()?.sites.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct File<'d> {
    size: usize,
    opened: View<'d>,
    identity: Identity,
    options: Cow<'d, Options>,
    known: RefCell<Known<'d>>,
}

/// Finds out what a file is.
struct Identify;

impl<'d> Verb<'d> for Identify {
    type Output = Identity;

    fn run(self, view: &View<'d>) -> Result<Identity> {
        scan::identify(view)
    }
}

impl<'d> File<'d> {
    /// Opens an object or image, with default [`Options`].
    ///
    /// # Errors
    ///
    /// `bytes` are no ELF object or image of a known processor, or its headers are malformed.
    pub fn parse(bytes: &'d [u8]) -> Result<Self> {
        let opened = View::new(bytes)?;
        let identity = opened.ask(Identify)?;
        let options = Cow::Owned(Options::default());
        let known = RefCell::new(Known::kept());
        Ok(Self { size: bytes.len(), opened, identity, options, known })
    }

    /// The same file with other options, owned or borrowed. This drops all answers so far.
    #[must_use]
    pub fn with_options(self, options: impl Into<Cow<'d, Options>>) -> Self {
        let known = RefCell::new(Known::kept());
        Self { options: options.into(), known, ..self }
    }

    /// The options that questions are answered with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The name of the processor.
    #[must_use]
    pub fn machine(&self) -> &'static str {
        self.identity.machine
    }

    /// 32 or 64.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.identity.bits
    }

    /// Whether its data is big-endian.
    #[must_use]
    pub fn is_big_endian(&self) -> bool {
        self.identity.big_endian
    }

    /// Whether it is linked, so that places have addresses.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.identity.is_image
    }

    /// Its call sites. See [`crate::scan()`].
    ///
    /// # Errors
    ///
    /// Its code, symbols or relocations are malformed.
    pub fn sites(&self) -> Result<Sites> {
        self.opened.ask(Scan(&self.options, &mut self.known.borrow_mut()))
    }

    /// The entries of its tables. See [`crate::read_table`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`].
    pub fn table(&self) -> Result<Sites> {
        self.opened.ask(List(&self.options, &mut self.known.borrow_mut()))
    }

    /// Every function with its sites, and the table. See [`crate::functions()`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`].
    pub fn functions(&self) -> Result<Functions> {
        self.opened.ask(Survey(&self.options, &mut self.known.borrow_mut()))
    }

    /// The findings about its table. See [`crate::check()`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`].
    pub fn check(&self, how: &CheckOptions) -> Result<Vec<Finding>> {
        let known = &mut self.known.borrow_mut();
        self.opened.ask(Check { options: &self.options, how, known })
    }

    /// What to write so that this object has the right table. See [`crate::record()`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`], or it is an image, or the new object would be too large for its class.
    pub fn record(&self, how: &RecordOptions) -> Result<Recording> {
        self.opened.ask(Record { options: &self.options, how })
    }

    /// The table that this image should have. See [`crate::late_table`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`], or it is an object.
    pub fn late_table(&self, how: &LateOptions) -> Result<LateTable> {
        let known = &mut self.known.borrow_mut();
        self.opened.ask(Late { options: &self.options, how, known })
    }

    /// What to write so that the table of this image is `table`. See [`crate::fill`].
    ///
    /// # Errors
    ///
    /// It is an object, or malformed.
    pub fn fill(&self, table: &LateTable) -> Result<Fill> {
        self.opened.ask(Filler { options: &self.options, table })
    }

    /// An empty table for a link of this object. See [`crate::placeholder`].
    ///
    /// # Errors
    ///
    /// It is an image, or its symbols are malformed.
    pub fn placeholder(&self) -> Result<LateTable> {
        self.opened.ask(Reserve)
    }

    /// What to write so that the table of this image is sorted. See [`crate::sort_table`].
    ///
    /// # Errors
    ///
    /// It is an object, or has no table, or the loader relocates the table in a way that can't be
    /// changed.
    pub fn sort(&self, how: &SortOptions) -> Result<Sorted> {
        self.opened.ask(Sort { options: &self.options, how })
    }

    /// What to write so that recorded calls become NOPs, in the functions that `select` chooses. See
    /// [`crate::make_nops`].
    ///
    /// # Errors
    ///
    /// As [`Self::sites`].
    pub fn make_nops(&self, select: Select<'_>) -> Result<Nops> {
        self.opened.ask(MakeNops { options: &self.options, select })
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { machine, bits, is_image, .. } = self.identity;
        let kind = if is_image { "image" } else { "object" };
        write!(f, "File({machine}, {bits} bits, {kind}, {} bytes)", self.size)
    }
}
