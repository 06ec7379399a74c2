//! Pages of the trace, ready before they are written to.
//!
//! A program that writes to a page for the first time waits until the kernel has cleared it, which takes longer
//! than all calls that fit on it. Here the recorder does that on another processor, some chunks ahead. Nothing is
//! wrong where it's late, or where the kernel doesn't know how (Linux before 5.14): then the program waits.
//!
//! Calls without times, or of which only entries are recorded, are written too fast for that: both processors would clear
//! pages, and get in each other's way.

use super::scope::Scope;
use mcount_trace::layout;
use memmap2::MmapOptions;
use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Chunks that are ready even if none were written lately: 2 MiB.
const LEAST: u64 = 32;

/// Chunks that are made ready at a time at most: what takes some ten milliseconds.
const MOST: u64 = 512;

/// Does a call that's recorded this way take long enough to clear pages meanwhile?
pub(super) fn is_worth_it(scope: &Scope) -> bool {
    !scope.untimed && !scope.entries
}

/// How far the pages of a trace are ready.
#[derive(Default)]
pub(super) struct Prepared {
    /// The first chunk that isn't.
    next: u64,
    is_hopeless: bool,
}

impl Prepared {
    /// Makes pages ready for those who take chunk `next` and the following ones. There is room for chunks up to
    /// `ready`, and `used` were taken since the last time.
    pub(super) fn keep_ahead(&mut self, file: &File, next: u64, used: u64, ready: u64) {
        let start = self.next.max(next);
        let end = (next + LEAST + 4 * used).min(start + MOST).min(ready);
        if self.is_hopeless || end < start + LEAST / 4 {
            return;
        }
        self.is_hopeless = populate(file, start, end).is_none();
        self.next = end;
    }
}

/// Has the kernel clear the pages of these chunks.
fn populate(file: &File, start: u64, end: u64) -> Option<()> {
    let length = usize::try_from((end - start) * layout::CHUNK_SIZE).ok()?;
    let mut options = MmapOptions::new();
    options.offset(layout::HEADER_BLOCK + start * layout::CHUNK_SIZE).len(length);
    let pages = options.map_raw(file).ok()?;
    // SAFETY: the mapping is ours, and what it holds stays as it is. Where the file was made shorter this is an error,
    // and not a signal.
    let result =
        unsafe { libc::madvise(pages.as_mut_ptr().cast(), length, libc::MADV_POPULATE_WRITE) };
    (result == 0).then_some(())
}

/// Are the pages of `file` nowhere but in memory (tmpfs)? A program that reads one then gets those around it too.
pub(super) fn is_in_memory(file: &File) -> bool {
    // SAFETY: filled by the call below, and zeroes are a value of it.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the result goes to a value of ours.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) };
    // C libraries disagree about signs.
    result == 0 && i128::from(found.f_type) == i128::from(libc::TMPFS_MAGIC)
}

/// Bytes where a file is: those that are free, and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) free: u64,
    pub(super) size: u64,
}

impl Space {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let found = rustix::fs::fstatvfs(file)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Self { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_ready_ahead_of_those_who_take_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(layout::HEADER_BLOCK + 1000 * layout::CHUNK_SIZE).unwrap();
        let mut prepared = Prepared::default();
        prepared.keep_ahead(&file, 1, 0, 1000);
        assert_eq!(prepared.next, 1 + LEAST);
        // A few were taken: not worth a system call yet.
        prepared.keep_ahead(&file, 3, 0, 1000);
        assert_eq!(prepared.next, 1 + LEAST);
        // The faster they are taken, the more are ready, up to what there is room for.
        prepared.keep_ahead(&file, 100, 97, 1000);
        assert_eq!(prepared.next, 100 + LEAST + 4 * 97);
        prepared.keep_ahead(&file, 990, 400, 1000);
        assert_eq!((prepared.next, prepared.is_hopeless), (1000, false));
    }

    #[test]
    fn entries_and_calls_without_times_are_too_fast_for_it() {
        let worth = |untimed, entries| is_worth_it(&Scope { entries, untimed, ..Scope::default() });
        assert!(worth(false, false));
        assert!(!worth(true, false) && !worth(false, true) && !worth(true, true));
    }

    #[test]
    fn a_file_that_was_made_shorter_is_let_alone() {
        let file = tempfile::tempfile().unwrap();
        let mut prepared = Prepared::default();
        prepared.keep_ahead(&file, 1, 0, 1000);
        assert!(prepared.is_hopeless);
    }
}
