//! AArch64. The first entry of a PLT is told by `x16` which word is to be filled in: its address.

use super::First;
use crate::trace::processor::{STUB, armed, stub as stub_of};
use mcount_cpu::aarch64::code::BREAKPOINT;

/// Where in a gate its site is.
pub(super) const GATE_SITE: u64 = 0;
/// And where the function goes on.
pub(super) const GATE_BODY: u64 = 8;

/// Bytes of a call by a word. Such calls aren't replaced here.
pub(super) const BY_WORD: usize = 4;

/// The stub at `stub` of the function with this number, which goes to this routine at the entry, and the gate after it, which goes on
/// by the word at `by`. `None` if something is out of reach.
pub(super) fn pair(
    stub: u64,
    (entry, exit): (u64, u64),
    by: u64,
    number: u32,
) -> Option<[u8; 2 * STUB]> {
    let gate = stub + STUB as u64;
    let made = stub_of(None, stub, (entry, entry, exit), gate + GATE_BODY, number)?;
    let words = [
        u32::from_le_bytes(armed(gate, stub)?),
        u32::from_le_bytes(BREAKPOINT),
        0x5800_0090, // ldr x16, by
        0xf940_0211, // ldr x17, [x16]
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
    ];
    let mut bytes = made.to_vec();
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(by.to_le_bytes());
    bytes.resize(2 * STUB, 0);
    bytes.try_into().ok()
}

/// The changes to this code, with which a PLT begins.
pub(super) fn first(code: [u8; 8]) -> First {
    /// `bti c`; `stp x16, x30, [sp, #-16]!`.
    const PAD: u32 = 0xd503_245f;
    const STORES: u32 = 0xa9bf_7bf0;
    let words = code.as_chunks().0;
    let words = words.iter().map(|word| u32::from_le_bytes(*word));
    match words.skip_while(|word| *word == PAD).next() {
        Some(STORES) => First::Loads,
        _ => First::Unknown,
    }
}

/// Code that goes to `place` with the address of a word.
pub(super) fn load_and_jump(_index: u32, word: u64, place: u64) -> [u8; STUB] {
    let mut bytes = [0; STUB];
    let words = [
        0x5800_0090, // ldr x16, word
        0x5800_00b1, // ldr x17, place
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
    ];
    let words = words.into_iter().flat_map(u32::to_le_bytes);
    let all = words.chain(word.to_le_bytes()).chain(place.to_le_bytes());
    for (room, byte) in bytes.iter_mut().zip(all) {
        *room = byte;
    }
    bytes
}

/// A jump by a word: there's none of one instruction.
pub(super) fn jump_by(_from: u64, _word: u64) -> Option<[u8; BY_WORD]> {
    None
}

/// A call by a word: the same.
pub(super) fn direct(_code: [u8; BY_WORD], _from: u64, _target: u64) -> Option<[u8; BY_WORD]> {
    None
}

/// Where such a call leads to: there are none.
pub(super) fn direct_target(_code: [u8; BY_WORD], _from: u64) -> Option<u64> {
    None
}
