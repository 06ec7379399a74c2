//! The modules that are loaded, as `dl_iterate_phdr(3)` lists them. Static programs have one.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One module in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The difference to the addresses of the linker.
    pub(crate) bias: u64,
    /// Where its program headers are: with the bias, what tells it from others.
    pub(crate) headers: u64,
    /// Its first address in memory, and the one behind its last.
    pub(crate) extent: (u64, u64),
    /// Its file, if it has one.
    pub(crate) path: Option<PathBuf>,
    /// Where code is in it: first addresses, and those after the last.
    pub(crate) code: Vec<(u64, u64)>,
}

impl Loaded {
    /// Is it the same one, still loaded?
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.bias, self.headers, self.extent) == (other.bias, other.headers, other.extent)
    }

    /// Where in memory is what's linked to be at `address`?
    pub(crate) fn at(&self, address: u64) -> u64 {
        short(self.bias.wrapping_add(address))
    }

    /// Where what is in memory at `address` was linked to be.
    pub(crate) fn linked(&self, address: u64) -> u64 {
        short(address.wrapping_sub(self.bias))
    }

    /// Is `address` in it?
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.extent.0..self.extent.1).contains(&address)
    }
}

/// An address of as many bits as those of the processor have.
fn short(address: u64) -> u64 {
    address & usize::MAX as u64
}

/// A word of the dynamic linker's, whose type differs by processor.
fn word(value: impl Into<u64>) -> u64 {
    value.into()
}

/// Lists the modules and has `act` look at the list. None of them is unloaded before it returns: the C
/// library holds the lock meanwhile that `dlclose` needs.
pub(crate) fn with_modules<F: FnOnce(&[Loaded]) -> T, T>(act: F) -> T {
    let mut held = Held { act: Some(act), result: None };
    // SAFETY: the callback gets this pointer back and nobody else has it.
    unsafe { libc::dl_iterate_phdr(Some(begin::<F, T>), (&raw mut held).cast()) };
    // A C library without any module to list: there's nothing that could be unloaded either.
    match (held.result, held.act) {
        (Some(result), _) => result,
        (None, Some(act)) => act(&[]),
        (None, None) => unreachable!("the callback takes one and leaves the other"),
    }
}

struct Held<F, T> {
    act: Option<F>,
    result: Option<T>,
}

unsafe extern "C" fn begin<F: FnOnce(&[Loaded]) -> T, T>(
    _: *mut libc::dl_phdr_info,
    _: usize,
    held: *mut c_void,
) -> c_int {
    // SAFETY: `with_modules` passes it.
    let held = unsafe { &mut *held.cast::<Held<F, T>>() };
    let mut found: Vec<Loaded> = Vec::new();
    // The lock is one that a thread can take again.
    // SAFETY: as above.
    unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut found).cast()) };
    if let Some(act) = held.act.take() {
        held.result = Some(act(&found));
    }
    1
}

unsafe extern "C" fn list(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the C library passes the one, `begin` the other.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Loaded>>()) };
    let bias = word(info.dlpi_addr);
    let mut loaded = Loaded {
        bias,
        headers: info.dlpi_phdr as u64,
        extent: (u64::MAX, 0),
        path: None,
        code: Vec::new(),
    };
    if !info.dlpi_phdr.is_null() {
        // SAFETY: that many headers are there.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = short(bias.wrapping_add(word(header.p_vaddr)));
            let end = start.wrapping_add(word(header.p_memsz));
            loaded.extent = (loaded.extent.0.min(start), loaded.extent.1.max(end));
            if header.p_flags & libc::PF_X != 0 {
                loaded.code.push((start, end));
            }
        }
    }
    if found.is_empty() {
        // The program itself: its name here is empty, or as somebody called it.
        loaded.path = Some(PathBuf::from("/proc/self/exe"));
    } else if !info.dlpi_name.is_null() {
        // SAFETY: a string, which lives as long as the module.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        let is_file = name.to_bytes().contains(&b'/');
        loaded.path = is_file.then(|| PathBuf::from(OsStr::from_bytes(name.to_bytes())));
    }
    found.push(loaded);
    0
}
