//! Errors. Each names the section and the offset that it is about, so that a program only needs to add
//! the name of the file.

use std::fmt;

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an input was refused, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The section that it is in, if that is known.
    pub section: Option<SectionId>,
    /// The place, in bytes from the start of `section`, or from the start of the file if there is no
    /// section.
    pub offset: Option<u64>,
}

/// The section that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionId {
    /// Its index in the section header table.
    pub index: u32,
    /// Its name, with invalid UTF-8 replaced; empty if unknown.
    pub name: String,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file doesn't begin with the ELF magic.
    NotElf,
    /// The file is an archive (`ar`). The caller must take out its members.
    Archive,
    /// The file is LLVM bitcode. It has no machine code yet.
    Bitcode,
    /// The file has gcc's LTO bytecode and no machine code.
    SlimLto,
    /// The ELF type (`e_type`) isn't `ET_REL`.
    NotAnObject(u16),
    /// The ELF type is neither `ET_EXEC` nor `ET_DYN`.
    NotAnImage(u16),
    /// `e_machine` isn't that of a supported processor.
    UnknownMachine(u16),
    /// The processor is supported, but not in this class (`EI_CLASS`).
    UnsupportedClass {
        /// Name of the processor.
        machine: &'static str,
        /// 32 or 64.
        bits: u8,
    },
    /// `EI_CLASS` is neither 1 nor 2.
    UnknownClass(u8),
    /// `EI_DATA` is neither 1 nor 2.
    UnknownByteOrder(u8),
    /// Something ends after the end of the file, or of its section.
    Truncated(&'static str),
    /// A field has a value that the specification doesn't allow.
    Malformed(&'static str),
    /// Valid ELF that this library doesn't handle.
    Unsupported(&'static str),
}

impl Error {
    /// An error of `kind` without a place.
    #[must_use]
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, section: None, offset: None }
    }

    /// An error of `kind` at `offset` bytes from the start of the file.
    #[must_use]
    pub fn at(kind: ErrorKind, offset: u64) -> Self {
        Self { kind, section: None, offset: Some(offset) }
    }

    /// The same error, in section `index` called `name`.
    #[must_use]
    pub fn in_section(mut self, index: u32, name: &[u8]) -> Self {
        self.section =
            Some(SectionId { index, name: crate::names::lossy(name).escape_debug().collect() });
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = &self.section {
            write!(f, "section {}", section.index)?;
            if !section.name.is_empty() {
                write!(f, " ({})", section.name)?;
            }
            f.write_str(": ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset:#x}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF file"),
            Self::Archive => f.write_str("an archive, not an ELF file"),
            Self::Bitcode => f.write_str("LLVM bitcode, not machine code"),
            Self::SlimLto => f.write_str("gcc LTO bytecode, not machine code"),
            Self::NotAnObject(kind) => {
                write!(f, "not a relocatable object: e_type is {kind}, not 1 (ET_REL)")
            }
            Self::NotAnImage(kind) => {
                write!(f, "not a linked image: e_type is {kind}, not 2 or 3 (ET_EXEC, ET_DYN)")
            }
            Self::UnknownMachine(machine) => write!(f, "unknown processor: e_machine is {machine}"),
            Self::UnsupportedClass { machine, bits } => {
                write!(f, "{machine} has no {bits}-bit objects")
            }
            Self::UnknownClass(class) => write!(f, "unknown ELF class: EI_CLASS is {class}"),
            Self::UnknownByteOrder(order) => write!(f, "unknown byte order: EI_DATA is {order}"),
            Self::Truncated(what) => write!(f, "truncated: {what}"),
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Unsupported(what) => write!(f, "unsupported: {what}"),
        }
    }
}

impl std::error::Error for Error {}
