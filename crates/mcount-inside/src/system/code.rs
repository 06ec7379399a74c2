//! Writing code that other threads execute.
//!
//! `/proc/self/mem` writes to pages that can't be written otherwise, so code never is writable. Where that is
//! forbidden, the page is made writable for the moment, and stays executable meanwhile: other threads run in
//! it, so there's no way around that.

use crate::error::{Error, ErrorKind};
use crate::files;
use mcount_live::engine;
use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
const PAGE: u64 = 4096;
const BYTES: usize = 4096;

/// `membarrier(2)`.
const REGISTER_SYNC_CORE: libc::c_long = 64;
const SYNC_CORE: libc::c_long = 32;

/// Why code could not be changed. It's plain data, because other threads may stand meanwhile, with the lock of `malloc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    what: &'static str,
    error: i32,
}

impl Refused {
    fn by(what: &'static str) -> Self {
        // SAFETY: this thread's own.
        Self { what, error: unsafe { *libc::__errno_location() } }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let why = std::io::Error::from_raw_os_error(refused.error);
        Self::new(ErrorKind::Denied, format!("{}: {why}", refused.what))
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// The code of this process. Writes to one page are collected, and made at once.
pub(crate) struct Code {
    file: Option<File>,
    page: u64,
    bytes: [u8; BYTES],
    /// What of the page is to be written.
    first: usize,
    end: usize,
}

impl Code {
    /// Gets ready to write. Nothing is kept open longer than this lives: a program may close all its descriptors.
    pub(crate) fn open() -> Self {
        let file = files::open_to_change("/proc/self/mem").ok();
        Self { file, page: 0, bytes: [0; BYTES], first: 0, end: 0 }
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = self.bytes.get(self.first..self.end).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.page + self.first as u64;
        let is_written =
            self.file.as_ref().is_some_and(|file| file.write_all_at(bytes, at).is_ok());
        if !is_written {
            // From now on the other way.
            self.file = None;
            write_protected(self.page, at, bytes)?;
        }
        (self.first, self.end) = (0, 0);
        Ok(())
    }

    fn load(&mut self, page: u64) {
        let read = self
            .file
            .as_ref()
            .is_some_and(|file| file.read_exact_at(&mut self.bytes, page).is_ok());
        if !read {
            // SAFETY: a site is in it, so the page is mapped; code that can't be read is there only for those who
            // asked for it, and they have /proc/self/mem.
            unsafe {
                std::ptr::copy_nonoverlapping(page as *const u8, self.bytes.as_mut_ptr(), BYTES);
            }
        }
        self.page = page;
    }
}

impl engine::Code for Code {
    type Error = Refused;

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        for (at, byte) in (address..).zip(bytes) {
            let page = at & !(PAGE - 1);
            if page != self.page || self.end == 0 {
                self.flush()?;
                self.load(page);
            }
            let offset = usize::try_from(at - page).unwrap_or(0);
            if let Some(room) = self.bytes.get_mut(offset) {
                *room = *byte;
            }
            self.first = if self.end == 0 { offset } else { self.first.min(offset) };
            self.end = self.end.max(offset + 1);
        }
        Ok(())
    }

    fn synchronize(&mut self) -> Result<()> {
        self.flush()?;
        synchronize()
    }
}

/// Writes to a page that is executable, and stays so.
fn write_protected(page: u64, at: u64, bytes: &[u8]) -> Result<()> {
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: code of a loaded module, which is what it was before when this returns.
    unsafe {
        if libc::mprotect(page as *mut c_void, BYTES, all) != 0 {
            return Err(Refused::by("the system doesn't let code be changed"));
        }
        for (place, byte) in (at..).zip(bytes) {
            // A byte that is what it was isn't written.
            let place = place as *mut u8;
            if place.read_volatile() != *byte {
                place.write_volatile(*byte);
            }
        }
        let usual = libc::PROT_READ | libc::PROT_EXEC;
        match libc::mprotect(page as *mut c_void, BYTES, usual) {
            0 => Ok(()),
            _ => Err(Refused::by("mprotect")),
        }
    }
}

/// Lets the kernel know that [`synchronize`] will be called.
pub(crate) fn register() -> bool {
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) == 0 }
}

/// When this returns, no processor executes what it had fetched before.
pub(crate) fn synchronize() -> Result<()> {
    // SAFETY: takes numbers.
    if unsafe { libc::syscall(libc::SYS_membarrier, SYNC_CORE, 0, 0) == 0 } {
        return Ok(());
    }
    // Without it: taking access to a page away interrupts every processor that runs a thread of this
    // process, and the return from an interrupt does the same.
    // SAFETY: a page of its own.
    unsafe {
        let all = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), BYTES, all, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(Refused::by("mmap"));
        }
        page.cast::<u8>().write_volatile(1);
        let done = libc::mprotect(page, BYTES, libc::PROT_READ);
        libc::munmap(page, BYTES);
        match done {
            0 => Ok(()),
            _ => Err(Refused::by("mprotect")),
        }
    }
}
