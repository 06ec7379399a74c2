//! Parts that differ by processor: relocations of an object that's patched in, the code that leads to it, and
//! registers (`patch.rs` in its folder of `mcount-cpu`).
//!
//! An armed site jumps to its function's *gate*, which loads the address of the function's slot and jumps to where that
//! points: to the body of the old function, or to a new one. So any number of functions change by the write of one page, and
//! an object may lie anywhere.

pub(super) use mcount_cpu::here::outside::MACHINE;
pub(super) use mcount_cpu::here::patch::*;
pub(super) use mcount_cpu::outside::patch::Wants;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

/// The processors' extensions that unwind information has.
pub(super) const VENDOR: gimli::Vendor =
    if SIGNS_ADDRESSES { gimli::Vendor::AArch64 } else { gimli::Vendor::Default };

/// May a function of this file that begins with this code be called by its address? With landing pads, compilers know which ones are.
pub(super) fn is_function_callable(file: &ElfFile64<'_, Endianness>, code: &[u8]) -> bool {
    let notes = file.section_by_name(".note.gnu.property").and_then(|notes| notes.data().ok());
    is_callable(notes.unwrap_or_default(), code)
}

/// The arguments of a function's resolver in `process`, and what is to be at `room` then.
pub(super) fn arguments_of_chooser(process: i32, room: u64) -> ([u64; 2], Vec<u8>) {
    let path = format!("/proc/{process}/auxv");
    let vector = crate::files::read_to_end(path.as_ref()).unwrap_or_default();
    let words: Vec<u64> =
        vector.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    chooser_arguments(&words, room)
}
