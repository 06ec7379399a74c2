//! Memory for stubs, within reach of a jump from a module.

use crate::arch::{self, PAGE};
use crate::error::{Error, ErrorKind, Result};
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
        let found = places(extent, sites, size).find_map(|start| map_at(start, size));
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
        // SAFETY: the region is ours, nobody else knows of it yet, and it has so many bytes.
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

/// Where to look: below the module first, because the heap grows above an executable; then far above it; and at last where a heap
/// would grow, since `malloc` does without it.
fn places(
    (low, high): (u64, u64),
    (first, last): (u64, u64),
    size: u64,
) -> impl Iterator<Item = u64> {
    const IS_FAR: bool = REACH >> 30 != 0;
    const STEP: u64 = if IS_FAR { 1 << 20 } else { 1 << 18 };
    const LOWEST: u64 = 1 << 16;
    const HEAP: u64 = if IS_FAR { 1 << 30 } else { REACH / 2 };
    let lowest = last.saturating_sub(REACH).max(LOWEST);
    let below = low.saturating_sub(size + PAGE) & !(PAGE - 1);
    let count = below.saturating_sub(lowest) / STEP;
    let below = (below >= lowest)
        .then_some(below)
        .into_iter()
        .chain((1..=count).map(move |step| below - step * STEP));
    let highest = first.saturating_add(REACH).saturating_sub(size);
    let above = high.saturating_add(HEAP).next_multiple_of(PAGE);
    let above = (0..(HEAP / STEP)).map(move |step| above + step * STEP);
    let heap = high.next_multiple_of(PAGE);
    let heap = (0..(HEAP / STEP)).rev().map(move |step| heap + step * STEP);
    below.chain(above.chain(heap).filter(move |start| *start <= highest))
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

#[cfg(test)]
mod tests {
    use super::{PAGE, REACH, places};

    #[test]
    fn places_are_within_reach_and_not_in_the_module() {
        for extent in [(0x40_0000, 0x80_0000), (0x5555_5555_4000, 0x5555_6000_0000)] {
            let size = 0x10000;
            let mut count = 0;
            for start in places(extent, extent, size) {
                assert!(start + size <= extent.0 || start >= extent.1, "{start:#x}");
                assert!(extent.1.abs_diff(start) <= REACH, "{start:#x}");
                assert!(extent.0.abs_diff(start + size) <= REACH, "{start:#x}");
                count += 1;
            }
            assert!(count > 100, "{count}");
        }
        let low = (0x10_0000, 0x20_0000);
        assert!(places(low, low, 0x1000).all(|start| start >= 0x1_0000));
        // With everything in reach taken but what's just above.
        let extent = (0x7f00_0000_0000, 0x7f00_0123_4000);
        let last = places(extent, extent, 0x10000).last();
        assert_eq!(last, Some(extent.1.next_multiple_of(PAGE)));
    }
}
