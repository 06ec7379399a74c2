//! Reading and writing files, with the path in every error. The only file here that touches
//! `std::fs` for contents, as in the command itself.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Writes a file whole that may be executed.
///
/// Another process does it. If this one did, a test beside this one could start a program meanwhile,
/// which has the descriptor too until it executes; as long as any process may write to a file,
/// executing it fails (ETXTBSY).
///
/// # Errors
///
/// The path and what the system said.
pub fn write_program(path: &Path, contents: &[u8]) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "rm -f \"$1\" && cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(path);
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(text)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(contents).map_err(text)?;
    }
    let status = child.wait().map_err(text)?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", path.display())) }
}

/// Copies a program that may be executed, where one test runs at a time and there's no shell: see [`write_program`].
///
/// # Errors
///
/// The path and what the system said.
pub fn copy_program(from: &Path, to: &Path) -> Result<(), String> {
    // Somebody may still execute what was there.
    let _ = fs::remove_file(to);
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", to.display()))
}
