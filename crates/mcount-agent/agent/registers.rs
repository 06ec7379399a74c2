//! What a recipe copies from: registers that an entry or an exit has saved, the stack, and memory that they lead to.

use crate::host::Agent;
use mcount_cpu::here::agent::{PLACE_OF_RESULT, READ_MEMORY, saved};
use mcount_recorder::abi::recipe::{PLACE, STACK};
use mcount_recorder::{Host, shadow, sys};

const PAGE: u64 = 4096;

/// The registers at the entry of a function, or at its exit.
pub(crate) struct Registers {
    pub(crate) slot: u64,
    /// The routine saved these of the others.
    pub(crate) state: *const u8,
}

impl Registers {
    /// Copies the value with this source; the stack's is that many bytes above the slot.
    pub(crate) fn copy(&self, source: u64, offset: u64, to: &mut [u8]) {
        if source == STACK {
            return self.copy_stack(self.slot + 8 + offset, to);
        }
        // SAFETY: the routine has saved that many bytes there, or the entry has kept the place.
        let found = unsafe {
            let (from, size) = match source {
                PLACE if PLACE_OF_RESULT.is_some() => (place_of(self.slot).cast_const().cast(), 8),
                _ => saved(self.slot, self.state, source),
            };
            core::slice::from_raw_parts(from, size)
        };
        let found = found.get(offset as usize..).unwrap_or_default();
        for (room, byte) in to.iter_mut().zip(found) {
            *room = *byte;
        }
    }

    /// The stack may end there: if a function is called with fewer arguments than it has.
    fn copy_stack(&self, from: u64, to: &mut [u8]) {
        let end = from + to.len() as u64;
        if from / PAGE == self.slot / PAGE && (end - 1) / PAGE == from / PAGE {
            // SAFETY: the page that the slot is in is there.
            to.copy_from_slice(unsafe { core::slice::from_raw_parts(from as *const u8, to.len()) });
        } else {
            read(from, to);
        }
    }

    pub(crate) fn word(&self, source: u64, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.copy(source, offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Where it's kept until the exit where a result in memory goes, if a register says that at the entry. Slots are 16 bytes apart then, as stack
/// pointers are, so one word of two of a shadow is free.
pub(crate) fn place_of(slot: u64) -> *mut u64 {
    shadow::of::<Agent>(slot - 8).start
}

/// Reads memory that may not be there; how many bytes of it are, from the first on.
pub(crate) fn read(from: u64, to: &mut [u8]) -> usize {
    let size = to.len() as u64;
    let first = size.min(PAGE - from % PAGE);
    let local = [to.as_mut_ptr() as u64, size];
    // Two pieces: if the second page isn't there, the first one still is read.
    let remote = [from, first, from.wrapping_add(first), size - first];
    let count = if first == size { 1 } else { 2 };
    if Agent::is_confined() {
        return 0;
    }
    let process = u64::from(sys::process_id());
    // SAFETY: it writes to `to` only.
    let result = unsafe {
        sys::call(
            READ_MEMORY,
            [process, (&raw const local) as u64, 1, (&raw const remote) as u64, count, 0],
        )
    };
    usize::try_from(result).unwrap_or(0).min(to.len())
}
