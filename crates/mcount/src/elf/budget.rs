//! A limit on reading names. In a string table, any number of names can share their bytes, so the names
//! of a small file can together be larger than any memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each name is read a few times, so real files need no more than a few times their size.
const PER_BYTE: usize = 64;
/// How many bytes are allowed in addition, so that small files have enough.
const ALWAYS_ALLOWED: usize = 1 << 20;

/// How many bytes of names a file of `size` bytes may have read.
fn allowed(size: usize) -> usize {
    size.saturating_mul(PER_BYTE).saturating_add(ALWAYS_ALLOWED)
}

/// How many bytes of names may still be read. Clones share the number.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// The budget of a file of `size` bytes.
    pub(super) fn of(size: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(allowed(size))))
    }

    /// Starts again, for a file of `size` bytes.
    pub(super) fn renew(&self, size: usize) {
        self.0.store(allowed(size), Ordering::Relaxed);
    }

    /// Whether it is used up. Names are empty from then on.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The name that `read` finds, which uses up its length. Empty if the budget is used up.
    pub(crate) fn name<'d>(&self, read: impl FnOnce() -> &'d [u8]) -> &'d [u8] {
        let left = self.0.load(Ordering::Relaxed);
        if left == 0 {
            return &[];
        }
        let name = read();
        // If two threads do this at once, it doesn't matter which of them counts.
        self.0.store(left.saturating_sub(name.len()), Ordering::Relaxed);
        name
    }
}
