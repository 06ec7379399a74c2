//! Reading and writing files, with the path in every error. The only file here that touches
//! `std::fs` for contents, as in the command itself.

use std::fs;
use std::path::Path;

/// Reads a file whole.
///
/// # Errors
///
/// The path and what the system said.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    #[expect(clippy::disallowed_methods, reason = "this is the files module")]
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file whole.
///
/// # Errors
///
/// The path and what the system said.
pub fn write(path: &Path, contents: &[u8]) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "this is the files module")]
    fs::write(path, contents).map_err(|error| format!("{}: {error}", path.display()))
}
