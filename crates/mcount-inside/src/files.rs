//! Files: the only place that opens any, so that every error names its path.

use crate::error::{Error, ErrorKind, Result};
use memmap2::Mmap;
use std::fs::{File, Metadata, OpenOptions};
use std::path::Path;

/// A module's file, mapped.
pub(crate) struct Input {
    map: Mmap,
    /// What the system knows of it.
    pub(crate) metadata: Metadata,
}

impl Input {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let wrong = |error| Error::new(ErrorKind::File, format!("{}: {error}", path.display()));
        let file = OpenOptions::new().read(true).open(path).map_err(wrong)?;
        let metadata = file.metadata().map_err(wrong)?;
        // SAFETY: the map is private and read only. The program runs this file, so nobody shortens it.
        let map = unsafe { Mmap::map(&file) }.map_err(wrong)?;
        Ok(Self { map, metadata })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Opens `path` for reading and writing.
pub(crate) fn open_to_change(path: &str) -> Result<File> {
    let wrong = |error| Error::new(ErrorKind::Denied, format!("{path}: {error}"));
    OpenOptions::new().read(true).write(true).open(path).map_err(wrong)
}

/// The text of a small file of the system; empty if it can't be read.
pub(crate) fn read_text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
