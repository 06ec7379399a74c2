//! `struct mcount_failure`: code, text and place.

use mcount::{Error, ErrorKind};
use mcount_store::commit::Failure;
use std::ffi::{c_char, c_int};

/// `MCOUNT_FAILED_*`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Code {
    Argument = 1,
    System = 2,
    NotElf = 3,
    Malformed = 4,
    Unsupported = 5,
    WrongType = 6,
}

/// Bytes that the text of `struct mcount_failure` has room for, with its zero.
pub const TEXT: usize = 256;
/// The same of the section's name.
pub const SECTION: usize = 64;

/// `struct mcount_failure`.
#[repr(C)]
pub struct McountFailure {
    pub(crate) code: c_int,
    pub(crate) has_section: c_int,
    pub(crate) has_offset: c_int,
    pub(crate) section_index: u32,
    pub(crate) offset: u64,
    pub(crate) section: [c_char; SECTION],
    pub(crate) text: [c_char; TEXT],
}

/// What went wrong.
pub(crate) struct Problem {
    code: Code,
    section: Option<(u32, String)>,
    offset: Option<u64>,
    text: String,
}

impl Problem {
    pub(crate) fn argument(text: &str) -> Self {
        Self { code: Code::Argument, section: None, offset: None, text: text.to_owned() }
    }

    /// Writes this to `failure`, unless that is null.
    ///
    /// # Safety
    ///
    /// `failure` is null or leads to a `struct mcount_failure`.
    pub(crate) unsafe fn write(self, failure: *mut McountFailure) {
        // SAFETY: the caller promises that `failure` is null or leads to a `struct mcount_failure`.
        let Some(failure) = (unsafe { failure.as_mut() }) else { return };
        failure.code = self.code as c_int;
        failure.has_section = c_int::from(self.section.is_some());
        failure.has_offset = c_int::from(self.offset.is_some());
        let (index, section) = self.section.unwrap_or_default();
        failure.section_index = index;
        failure.offset = self.offset.unwrap_or(0);
        copy(&mut failure.section, &section);
        copy(&mut failure.text, &self.text);
    }
}

/// Copies as much of `text` as there is room for, and a zero.
fn copy(room: &mut [c_char], text: &str) {
    let last = room.len().saturating_sub(1);
    let mut bytes = text.bytes().filter(|byte| *byte != 0).take(last);
    for place in room {
        *place = bytes.next().unwrap_or(0).cast_signed();
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            ErrorKind::NotElf | ErrorKind::Archive | ErrorKind::Bitcode | ErrorKind::SlimLto => {
                Code::NotElf
            }
            ErrorKind::NotAnObject(_) | ErrorKind::NotAnImage(_) => Code::WrongType,
            ErrorKind::UnknownMachine(_)
            | ErrorKind::UnsupportedClass { .. }
            | ErrorKind::Unsupported(_) => Code::Unsupported,
            _ => Code::Malformed,
        };
        let text = error.to_string();
        let section = error.section.map(|section| (section.index, section.name));
        Self { code, section, offset: error.offset, text }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Object(error) => error.into(),
            Failure::Io(_) => {
                Self { code: Code::System, section: None, offset: None, text: failure.to_string() }
            }
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Failure::from(error).into()
    }
}
