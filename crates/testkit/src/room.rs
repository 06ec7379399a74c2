//! A folder for one test of a command: files in it, and what the command says when it runs there.

use crate::files;
use crate::prebuilt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder that goes away with it.
#[derive(Debug)]
pub struct Room(TempDir);

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All it printed on standard output.
    pub stdout: String,
    /// All it printed on standard error.
    pub stderr: String,
}

impl Room {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// No folder can be made.
    pub fn new() -> Result<Self, String> {
        TempDir::new().map(Self).map_err(|error| error.to_string())
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file `name`.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.path(name);
        files::write(&path, bytes).map(|()| path)
    }

    /// Copies the prebuilt object `object` (a name without `.o`) to the file `name`.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be copied.
    pub fn put_prebuilt(&self, name: &str, object: &str) -> Result<PathBuf, String> {
        let source = prebuilt::root().join(format!("tests/prebuilt/{object}.o"));
        self.put(name, &files::read(&source)?)
    }

    /// Reads the file `name`.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, String> {
        files::read(&self.path(name))
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(self.0.path()).map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// The command `program ARG…`, to run in the folder with no input.
    #[must_use]
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs `program ARG…` in the folder.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Result<Outcome, String> {
        let output = self.command(program, arguments).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
