//! Where records are: memory that is never given back, because threads may be on their way through it.
//!
//! A record is found by its number, and numbers count from 1.

use crate::record::Record;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Records in a region of memory, and how many regions there can be: 16 million functions, as in a trace.
const REGION: u32 = 1 << 16;
const REGIONS: usize = 256;

static ALL: [AtomicPtr<Record>; REGIONS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; REGIONS];
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The record with this number.
pub(crate) fn get(id: u32) -> Option<&'static Record> {
    if id == 0 || id >= NEXT.load(Ordering::Acquire) {
        return None;
    }
    let region = ALL.get((id / REGION) as usize)?.load(Ordering::Acquire);
    // SAFETY: a record with a number that has been given out is there.
    (!region.is_null()).then(|| unsafe { &*region.add((id % REGION) as usize) })
}

/// Makes a record; `None` if there's no memory, or if there are too many. The caller holds the lock of the program.
pub(crate) fn add(record: impl FnOnce(u32) -> Record) -> Option<&'static Record> {
    let id = NEXT.load(Ordering::Acquire);
    let place = ALL.get((id / REGION) as usize)?;
    if place.load(Ordering::Acquire).is_null() {
        place.store(map()?, Ordering::Release);
    }
    let at = place.load(Ordering::Acquire).wrapping_add((id % REGION) as usize);
    // SAFETY: there is room, and nobody else has it yet.
    unsafe { at.write(record(id)) };
    NEXT.store(id + 1, Ordering::Release);
    get(id)
}

/// A number that no record has, for a function of which there's no site.
pub(crate) fn number() -> Option<u32> {
    let unused = Record {
        body: AtomicU64::new(0),
        enter: AtomicU64::new(0),
        list: AtomicPtr::new(std::ptr::null_mut()),
        flags: AtomicU32::new(0),
        id: 0,
        function: std::ptr::null(),
        original: AtomicU64::new(0),
        site: AtomicU64::new(0),
        frame: 0,
    };
    let mut number = 0;
    add(|id| {
        number = id;
        unused
    })?;
    Some(number)
}

fn map() -> Option<*mut Record> {
    let size = size_of::<Record>() * REGION as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory.
    let found: *mut c_void =
        unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    (found != libc::MAP_FAILED).then_some(found.cast())
}
