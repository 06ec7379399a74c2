//! Handlers in Rust: closures that see calls, and may change them.

use crate::edit::Edit;
use crate::error::Result;
use crate::module::Site;
use crate::program::{self, Which};
use crate::record::{self, Call, flags};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// What becomes of a call when its entry was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    returns: bool,
}

impl Action {
    /// It goes on.
    pub const CONTINUE: Self = Self { returns: false };

    /// It returns at once, with the result that the handler has left in the registers.
    ///
    /// # Safety
    ///
    /// The caller must be able to go on with that result, and without what the function does.
    #[must_use]
    pub const unsafe fn skip() -> Self {
        Self { returns: true }
    }
}

type Entry = Box<dyn Fn(&mut Call) -> Action + Send + Sync>;
type Exit = Box<dyn Fn(&mut Call) + Send + Sync>;

/// A pair of closures that are called when functions are entered and when they return.
///
/// They run in whatever thread calls the function, wherever it does: in a signal handler as well, or while it holds a lock.
/// Calls that they make themselves aren't shown to handlers. They must not panic.
///
/// Its memory, about a hundred bytes, is never given back, because calls may be under way.
#[derive(Debug)]
pub struct Handlers {
    pub(crate) inner: &'static record::Handlers,
}

struct Closures {
    entry: Option<Entry>,
    exit: Option<Exit>,
}

impl Handlers {
    /// Handlers of entries only, which cost least.
    #[must_use]
    pub fn of_entries(entry: impl Fn(&mut Call) -> Action + Send + Sync + 'static) -> Self {
        Self::of(Some(Box::new(entry)), None, 0)
    }

    /// Handlers of entries and of returns.
    #[must_use]
    pub fn new(
        entry: impl Fn(&mut Call) -> Action + Send + Sync + 'static,
        exit: impl Fn(&mut Call) + Send + Sync + 'static,
    ) -> Self {
        Self::of(Some(Box::new(entry)), Some(Box::new(exit)), 0)
    }

    /// The same, and they see vector registers, too ([`Call::vectors`]).
    #[must_use]
    pub fn with_vectors(
        entry: impl Fn(&mut Call) -> Action + Send + Sync + 'static,
        exit: impl Fn(&mut Call) + Send + Sync + 'static,
    ) -> Self {
        Self::of(Some(Box::new(entry)), Some(Box::new(exit)), flags::VECTORS)
    }

    fn of(entry: Option<Entry>, exit: Option<Exit>, flags: u32) -> Self {
        let (has_entry, has_exit) = (entry.is_some(), exit.is_some());
        let closures = Box::leak(Box::new(Closures { entry, exit }));
        let data = std::ptr::from_mut(closures).cast::<c_void>();
        let entry = has_entry.then_some(call_entry as record::EntryHandler);
        let exit = has_exit.then_some(call_exit as record::ExitHandler);
        Self::raw(entry, exit, data, flags)
    }

    pub(crate) fn raw(
        entry: Option<record::EntryHandler>,
        exit: Option<record::ExitHandler>,
        data: *mut c_void,
        flags: u32,
    ) -> Self {
        let is_alive = AtomicBool::new(true);
        let inner = record::Handlers { entry, exit, data, flags, is_alive };
        Self { inner: Box::leak(Box::new(inner)) }
    }

    /// Lets them see the calls of these functions from now on; how many functions those are.
    ///
    /// # Errors
    ///
    /// None is armed if one of them can't be.
    pub fn arm<'a>(&self, which: impl Into<Which<'a>>) -> Result<usize> {
        program::lock()?.edit(which.into(), Edit::Watch(self.inner))
    }

    /// Doesn't show them the calls of these functions any more; how many functions those are. Other threads may still
    /// be in a handler when this returns.
    ///
    /// # Errors
    ///
    /// The pattern matches no function, or code can't be changed.
    pub fn disarm<'a>(&self, which: impl Into<Which<'a>>) -> Result<usize> {
        program::lock()?.edit(which.into(), Edit::Unwatch(self.inner))
    }

    /// Doesn't show them any calls any more; of how many functions it did.
    ///
    /// # Errors
    ///
    /// Code can't be changed.
    pub fn disarm_all(&self) -> Result<usize> {
        let is_seen = |site: &Site| site.is_seen_by(self.inner);
        program::lock()?.edit_armed(is_seen, Edit::Unwatch(self.inner))
    }

    /// Disarms everything: none of the handlers begins from now on.
    pub(crate) fn close(&self) -> Result<usize> {
        self.inner.is_alive.store(false, Ordering::Release);
        self.disarm_all()
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // If code can't be changed, nobody sees the calls all the same.
        let _ = self.close();
    }
}

unsafe extern "C" fn call_entry(call: *mut Call, data: *mut c_void) -> c_int {
    // SAFETY: `Handlers::of` gives its closures, which are never freed; a call is whole while handlers run.
    let (call, closures) = unsafe { (&mut *call, &*data.cast::<Closures>()) };
    let action = closures.entry.as_ref().map_or(Action::CONTINUE, |entry| entry(call));
    c_int::from(action.returns)
}

unsafe extern "C" fn call_exit(call: *mut Call, data: *mut c_void) {
    // SAFETY: as above.
    let (call, closures) = unsafe { (&mut *call, &*data.cast::<Closures>()) };
    if let Some(exit) = &closures.exit {
        exit(call);
    }
}
