//! Requests of a program besides handlers and traces.

use crate::edit::{Edit, Protocol};
use crate::error::Result;
use crate::program::{self, Which};
use crate::watch;
use std::ffi::c_char;

unsafe extern "C" {
    /// Has a hook, with which `mcount trace` knows of markers, and calls [`crate::c::mcount_live_mark`].
    fn mcount_mark(text: *const c_char);
}

/// Puts a marker into the trace of the program, wherever it comes from: a [`crate::Trace`], `mcount trace` or `mcount attach`. Its
/// first 64 bytes are recorded. It may be called anywhere, in a signal handler as well.
pub fn mark(text: &str) {
    /// One more shows that a text goes on.
    const MOST: usize = 65;
    let mut room = [0_u8; MOST + 1];
    for (room, byte) in room.iter_mut().zip(text.bytes().take(MOST)) {
        *room = byte;
    }
    // SAFETY: the last byte is zero.
    unsafe { mcount_mark(room.as_ptr().cast()) };
}

/// Makes functions ready to be armed, and does nothing else; how many functions those are. A program that does this before
/// it has threads can arm them later even where it isn't allowed to stop its threads.
///
/// # Errors
///
/// None is changed if one of them can't be.
pub fn prepare<'a>(which: impl Into<Which<'a>>) -> Result<usize> {
    program::lock()?.edit(which.into(), Edit::Prepare)
}

/// Has the calls of the function at one address go to another, in all threads. The result is an address that
/// calls the function itself.
///
/// # Safety
///
/// Both functions have the same type.
///
/// # Errors
///
/// The function has no hook, or one behind its prologue, or code can't be changed.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits")]
pub unsafe fn replace(function: usize, replacement: usize) -> Result<usize> {
    // SAFETY: the caller promises that both functions have the same type.
    unsafe { program::replace(function, replacement) }.map(|original| original as usize)
}

/// Has the calls of a function that was replaced go to itself again.
///
/// # Errors
///
/// The function has no hook, or code can't be changed.
pub fn put_back(function: usize) -> Result<()> {
    program::lock()?.edit(Which::Address(function), Edit::Restore).map(drop)
}

/// Looks for modules that were opened since, by `dlopen`.
///
/// # Errors
///
/// It's called from a handler of a function that this library is just calling.
pub fn rescan() -> Result<()> {
    program::lock()?.rescan();
    Ok(())
}

/// Chooses how sites are changed while other threads run.
///
/// # Errors
///
/// As [`rescan`].
pub fn set_protocol(protocol: Protocol) -> Result<()> {
    program::lock()?.protocol = protocol;
    Ok(())
}

/// How many calls were not shown to handlers, because one was running in the same thread.
#[must_use]
pub fn missed() -> u64 {
    watch::missed()
}

/// What could not be done, a line each.
///
/// # Errors
///
/// As [`rescan`].
pub fn notes() -> Result<Vec<String>> {
    Ok(program::lock()?.notes.clone())
}
