//! The hooks of the program and their names: two tables that the linker script puts between symbols.

use crate::processor::{self, BEFORE, PAIR, SITE};
use core::ffi::{CStr, c_char};
use core::ptr::addr_of;
use core::slice;
use mcount_cpu::engine::Change;

unsafe extern "C" {
    static hooks_start: u64;
    static hooks_stop: u64;
    static names_start: Name;
    static names_stop: Name;
}

/// A hook and what its function is called.
#[repr(C)]
struct Name {
    hook: u64,
    name: *const c_char,
}

/// What lies between two symbols of the linker script.
fn between<T>(start: *const T, stop: *const T) -> &'static [T] {
    let count = (stop as usize - start as usize) / size_of::<T>();
    // SAFETY: there's an array from the one to the other, and nobody changes it.
    unsafe { slice::from_raw_parts(start, count) }
}

/// A hook, by its address: that of the first NOP, which the compiler has put into its list of patchable entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook(pub(crate) u64);

/// All hooks.
pub(crate) fn hooks() -> impl Iterator<Item = Hook> {
    between(addr_of!(hooks_start), addr_of!(hooks_stop)).iter().copied().map(Hook)
}

impl Hook {
    /// What `hooks_idle` makes of it. `None`: it isn't what a compiler leaves, or the routine is out of reach.
    pub(crate) fn first_change(self) -> Option<Change<PAIR>> {
        let there = self.code();
        let idle = processor::idle(self.0)?;
        processor::NOPS.contains(&there).then(|| Change::whole(self.0, there, idle))
    }

    /// From idle to armed, or back. `None`: somebody else has changed it, or nothing has made it idle.
    pub(crate) fn change(self, is_armed: bool) -> Option<Change<SITE>> {
        let (idle, armed) = (processor::idle(self.0)?, processor::armed(self.0)?);
        let there = self.code();
        if there != idle && there != armed {
            return None;
        }
        let to = if is_armed { armed } else { idle };
        Some(Change::whole(self.0 + BEFORE as u64, exchanged(there)?, exchanged(to)?))
    }

    /// The two instructions.
    fn code(self) -> [u8; PAIR] {
        // SAFETY: the table has addresses of code, which nobody writes now.
        let halves = unsafe { (self.0 as *const [u16; PAIR / 2]).read_volatile() };
        let mut bytes = [0; PAIR];
        for (room, half) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            *room = half.to_ne_bytes();
        }
        bytes
    }

    /// What its function is called.
    pub(crate) fn name(self) -> Option<&'static CStr> {
        let names = between(addr_of!(names_start), addr_of!(names_stop));
        let name = names.iter().find(|name| name.hook == self.0)?;
        // SAFETY: `names.sh` has written a string.
        Some(unsafe { CStr::from_ptr(name.name) })
    }

    /// Does `glob` match this name? `*` stands for any characters.
    pub(crate) fn matches(self, glob: &[u8]) -> bool {
        self.name().is_some_and(|name| matches(glob, name.to_bytes()))
    }
}

/// Which of the bytes differ between idle and armed.
fn exchanged(pair: [u8; PAIR]) -> Option<[u8; SITE]> {
    pair.get(BEFORE..)?.first_chunk().copied()
}

fn matches(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, later))) => matches(rest, name) || matches(glob, later),
        (Some((one, rest)), Some((other, later))) => one == other && matches(rest, later),
        _ => false,
    }
}
