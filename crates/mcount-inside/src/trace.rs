//! Recording calls into a trace, which `mcount replay` prints.

use crate::edit::{Edit, is_traced};
use crate::error::{Error, ErrorKind, Result};
use crate::module::Site;
use crate::program::{self, Which};
use crate::recording::Recording;
use std::path::Path;
use std::sync::Once;

/// A trace that's being recorded: the calls of functions that are armed for it, with thread, nesting and time.
///
/// There is one at a time. It ends when it's dropped, or when the program exits. If the program is killed, what was
/// recorded so far is in it.
#[derive(Debug)]
pub struct Trace {
    _private: (),
}

impl Trace {
    /// Creates a trace at `path`, in the place of an older one.
    ///
    /// # Errors
    ///
    /// The file can't be written, or another trace is being recorded.
    pub fn start(path: impl AsRef<Path>) -> Result<Self> {
        static AT_THE_END: Once = Once::new();
        let mut program = program::lock()?;
        if program.recording.is_some() {
            return Err(Error::new(ErrorKind::Busy, "another trace is being recorded"));
        }
        program.recording = Some(Recording::begin(path.as_ref())?);
        // SAFETY: functions of this library, which isn't unloaded once it has armed anything.
        AT_THE_END.call_once(|| unsafe {
            libc::atexit(end);
        });
        Ok(Self { _private: () })
    }

    /// Records the calls of these functions from now on; how many functions those are.
    ///
    /// # Errors
    ///
    /// None is armed if one of them can't be.
    pub fn arm<'a>(&self, which: impl Into<Which<'a>>) -> Result<usize> {
        program::lock()?.edit(which.into(), Edit::Trace)
    }

    /// Doesn't record the calls of these functions any more; how many functions those are.
    ///
    /// # Errors
    ///
    /// The pattern matches no function, or code can't be changed.
    pub fn disarm<'a>(&self, which: impl Into<Which<'a>>) -> Result<usize> {
        program::lock()?.edit(which.into(), Edit::Untrace)
    }

    /// Doesn't record any calls any more; of how many functions it did.
    ///
    /// # Errors
    ///
    /// Code can't be changed.
    pub fn disarm_all(&self) -> Result<usize> {
        program::lock()?.edit_armed(|site: &Site| is_traced(site.record), Edit::Untrace)
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// Some calls are missing from it.
    pub fn stop(self) -> Result<()> {
        std::mem::forget(self);
        finish()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = finish();
    }
}

/// Disarms what is armed for the trace, and ends it.
pub(crate) fn finish() -> Result<()> {
    let mut program = program::lock()?;
    let disarmed = program.edit_armed(|site: &Site| is_traced(site.record), Edit::Untrace);
    let finished = program.recording.take().map_or(Ok(()), Recording::finish);
    disarmed.and(finished)
}

extern "C" fn end() {
    let _ = finish();
}
