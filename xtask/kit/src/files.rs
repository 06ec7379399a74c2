//! File access whose errors name the path, and the folders of this workspace.
//!
//! The only file that may call `std::fs` for contents (see clippy.toml).

use std::path::{Path, PathBuf};

use crate::Result;

/// The root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // This crate is two folders below.
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Reads a whole file.
#[expect(clippy::disallowed_methods, reason = "this is the place that names the path")]
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| named(path, &error))
}

/// Writes a whole file.
#[expect(clippy::disallowed_methods, reason = "this is the place that names the path")]
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| named(path, &error))
}

/// The folder that cargo builds in.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    workspace().join(target.map_or_else(|| "target".into(), PathBuf::from))
}

/// Opens a file to read it.
#[expect(clippy::disallowed_methods, reason = "this is the place that names the path")]
pub fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).map_err(|error| named(path, &error))
}

/// Opens a new file, or an old one as empty, to write.
#[expect(clippy::disallowed_methods, reason = "this is the place that names the path")]
pub fn create(path: &Path) -> Result<std::fs::File> {
    std::fs::File::create(path).map_err(|error| named(path, &error))
}

/// Opens a file that is there, to read and write it.
pub fn update(path: &Path) -> Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| named(path, &error))
}

/// Makes a folder and those above it.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| named(path, &error))
}

/// The entries of a folder, sorted by name.
pub fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(path)
        .map_err(|error| named(path, &error))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(|error| named(path, &error))?;
    entries.sort();
    Ok(entries)
}

/// Renames within one file system.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|error| named(to, &error))
}

fn named(path: &Path, error: &std::io::Error) -> Box<dyn std::error::Error + Send + Sync> {
    format!("{}: {error}", path.display()).into()
}
