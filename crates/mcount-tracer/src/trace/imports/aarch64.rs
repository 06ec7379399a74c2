//! AArch64: two instructions load a word, one the address of its page, and the other the word.

use super::Uses;
use std::collections::{BTreeMap, HashMap};

/// Relocations of words that are for calls, and of those for addresses (ELF for the Arm 64-bit Architecture, 5.7.14).
pub(super) const JUMP_SLOT: u32 = 1026;
pub(super) const GLOB_DAT: u32 = 1025;

/// How many instructions behind one that belongs to it another is looked for.
const NEAR: usize = 16;

/// Adds what the code `bytes` at `start` does with `words`, which are from `first` to `last`. A call goes by a register that has been
/// loaded from a word, so none is one that can be replaced.
pub(super) fn add_uses<T>(
    (start, bytes): (u64, &[u8]),
    words: &BTreeMap<u64, T>,
    (first, last): (u64, u64),
    uses: &mut HashMap<u64, Uses>,
) {
    let code: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    for (at, instruction) in code.iter().enumerate() {
        let Some((register, page)) = page(*instruction, start.wrapping_add(4 * at as u64)) else {
            continue;
        };
        if page > last || page.saturating_add(1 << 15) < first {
            continue;
        }
        let rest = code.get(at + 1..).unwrap_or_default();
        for (behind, instruction) in rest.iter().take(NEAR).enumerate() {
            if self::page(*instruction, 0).is_some_and(|(other, _)| other == register) {
                break;
            }
            let Some((to, distance)) = load(*instruction, register) else { continue };
            let word = page.wrapping_add(distance);
            if words.contains_key(&word) {
                let uses = uses.entry(word).or_default();
                uses.others += 1;
                let then = rest.get(behind + 1..).unwrap_or_default();
                uses.has_calls |= then.iter().take(NEAR).any(|one| *one == call(to));
            }
        }
    }
}

/// The register and the page of an `adrp` at `place`.
fn page(instruction: u32, place: u64) -> Option<(u32, u64)> {
    let is_it = instruction & 0x9f00_0000 == 0x9000_0000;
    let low = instruction >> 29 & 3;
    let pages = (instruction << 8).cast_signed() >> 13 << 2 | low.cast_signed();
    let page = (place & !0xfff).wrapping_add_signed(i64::from(pages) << 12);
    is_it.then_some((instruction & 31, page))
}

/// The register that an `ldr` of eight bytes loads, and how far from what `base` has.
fn load(instruction: u32, base: u32) -> Option<(u32, u64)> {
    let is_it = instruction & 0xffc0_0000 == 0xf940_0000 && instruction >> 5 & 31 == base;
    is_it.then_some((instruction & 31, u64::from(instruction >> 10 & 0xfff) * 8))
}

/// `blr` by a register.
fn call(register: u32) -> u32 {
    0xd63f_0000 | register << 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_loaded_are_found() {
        // adrp x1, 0x20000; mov x0, x2; ldr x3, [x1, #4056]; blr x3; and one that isn't called
        let code: [u32; 6] =
            [0x9000_0101, 0xaa02_03e0, 0xf947_ec23, 0xd63f_0060, 0x9000_0101, 0xf947_f024];
        let bytes: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
        let words = BTreeMap::from([(0x20fd8, ()), (0x20fe0, ()), (0x20fe8, ())]);
        let mut uses = HashMap::new();
        add_uses((0x0, &bytes), &words, (0x20fd8, 0x20fe8), &mut uses);
        let found = |word: u64| uses.get(&word).map(|uses| (uses.others, uses.has_calls));
        assert_eq!(found(0x20fd8), Some((1, true)));
        assert_eq!(found(0x20fe0), Some((1, false)));
        assert_eq!(found(0x20fe8), None);
        // adrp x16, -1 page
        assert_eq!(page(0xf0ff_fff0, 0x1004), Some((16, 0)));
    }
}
