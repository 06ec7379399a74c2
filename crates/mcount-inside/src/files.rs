//! Files: the only place that opens any, so that every error names its path.

use crate::error::{Error, ErrorKind, Result};
use memmap2::Mmap;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A module's file, mapped.
pub(crate) struct Input {
    map: Mmap,
    /// The system's data about the file.
    pub(crate) metadata: Metadata,
}

impl Input {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::map(path).map_err(|error| Error::file(path, &error))
    }

    fn map(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).open(path)?;
        let metadata = file.metadata()?;
        // SAFETY: the map is private and read only. The program runs this file, so nobody shortens it.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self { map, metadata })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// All bytes of `path`, which may be a file of the kernel's.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut options = OpenOptions::new();
    let file = options.read(true).open(path);
    let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| Error::file(path, &error))?;
    Ok(bytes)
}

/// Opens `path` for reading and writing.
pub(crate) fn open_to_change(path: &str) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| Error::new(ErrorKind::Denied, format!("{path}: {error}")))
}

/// Creates a file beside `path`, which only this user may read, and which is to get its name; its name until then.
pub(crate) fn create_beside(path: &Path) -> Result<(File, PathBuf)> {
    if let Ok(found) = std::fs::metadata(path)
        && !found.is_file()
    {
        return Err(Error::file(path, &io::Error::other("isn't a regular file")));
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&temporary);
    let file = file.map_err(|error| Error::file(path, &error))?;
    Ok((file, temporary))
}
