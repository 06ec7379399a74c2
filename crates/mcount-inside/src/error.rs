//! Why something could not be done: a code for programs, a text for people.

use std::fmt;
use std::path::Path;

/// What kind of thing went wrong. The numbers are those of `include/mcount/live.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// No function with a hook matches.
    NoMatch = 1,
    /// The pattern is no pattern.
    BadPattern = 2,
    /// Another tracer, or a debugger, has changed the hook.
    Foreign = 3,
    /// The request can't be fulfilled at this hook.
    Unsuitable = 4,
    /// Called from a handler, or a second trace was started.
    Busy = 5,
    /// Other threads run, and they can't be stopped for the moment that it takes.
    Threads = 6,
    /// The system doesn't let the program change its code.
    Denied = 7,
    /// There's no free memory near the module.
    NoRoom = 8,
    /// A file can't be read or written.
    File = 9,
    /// This processor or system isn't supported.
    Unsupported = 10,
    /// An argument makes no sense.
    Argument = 11,
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of thing went wrong.
    pub kind: ErrorKind,
    /// One line for people.
    pub text: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// That something went wrong with the file at `path`.
    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::new(ErrorKind::File, format!("{}: {error}", path.display()))
    }

    /// That the system call or the file `what` failed, and why.
    pub(crate) fn system(kind: ErrorKind, what: impl fmt::Display) -> Self {
        let error = std::io::Error::last_os_error();
        Self::new(kind, format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// What most functions here return.
pub type Result<T> = std::result::Result<T, Error>;
