//! Writing code that other threads execute.
//!
//! `/proc/self/mem` writes to pages that can't be written otherwise, so code never is writable. Where that is
//! forbidden, the page is made writable for the moment, and stays executable meanwhile: other threads run in
//! it, so there's no way around that.
//!
//! Most processors want an instruction to be written by one store of a word, and to be told to fetch it anew. The kernel
//! does both where it writes; where it doesn't, so does [`Code::store`].

use crate::arch::{self, IS_STORED_BY_KERNEL, STORE};
use crate::error::{Error, ErrorKind};
use crate::files;
use mcount_cpu::engine;
use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes of a store, where code is written by stores.
const UNIT: usize = if STORE == 0 { 1 } else { STORE };

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
        let file = files::open_to_change("/proc/self/mem").ok().filter(|_| IS_STORED_BY_KERNEL);
        let file = file.filter(|file| cfg!(target_arch = "x86_64") || is_effective(file));
        Self { file, page: 0, bytes: [0; BYTES], first: 0, end: 0 }
    }

    /// Writes a word, or a part of it, by one store.
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        if self.file.as_ref().is_some_and(|file| file.write_all_at(bytes, address).is_ok()) {
            // The kernel has told the caches.
            return Ok(());
        }
        self.file = None;
        let page = address & !(page_size() - 1);
        if page != self.page {
            self.close()?;
            protect(page, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
            self.page = page;
        }
        // SAFETY: code of a loaded module that can be written now, and whose instructions are aligned.
        unsafe {
            match *bytes {
                [a, b, c, d] => {
                    (address as *mut u32).write_volatile(u32::from_ne_bytes([a, b, c, d]));
                }
                [a, b] => (address as *mut u16).write_volatile(u16::from_ne_bytes([a, b])),
                _ => return Err(Refused { what: "half an instruction", error: libc::EINVAL }),
            }
        }
        arch::stored(address, bytes.len() as u64);
        Ok(())
    }

    /// Makes the page that can be written what it was.
    fn close(&mut self) -> Result<()> {
        match std::mem::take(&mut self.page) {
            0 => Ok(()),
            page => protect(page, libc::PROT_READ | libc::PROT_EXEC),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if STORE != 0 {
            return self.close();
        }
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
        if STORE != 0 {
            // Thumb code may begin in the middle of a word, and another page with the next one.
            let (head, rest) = bytes.split_at(to_next_unit(address).min(bytes.len()));
            if !head.is_empty() {
                self.store(address, head)?;
            }
            let mut parts = (address + head.len() as u64..).step_by(UNIT).zip(rest.chunks(UNIT));
            return parts.try_for_each(|(at, part)| self.store(at, part));
        }
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

impl Drop for Code {
    fn drop(&mut self) {
        if STORE != 0 {
            let _ = self.close();
        }
    }
}

/// Bytes from `address` to the next word that's stored at once.
fn to_next_unit(address: u64) -> usize {
    usize::try_from(address.next_multiple_of(UNIT as u64) - address).unwrap_or(0)
}

/// Is code that's written through this file, `/proc/self/mem`, executed? It isn't where an emulator runs the program and lends
/// it its own file. Tried once, with a function in a page of our own.
fn is_effective(file: &File) -> bool {
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    if KNOWN.load(Relaxed) == UNKNOWN {
        KNOWN.store(if try_file(file).is_some() { YES } else { NO }, Relaxed);
    }
    KNOWN.load(Relaxed) == YES
}

/// Does an emulator run the program?
pub(crate) fn is_emulated() -> bool {
    let file = files::open_to_change("/proc/self/mem");
    file.is_ok_and(|file| !is_effective(&file))
}

fn try_file(file: &File) -> Option<()> {
    let (first, second) = (arch::answer(1), arch::answer(2));
    let size = usize::try_from(page_size()).ok()?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a page of our own, with a whole function in it before it's called.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        page.cast::<[u8; 8]>().write_volatile(first);
        let is_code = libc::mprotect(page, size, libc::PROT_READ | libc::PROT_EXEC) == 0;
        let result = is_code.then(|| {
            let at = page as u64;
            arch::fetch_anew(at, 8);
            let call: extern "C" fn() -> u32 = std::mem::transmute(page);
            let mut there = [0; 8];
            // Another process's memory may be there, and must not be written to.
            let is_ours = call() == 1 && file.read_exact_at(&mut there, at).is_ok();
            let is_same = is_ours && there == first;
            let is_written = is_same && file.write_all_at(&second, at).is_ok();
            (is_written && call() == 2).then_some(())
        });
        libc::munmap(page, size);
        result.flatten()
    }
}

/// Bytes of a page of this system.
fn page_size() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE)
}

fn protect(page: u64, protection: libc::c_int) -> Result<()> {
    let size = usize::try_from(page_size()).unwrap_or(BYTES);
    // SAFETY: code of a loaded module, which stays code.
    match unsafe { libc::mprotect(page as *mut c_void, size, protection) } {
        0 => Ok(()),
        _ => Err(Refused::by("the system doesn't let code be changed")),
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
    if arch::fetch_anew_everywhere() {
        return Ok(());
    }
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
