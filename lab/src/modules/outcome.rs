//! What came of one module, as plain data.

use std::path::PathBuf;

use super::explain::Difference;

/// What came of one module.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) path: PathBuf,
    /// Entries, by who made the table.
    pub(crate) build: usize,
    pub(crate) original: usize,
    pub(crate) ours: usize,
    pub(crate) bytes: usize,
    pub(crate) differences: Vec<Difference>,
    /// Ours failed, spoke, damaged the file, or made a table that cannot be read.
    pub(crate) failures: Vec<String>,
    /// What is worth counting but no failure: it names the kind.
    pub(crate) notes: Vec<String>,
    /// Disassembly around unexplained differences.
    pub(crate) listing: String,
}
