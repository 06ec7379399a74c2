//! Memory for stubs, within reach of a jump from a module.

use crate::arch::{self, PAGE};
use crate::error::{Error, ErrorKind, Result};
use mcount_hooks::maps;
use mcount_hooks::near::Near;
use std::ffi::c_void;

/// How far a jump reaches, less what a module's ends may be beyond a place in it.
const REACH: u64 = arch::REACH - (1 << 20);

/// Mapped memory near a module, to be filled and then executed.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) size: u64,
}

impl Region {
    /// Maps `size` bytes, or a bit more, outside of the module at `extent`, that every place between two of `sites` can jump to. They can
    /// be written.
    pub(crate) fn map(extent: (u64, u64), sites: (u64, u64), size: u64) -> Result<Self> {
        let size = size.next_multiple_of(PAGE);
        // Without /proc, nothing is known, and it's tried.
        let taken = maps::ranges(&maps::read("self").unwrap_or_default());
        let near = Near { extent, sites, size, reach: REACH, page: PAGE };
        let found = near.places(&taken).find_map(|start| map_at(start, size));
        found.map(|start| Self { start, size }).ok_or_else(|| {
            let (low, high) = extent;
            let text = format!(
                "no free memory within {} MiB of the module at {low:#x} to {high:#x}",
                arch::REACH >> 20
            );
            Error::new(ErrorKind::NoRoom, text)
        })
    }

    /// Writes to its start, as long as it isn't code.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        let size = bytes.len().min(usize::try_from(self.size).unwrap_or(0));
        // SAFETY: the region is ours, nobody else knows of it yet, and it has that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start as *mut u8, size) };
    }

    /// Makes it code, which can't be written any more.
    pub(crate) fn make_code(&self) -> Result<()> {
        let size = usize::try_from(self.size).unwrap_or(0);
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the region is ours.
        match unsafe { libc::mprotect(self.start as *mut c_void, size, protection) } {
            0 => {
                arch::fetch_anew(self.start, self.size);
                Ok(())
            }
            _ => Err(Error::system(ErrorKind::Denied, "the system doesn't allow new code")),
        }
    }

    /// Gives it back. No thread runs in it any more.
    pub(crate) fn unmap(self) {
        let size = usize::try_from(self.size).unwrap_or(0);
        // SAFETY: the region is ours.
        unsafe { libc::munmap(self.start as *mut c_void, size) };
    }
}

/// Maps memory at exactly this address, if it is free.
fn map_at(start: u64, size: u64) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let size = usize::try_from(size).ok()?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: nothing that is mapped is replaced.
    let found = unsafe { libc::mmap(start as *mut c_void, size, protection, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return None;
    }
    if found as u64 != start {
        // A kernel before 4.17 takes the address for a hint.
        // SAFETY: it was mapped just now.
        unsafe { libc::munmap(found, size) };
        return None;
    }
    Some(start)
}
