//! The C interface, as `include/mcount/live.h` has it.

use crate::edit::Protocol;
use crate::error::{Error, ErrorKind, Result};
use crate::handlers::Handlers;
use crate::program::Which;
use crate::record::{EntryHandler, ExitHandler, flags};
use crate::trace::Trace;
use crate::{agent, commands};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};

/// `MCOUNT_VECTORS`.
const WANT_VECTORS: c_uint = 1;

thread_local! {
    /// The text of this thread's last error.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Keeps the text; the number that says what it was, negative.
fn keep(error: Error) -> c_long {
    let number = error.kind as c_long;
    let text = CString::new(error.text).unwrap_or_default();
    TEXT.with_borrow_mut(|room| *room = text);
    -number
}

fn count(result: Result<usize>) -> c_long {
    match result {
        Ok(count) => c_long::try_from(count).unwrap_or(c_long::MAX),
        Err(error) => keep(error),
    }
}

fn code(result: Result<()>) -> c_int {
    let number = match result {
        Ok(()) => 0,
        Err(error) => keep(error),
    };
    c_int::try_from(number).unwrap_or(-1)
}

unsafe fn text<'a>(text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::new(ErrorKind::Argument, "a text is missing"));
    }
    // SAFETY: the caller, a function for C, was promised that texts end with a zero byte.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map_err(|_| Error::new(ErrorKind::Argument, "a text isn't UTF-8"))
}

/// The structure after a `mcount_tracer *`.
enum Tracer {
    Handlers(Handlers),
    Trace(Trace),
}

impl Tracer {
    fn arm(&self, which: Which<'_>) -> Result<usize> {
        match self {
            Self::Handlers(handlers) => handlers.arm(which),
            Self::Trace(trace) => trace.arm(which),
        }
    }

    fn disarm(&self, which: Which<'_>) -> Result<usize> {
        match self {
            Self::Handlers(handlers) => handlers.disarm(which),
            Self::Trace(trace) => trace.disarm(which),
        }
    }

    fn disarm_all(&self) -> Result<usize> {
        match self {
            Self::Handlers(handlers) => handlers.disarm_all(),
            Self::Trace(trace) => trace.disarm_all(),
        }
    }
}

unsafe fn tracer<'a>(tracer: *const c_void) -> Result<&'a Tracer> {
    // SAFETY: the caller's: it's one that was handed out, and not closed.
    let tracer = unsafe { tracer.cast::<Tracer>().as_ref() };
    tracer.ok_or_else(|| Error::new(ErrorKind::Argument, "no tracer"))
}

/// The text of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_error() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

/// Puts a marker into the trace that's being recorded. `include/mcount/mark.h` calls it; it may be called anywhere.
///
/// # Safety
///
/// `text` ends with a zero byte, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_live_mark(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: the caller promises that `text` ends with a zero byte, or is null.
        agent::mark(unsafe { CStr::from_ptr(text) }.to_bytes());
    }
}

/// Looks for modules and hooks again.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_rescan() -> c_int {
    code(commands::rescan())
}

/// Chooses how sites are changed while other threads run.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_protocol(protocol: c_int) -> c_int {
    let protocol = match protocol {
        0 => Ok(Protocol::OneByte),
        1 => Ok(Protocol::Breakpoint),
        2 => Ok(Protocol::Stopped),
        _ => Err(Error::new(ErrorKind::Argument, "no such protocol")),
    };
    code(protocol.and_then(commands::set_protocol))
}

/// Makes a pair of handlers; null if that makes no sense.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_handlers(
    entry: Option<EntryHandler>,
    exit: Option<ExitHandler>,
    data: *mut c_void,
    wanted: c_uint,
) -> *mut c_void {
    if entry.is_none() && exit.is_none() || wanted & !WANT_VECTORS != 0 {
        keep(Error::new(ErrorKind::Argument, "no handler, or an unknown flag"));
        return std::ptr::null_mut();
    }
    let flags = if wanted & WANT_VECTORS != 0 { flags::VECTORS } else { 0 };
    Box::into_raw(Box::new(Tracer::Handlers(Handlers::raw(entry, exit, data, flags)))).cast()
}

