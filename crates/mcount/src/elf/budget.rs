//! How much of its names a file may have read: string tables let any number of names share their bytes,
//! so a small file can have names that together are larger than any memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names are looked at a few times each, so real files need no more than a few times their size.
const PER_BYTE: usize = 64;
/// Small files may have so many bytes of names read, whatever their size.
const ALWAYS_ALLOWED: usize = 1 << 20;

/// How many bytes of names a file of `size` bytes may have read.
fn allowed(size: usize) -> usize {
    size.saturating_mul(PER_BYTE).saturating_add(ALWAYS_ALLOWED)
}

/// The bytes of names that may still be read; clones draw on the same.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// That of a file of `size` bytes.
    pub(super) fn of(size: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(allowed(size))))
    }

    /// Begins again, for a file of `size` bytes.
    pub(super) fn renew(&self, size: usize) {
        self.0.store(allowed(size), Ordering::Relaxed);
    }

    /// It was not enough; names are empty from there on.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// What `read` finds, and its length is taken off; empty when nothing is left.
    pub(crate) fn name<'d>(&self, read: impl FnOnce() -> &'d [u8]) -> &'d [u8] {
        let left = self.0.load(Ordering::Relaxed);
        if left == 0 {
            return &[];
        }
        let name = read();
        // Of threads that do so at once, it does not matter whose counts.
        self.0.store(left.saturating_sub(name.len()), Ordering::Relaxed);
        name
    }
}
