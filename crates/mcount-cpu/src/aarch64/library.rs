//! AArch64: calls of library functions. Two instructions load a word, one the address of its page, and the other the word. The first entry of
//! a PLT is told by `x16` which word is to be filled in: its address.

use super::code::{BREAKPOINT, STUB, Traced, armed, stub as stub_of};
use crate::outside::{
    First, ImportedWords, LibraryCalls, Routines, Taken, Unbound, Uses, code, words,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Relocations by ELF for the Arm 64-bit Architecture, 5.7.14. There's no call or jump by a word of one instruction.
pub const LIBRARY_CALLS: LibraryCalls = LibraryCalls {
    jump_slot: 1026,
    glob_dat: 1025,
    add_uses,
    site: 0,
    body: GATE_BODY,
    pair,
    first,
    load_and_jump,
    taken,
    by_word: None,
};

/// Where in a gate the function goes on.
const GATE_BODY: u64 = 8;

/// How many instructions behind one that belongs to it another is looked for.
const NEAR: usize = 16;

/// Adds what the code `bytes` at `start` does with `imported` words. A call goes by a register that has been
/// loaded from a word, so none is one that can be replaced.
fn add_uses(start: u64, bytes: &[u8], imported: ImportedWords<'_>, uses: &mut BTreeMap<u64, Uses>) {
    let ImportedWords { first, last, is_one } = imported;
    let code: Vec<u32> = words(bytes).collect();
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
            if is_one(word) {
                let uses = uses.entry(word).or_default();
                uses.others += 1;
                let then = rest.get(behind + 1..).unwrap_or_default();
                uses.has_calls |= then.iter().take(NEAR).any(|one| *one == call(to));
            }
        }
    }
}

/// Tells of the addresses that the code `bytes` at `start` takes: by `adr`, or by `adrp` and then `add` or `ldr`.
fn taken(start: u64, bytes: &[u8], found: &mut dyn FnMut(Taken)) {
    let code: Vec<u32> = words(bytes).collect();
    for (at, instruction) in code.iter().enumerate() {
        let place = start.wrapping_add(4 * at as u64);
        if let Some(address) = near(*instruction, place) {
            found(Taken::Here(address));
        }
        let Some((register, page)) = page(*instruction, place) else { continue };
        for instruction in code.iter().skip(at + 1).take(NEAR) {
            if self::page(*instruction, 0).is_some_and(|(other, _)| other == register) {
                break;
            }
            if let Some(distance) = add(*instruction, register) {
                found(Taken::Here(page.wrapping_add(distance)));
            } else if let Some((_, distance)) = load(*instruction, register) {
                found(Taken::In(page.wrapping_add(distance)));
            }
        }
    }
}

/// The address that an `adr` at `place` takes.
fn near(instruction: u32, place: u64) -> Option<u64> {
    let is_it = instruction & 0x9f00_0000 == 0x1000_0000;
    let low = instruction >> 29 & 3;
    let distance = (instruction << 8).cast_signed() >> 13 << 2 | low.cast_signed();
    is_it.then_some(place.wrapping_add_signed(i64::from(distance)))
}

/// What an `add` adds to what `base` has, if that's a number.
fn add(instruction: u32, base: u32) -> Option<u64> {
    let is_it = instruction & 0xffc0_0000 == 0x9100_0000 && instruction >> 5 & 31 == base;
    is_it.then_some(u64::from(instruction >> 10 & 0xfff))
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

/// The stub at `stub` of the function with this number, which goes to the routine of the entry, and the gate after it, which goes on
/// by the word at `by`. `None` if something is out of reach.
fn pair(stub: u64, routines: Routines, by: u64, number: u32) -> Option<Vec<u8>> {
    let gate = stub + STUB as u64;
    let traced = Traced { number, frame: None };
    let made = stub_of(stub, routines.entry, gate + GATE_BODY, traced)?;
    let words = [
        u32::from_le_bytes(armed(gate, stub)?),
        u32::from_le_bytes(BREAKPOINT),
        0x5800_0090, // ldr x16, by
        0xf940_0211, // ldr x17, [x16]
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
    ];
    let mut bytes = made.to_vec();
    bytes.extend(code(words));
    bytes.extend(by.to_le_bytes());
    bytes.resize(2 * STUB, 0);
    Some(bytes)
}

/// The changes to this code, with which a PLT begins.
fn first(code: [u8; 8]) -> First {
    /// `bti c`; `stp x16, x30, [sp, #-16]!`.
    const PAD: u32 = 0xd503_245f;
    const STORES: u32 = 0xa9bf_7bf0;
    match words(&code).find(|word| *word != PAD) {
        Some(STORES) => First::Loads,
        _ => First::Unknown,
    }
}

/// Code that goes there with the address of the word.
fn load_and_jump(unbound: Unbound) -> Vec<u8> {
    let words = [
        0x5800_0090, // ldr x16, word
        0x5800_00b1, // ldr x17, place
        0xd61f_0220, // br x17
        u32::from_le_bytes(BREAKPOINT),
    ];
    let data = unbound.word.to_le_bytes().into_iter().chain(unbound.place.to_le_bytes());
    let mut bytes: Vec<u8> = code(words).chain(data).collect();
    bytes.resize(STUB, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_taken() {
        // adrp x0, 0x20000; mov x2, x3; add x0, x0, #0x18; ldr x1, [x0, #4056]; adr x0, -4
        let code: [u32; 5] = [0x9000_0100, 0xaa03_03e2, 0x9100_6000, 0xf947_ec01, 0x10ff_ffe0];
        let bytes: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut all = Vec::new();
        taken(0x0, &bytes, &mut |one| all.push(one));
        assert_eq!(all, [Taken::Here(0x20018), Taken::In(0x20fd8), Taken::Here(0xc)]);
    }

    #[test]
    fn words_that_are_loaded_are_found() {
        // adrp x1, 0x20000; mov x0, x2; ldr x3, [x1, #4056]; blr x3; and one that isn't called
        let code: [u32; 6] =
            [0x9000_0101, 0xaa02_03e0, 0xf947_ec23, 0xd63f_0060, 0x9000_0101, 0xf947_f024];
        let bytes: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
        let is_one = |word: u64| [0x20fd8, 0x20fe0, 0x20fe8].contains(&word);
        let mut uses = BTreeMap::new();
        let wanted = ImportedWords { first: 0x20fd8, last: 0x20fe8, is_one: &is_one };
        add_uses(0x0, &bytes, wanted, &mut uses);
        let found = |word: u64| uses.get(&word).map(|uses| (uses.others, uses.has_calls));
        assert_eq!(found(0x20fd8), Some((1, true)));
        assert_eq!(found(0x20fe0), Some((1, false)));
        assert_eq!(found(0x20fe8), None);
        // adrp x16, -1 page
        assert_eq!(page(0xf0ff_fff0, 0x1004), Some((16, 0)));
    }
}