/// Creates a trace, and begins to record; null if it can't be written.
///
/// # Safety
///
/// The path ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_trace(path: *const c_char) -> *mut c_void {
    // SAFETY: the caller promises that the path ends with a zero byte.
    let path = unsafe { text(path) };
    match path.and_then(Trace::start) {
        Ok(trace) => Box::into_raw(Box::new(Tracer::Trace(trace))).cast(),
        Err(error) => {
            keep(error);
            std::ptr::null_mut()
        }
    }
}

/// Makes functions ready to be armed.
///
/// # Safety
///
/// The pattern ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_prepare(pattern: *const c_char) -> c_long {
    // SAFETY: the caller promises that the pattern ends with a zero byte.
    let pattern = unsafe { text(pattern) };
    count(pattern.and_then(commands::prepare))
}

/// Shows a tracer the calls of functions.
///
/// # Safety
///
/// The tracer isn't closed; the pattern ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_arm(who: *const c_void, pattern: *const c_char) -> c_long {
    // SAFETY: the caller promises that the tracer isn't closed; the pattern ends with a zero byte.
    let arguments = unsafe { tracer(who).and_then(|who| Ok((who, text(pattern)?))) };
    count(arguments.and_then(|(who, pattern)| who.arm(Which::Pattern(pattern))))
}

/// The same for the function at an address.
///
/// # Safety
///
/// As [`mcount_arm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_arm_address(who: *const c_void, at: *const c_void) -> c_long {
    // SAFETY: the caller promises that the tracer isn't closed; the pattern ends with a zero byte.
    let who = unsafe { tracer(who) };
    count(who.and_then(|who| who.arm(Which::Address(at as usize))))
}

/// Doesn't show a tracer the calls of functions any more; without a pattern, of none.
///
/// # Safety
///
/// As [`mcount_arm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_disarm(who: *const c_void, pattern: *const c_char) -> c_long {
    // SAFETY: the caller promises that the tracer isn't closed; the pattern ends with a zero byte.
    let who = unsafe { tracer(who) };
    if pattern.is_null() {
        return count(who.and_then(Tracer::disarm_all));
    }
    // SAFETY: the caller promises that the tracer isn't closed; the pattern ends with a zero byte.
    let pattern = unsafe { text(pattern) };
    count(who.and_then(|who| who.disarm(Which::Pattern(pattern?))))
}

/// The same for the function at an address.
///
/// # Safety
///
/// As [`mcount_arm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_disarm_address(who: *const c_void, at: *const c_void) -> c_long {
    // SAFETY: the caller promises that the tracer isn't closed; the pattern ends with a zero byte.
    let who = unsafe { tracer(who) };
    count(who.and_then(|who| who.disarm(Which::Address(at as usize))))
}

/// Disarms everything that a tracer sees, and frees it.
///
/// # Safety
///
/// The tracer isn't closed, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_close(who: *mut c_void) -> c_int {
    if who.is_null() {
        return 0;
    }
    // SAFETY: the caller's: it was made here.
    match *unsafe { Box::from_raw(who.cast::<Tracer>()) } {
        Tracer::Handlers(handlers) => code(handlers.close().map(drop)),
        Tracer::Trace(trace) => code(trace.stop()),
    }
}

/// Has the calls of one function go to another.
///
/// # Safety
///
/// `new` has the type of `function`; `original` is null or has room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_replace(
    function: *const c_void,
    new: *const c_void,
    original: *mut *const c_void,
) -> c_int {
    // SAFETY: the caller promises that `new` has the type of `function`; `original` is null or has
    // room for an address.
    code(unsafe { commands::replace(function as usize, new as usize) }.map(|address| {
        if !original.is_null() {
            // SAFETY: the caller promises that `new` has the type of `function`; `original` is null
            // or has room for an address.
            unsafe { original.write(address as *const c_void) };
        }
    }))
}

/// Has its calls go to itself again.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_put_back(function: *const c_void) -> c_int {
    code(commands::put_back(function as usize))
}

/// How many calls were not shown to handlers, because one was running.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_missed() -> u64 {
    commands::missed()
}

/// A line about something that could not be done; null if there are no more.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_note(number: c_uint) -> *const c_char {
    let notes = commands::notes().unwrap_or_default();
    let note = notes.into_iter().nth(number as usize).and_then(|text| CString::new(text).ok());
    let Some(note) = note else { return std::ptr::null() };
    TEXT.with_borrow_mut(|room| {
        *room = note;
        room.as_ptr()
    })
}
