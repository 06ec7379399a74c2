//! x86-64: instructions name words by their distance.

use super::Uses;
use std::collections::{BTreeMap, HashMap};

/// Relocations of words that are for calls, and of those for addresses (x86-64 psABI, 4.4.1).
pub(super) const JUMP_SLOT: u32 = 7;
pub(super) const GLOB_DAT: u32 = 6;

/// Adds what the code `bytes` at `start` does with `words`, which are from `first` to `last`.
pub(super) fn add_uses<T>(
    (start, bytes): (u64, &[u8]),
    words: &BTreeMap<u64, T>,
    (first, last): (u64, u64),
    uses: &mut HashMap<u64, Uses>,
) {
    let span = last - first;
    for (at, distance) in bytes.windows(4).enumerate() {
        let distance = distance.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
        let behind = start.wrapping_add(at as u64 + 4);
        let target = behind.wrapping_add_signed(i64::from(distance));
        // An immediate operand of up to four bytes may follow.
        if target.wrapping_sub(first.wrapping_sub(4)) > span.saturating_add(4) {
            continue;
        }
        let before = at.checked_sub(2).and_then(|from| bytes.get(from..at));
        let start = behind.wrapping_sub(6);
        add_use(words, uses, (target, start), before.unwrap_or_default());
    }
}

/// Adds what an instruction does whose distance leads to `target`; if it's a call or a jump by a word, it begins at `start` with the bytes
/// `opcode`.
fn add_use<T>(
    words: &BTreeMap<u64, T>,
    uses: &mut HashMap<u64, Uses>,
    (target, start): (u64, u64),
    opcode: &[u8],
) {
    for operand in [0, 1, 2, 4] {
        let word = target.wrapping_add(operand);
        if !words.contains_key(&word) {
            continue;
        }
        let uses = uses.entry(word).or_default();
        match (operand, opcode) {
            (0, [0xff, kind @ (0x15 | 0x25)]) => {
                uses.sites.push(start);
                uses.has_calls |= *kind == 0x15;
            }
            _ => uses.others += 1,
        }
    }
}
