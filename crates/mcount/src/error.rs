//! What can go wrong, and where: every error names the section and the offset it speaks of, so that
//! a front end needs to add nothing but the name of the file.

use std::fmt;

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an input was refused, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The section it is in, where one is known.
    pub section: Option<SectionId>,
    /// Where: bytes from the start of `section`, or from the start of the file if there is none.
    pub offset: Option<u64>,
}

/// A section named in an error: its index and, where it could be read, its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionId {
    /// Index in the section header table.
    pub index: u32,
    /// Name, with invalid UTF-8 replaced; empty if unknown.
    pub name: String,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file does not begin with the ELF magic.
    NotElf,
    /// The file is an archive (`ar`): what it holds is for the caller to take out.
    Archive,
    /// The file is LLVM bitcode: there is no machine code yet.
    Bitcode,
    /// The file holds gcc's LTO bytecode and no machine code.
    SlimLto,
    /// The ELF type (`e_type`) is not `ET_REL`.
    NotAnObject(u16),
    /// The ELF type is neither `ET_EXEC` nor `ET_DYN`.
    NotAnImage(u16),
    /// `e_machine` is of no supported processor.
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
    /// A field holds a value that the specification does not allow.
    Malformed(&'static str),
    /// Valid ELF of a kind that this library does not handle.
    Unsupported(&'static str),
}

impl Error {
    /// An error of `kind` with no place.
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
            Some(SectionId { index, name: String::from_utf8_lossy(name).escape_debug().collect() });
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
