//! Why a file cannot be read as a trace at all. Damage inside a trace is no error: the good part is
//! read, and [`Damage`] counts the missing parts.

use std::fmt;

/// Why a file cannot be read as a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// It doesn't begin as traces do.
    NotATrace,
    /// It ends within its header.
    TooShort,
    /// It was written by a version that came after this one.
    Version(u32),
    /// It was compressed in a way that came after this version.
    PackedVersion(u32),
    /// It is compressed: [`crate::Packed`] reads it.
    Packed,
    /// The number that tells the byte order is in neither order.
    ByteOrder,
    /// Chunks of that many bytes are not possible.
    ChunkSize(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATrace => f.write_str("not a trace; mcount trace -- PROGRAM writes one"),
            Self::TooShort => f.write_str("a trace that ends within its header"),
            Self::Version(version) => {
                write!(f, "a trace of version {version}: this program knows version 1")
            }
            Self::PackedVersion(version) => {
                write!(f, "a trace compressed in version {version}: this program knows version 1")
            }
            Self::Packed => f.write_str("a compressed trace"),
            Self::ByteOrder => f.write_str("a trace whose byte order is damaged"),
            Self::ChunkSize(size) => write!(f, "a trace with chunks of {size} bytes"),
        }
    }
}

impl std::error::Error for Error {}

/// What of a trace couldn't be read. All 0 in a trace that is whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    /// Chunks that lie after the end of the file, wholly or in part.
    pub missing_chunks: u64,
    /// Chunks of kinds that version 1 doesn't have.
    pub unknown_chunks: u64,
    /// Metadata records that don't fit into their chunk, or are too short for their kind.
    pub bad_metadata: u64,
    /// Open calls whose start isn't known.
    pub open_without_start: u64,
    /// Calls of a compressed trace that would take more memory than its size allows.
    pub left_out: u64,
}

impl Damage {
    /// Whether anything is missing.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}
