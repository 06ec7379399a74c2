//! AArch64: all instructions have four bytes, and so has the jump. So one instruction moves, nothing can lead inside it, and a function is
//! probed by one store.
//!
//! Landing pads of indirect branches stay where they are: `bti c`, and `paciasp` or `pacibsp`, which sign the return address. The
//! instruction behind them moves. Behind a `paciasp` the stub undoes the signature before the call is recorded, and signs what the
//! recorder has put in its place: whatever processor and whatever protection of the page, the function finds what it expects.
//!
//! What names other places relative to itself is rewritten (`adr`, `adrp`, `ldr`, `b`, `cbz` and their like). All other instructions are
//! copied. Exclusive loads stay where they are: nobody promises that a store behind so many other instructions still succeeds.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), C4 ("A64 Instruction Set Encoding"); ELF and DWARF for the Arm
//! 64-bit Architecture.

mod instruction;
mod link;
mod relocate;
mod scan;
mod stub;

use self::instruction::{Flow, PAGE, can_move, flow, is_allocated, page};
use self::relocate::{MOVED_MOST, relocate};
use self::scan::scan;
use super::code::{NOP, SITE};
use crate::outside::words;
use crate::probe::{
    Beginning, Calls, Entry, ProbeStubs, Probes, References, Relocations, Returns, Unmovable,
};

/// Relocations by ELF for the Arm 64-bit Architecture, 5.7; registers by DWARF for it, 4.1.
pub static PROBES: Probes = Probes {
    name: "AArch64",
    machine: 183,
    relocations: Relocations {
        absolute: 257,
        glob_dat: 1025,
        jump_slot: 1026,
        relative: 1027,
        irelative: 1032,
    },
    calls: Calls {
        stack_pointer: 31,
        frame_pointer: 29,
        return_address: 30,
        cfa: 0,
        returns: Returns::InRegister,
    },
    jump: SITE,
    moved_most: MOVED_MOST,
    has_markers: false,
    has_mapping_symbols: true,
    has_scaled_tables: true,
    entry,
    beginning,
    is_nop_at,
    is_padding,
    jumps_by,
    scan,
    far,
    relocate,
    // A word that any instruction takes the place of isn't one that may be changed while threads execute it (Arm ARM, B2.2.5).
    puns: None,
    stub: Some(ProbeStubs { make: stub::stub, size: stub::SIZE }),
};

/// `bti c`, `bti jc`.
const PADS: [u32; 2] = [0xd503_245f, 0xd503_24df];
/// `paciasp`, `pacibsp`: landing pads as well.
const SIGNS: [u32; 2] = [0xd503_233f, 0xd503_237f];

/// The instruction at the start of `bytes`.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Where a function's first instruction is that may move.
fn entry(bytes: &[u8], start: u64) -> Entry {
    let mut words = words(bytes);
    let mut entry = Entry { at: start, is_signed: false };
    let mut next = words.next();
    if next.is_some_and(|word| PADS.contains(&word)) {
        entry.at = entry.at.saturating_add(4);
        next = words.next();
    }
    if next.is_some_and(|word| SIGNS.contains(&word)) {
        entry = Entry { at: entry.at.saturating_add(4), is_signed: true };
    }
    entry
}

/// The instruction at `entry`.
fn beginning(bytes: &[u8], entry: u64) -> Result<Beginning, Unmovable> {
    let Some(word) = word(bytes) else { return Ok(Beginning { moved: 0, goes_on: true }) };
    if !entry.is_multiple_of(4) || !is_allocated(word) {
        return Err(Unmovable::NotDecoded(entry));
    }
    if !can_move(word) {
        return Err(Unmovable::Instruction(entry));
    }
    let goes_on = matches!(flow(word, entry), Flow::Next | Flow::Branch(_) | Flow::Call(_));
    Ok(Beginning { moved: SITE, goes_on })
}

/// Whether the instruction at `at` does nothing.
fn is_nop_at(bytes: &[u8], start: u64, at: u64) -> bool {
    let offset = at.checked_sub(start).and_then(|offset| usize::try_from(offset).ok());
    let code = offset.and_then(|offset| bytes.get(offset..));
    at.is_multiple_of(4) && code.is_some_and(|code| code.starts_with(&NOP))
}

/// Whether `bytes` begin with `length` bytes of NOPs.
fn is_padding(bytes: &[u8], length: usize) -> bool {
    let count = length.div_ceil(SITE);
    bytes.chunks_exact(SITE).take(count).filter(|word| *word == NOP).count() == count
}

/// The word that an entry of a procedure linkage table jumps by: `adrp x16, …`, `ldr x17, [x16, …]`, `add x16, x16, …`, `br x17`.
fn jumps_by(bytes: &[u8], address: u64) -> Option<u64> {
    let mut words = words(bytes);
    let [first, load, _, jump] = [(); 4].map(|()| words.next());
    let (first, load) = (first?, load?);
    let is_entry = first & 0x1f == 16
        && load & 0xffc0_03ff == 0xf940_0211
        && jump == Some(0xd61f_0220)
        && address.is_multiple_of(4);
    let page = page(first, address).filter(|_| is_entry && first & PAGE == PAGE)?;
    Some(page.wrapping_add(u64::from(load >> 10 & 0xfff) * 8))
}

/// Nothing: all instructions are where the scan finds them.
fn far(_bytes: &[u8], _start: u64, _references: &mut References) {}

#[cfg(test)]
mod tests;
