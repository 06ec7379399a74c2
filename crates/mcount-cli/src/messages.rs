//! The output of a linker, with the names that its user knows.
//!
//! `mcount link` links to a temporary name, and maybe several times. So a linker would print this, once for
//! each link:
//!
//! ```text
//! ld: warning: .program.mcount-link/program has a LOAD segment with RWX permissions
//! ```
//!
//! It prints to memory instead. After the last link, we print what it said there, with `program` in place
//! of the temporary name. A file wouldn't do: the message may be that the disk is full.

use crate::beside::{LinkNames, cleaned};
use crate::files::Input;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::process::{Command, Stdio};

/// The output of the last command.
pub(crate) struct Messages {
    output: File,
    errors: File,
}

impl Messages {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors or memory.
    pub(crate) fn new() -> io::Result<Self> {
        let memory = || memfd_create("mcount-link", MemfdFlags::CLOEXEC).map(File::from);
        Ok(Self { output: memory()?, errors: memory()? })
    }

    /// Has `command` print here. This drops the output of an earlier command.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors.
    pub(crate) fn take_from(&self, command: &mut Command) -> io::Result<()> {
        self.forget();
        command.stdout(Stdio::from(self.output.try_clone()?));
        command.stderr(Stdio::from(self.errors.try_clone()?));
        Ok(())
    }

    /// Forgets what was printed.
    pub(crate) fn forget(&self) {
        for mut file in [&self.output, &self.errors] {
            // Neither can fail: the file is in memory.
            let _ = file.set_len(0);
            let _ = file.rewind();
        }
    }

    /// Prints it, with the names that the user knows. A reader that has gone away is no error.
    pub(crate) fn print(&self, names: &LinkNames<'_>) {
        let _ = copy(&self.output, &mut io::stdout().lock(), names);
        let _ = copy(&self.errors, &mut io::stderr().lock(), names);
    }
}

/// Prints what is in `file`.
fn copy(mut file: &File, stream: &mut impl Write, names: &LinkNames<'_>) -> io::Result<()> {
    // The linker's position in the file is ours.
    file.rewind()?;
    let input = Input::new(file, file.metadata()?.len())?;
    stream.write_all(&cleaned(input.bytes(), names))?;
    stream.flush()
}
