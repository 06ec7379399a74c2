//! x86-64: calls of library functions. Instructions name words by their distance. `mold` makes PLTs that have a number in `%r11`, which stubs don't keep.

use super::code;
use super::code::BY_WORD;
use crate::outside::{ByWord, First, ImportedWords, LibraryCalls, Routines, Taken, Uses};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Relocations by the x86-64 psABI, 4.4.1.
pub const LIBRARY_CALLS: LibraryCalls = LibraryCalls {
    jump_slot: 7,
    glob_dat: 6,
    add_uses,
    site: code::GATE_SITE as u64,
    body: code::GATE_BODY as u64,
    pair,
    first,
    load_and_jump: |unbound| code::load_and_jump(unbound.index, unbound.place).to_vec(),
    taken,
    by_word: Some(ByWord {
        length: BY_WORD,
        jump: |from, word| Some(code::jump_by(from, word)?.to_vec()),
        direct: |code, from, target| {
            Some(code::direct(code.try_into().ok()?, from, target)?.to_vec())
        },
        target: direct_target,
    }),
};

/// Tells of the addresses that the code `bytes` at `start` takes: by `lea`, or by `mov`, from a word or where it's linked to be at a fixed place.
fn taken(start: u64, bytes: &[u8], found: &mut dyn FnMut(Taken)) {
    let number = |bytes: [u8; 4]| i64::from(i32::from_le_bytes(bytes));
    for (at, window) in bytes.windows(7).enumerate() {
        let behind = start.wrapping_add(at as u64 + 7);
        match *window {
            [0x48 | 0x4c, 0x8d, operand, a, b, c, d] if operand & 0xc7 == 5 => {
                found(Taken::Here(behind.wrapping_add_signed(number([a, b, c, d]))));
            }
            [0x48 | 0x4c, 0x8b, operand, a, b, c, d] if operand & 0xc7 == 5 => {
                found(Taken::In(behind.wrapping_add_signed(number([a, b, c, d]))));
            }
            [0x48 | 0x49, 0xc7, 0xc0..=0xc7, a, b, c, d] => {
                found(Taken::Here(number([a, b, c, d]).cast_unsigned()));
            }
            [0xb8..=0xbf, a, b, c, d, ..] => {
                found(Taken::Here(u64::from(u32::from_le_bytes([a, b, c, d]))));
            }
            _ => {}
        }
    }
}

/// Adds what the code `bytes` at `start` does with `words`.
fn add_uses(start: u64, bytes: &[u8], words: ImportedWords<'_>, uses: &mut BTreeMap<u64, Uses>) {
    let ImportedWords { first, last, .. } = words;
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
fn add_use(
    words: ImportedWords<'_>,
    uses: &mut BTreeMap<u64, Uses>,
    (target, start): (u64, u64),
    opcode: &[u8],
) {
    for operand in [0, 1, 2, 4] {
        let word = target.wrapping_add(operand);
        if !(words.is_one)(word) {
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

/// The stub at `stub` of the function with this number, which calls these routines at entry and exit, and the gate after it, which goes on
/// by the word at `by`. `None` if something is out of reach.
fn pair(stub: u64, routines: Routines, by: u64, number: u32) -> Option<Vec<u8>> {
    let gate = stub + code::STUB as u64;
    let body = gate + code::GATE_BODY as u64;
    let made = code::stub(stub, routines.entry, body, routines.exit, number)?;
    Some([made, code::gate(gate, stub, by)?].concat())
}

/// Where a call or a jump leads to that [`code::direct`] has made, at `from`. `None` if it's none.
fn direct_target(code: &[u8], from: u64) -> Option<u64> {
    let (distance, end) = match *code {
        [0x67, 0xe8, a, b, c, d] => ([a, b, c, d], BY_WORD as u64),
        [0xe9, a, b, c, d, 0x90] => ([a, b, c, d], BY_WORD as u64 - 1),
        _ => return None,
    };
    Some(from.wrapping_add(end).wrapping_add_signed(i32::from_le_bytes(distance).into()))
}

/// The changes to this code.
fn first(code: [u8; 8]) -> First {
    const PUSH: u8 = 0x68;
    const PUSH_R11: [u8; 2] = [0x41, 0x53];
    const LANDING_PAD: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let code = code.strip_prefix(LANDING_PAD).unwrap_or(&code);
    match code.first() {
        Some(&PUSH) => First::Same,
        _ if code.starts_with(&PUSH_R11) => First::Loads,
        _ => First::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_taken() {
        let rows: [(&[u8], Taken); 5] = [
            (&[0x48, 0x8d, 0x3d, 1, 0, 0, 0], Taken::Here(0x2008)), // lea 1(%rip), %rdi
            (&[0x4c, 0x8d, 0x25, 0xf9, 0xff, 0xff, 0xff], Taken::Here(0x2000)), // lea -7(%rip), %r12
            (&[0x48, 0x8b, 0x1d, 0, 1, 0, 0], Taken::In(0x2107)), // mov 256(%rip), %rbx
            (&[0xbf, 0x34, 0x12, 0x40, 0, 0x90, 0x90], Taken::Here(0x40_1234)), // mov $0x401234, %edi
            (&[0x48, 0xc7, 0xc7, 0x34, 0x12, 0x40, 0], Taken::Here(0x40_1234)),
        ];
        for (code, expected) in rows {
            let mut all = Vec::new();
            taken(0x2000, code, &mut |one| all.push(one));
            assert_eq!(all, [expected], "{code:x?}");
        }
    }

    #[test]
    fn where_replaced_calls_lead_to() {
        for bytes in [[0xff, 0x15, 1, 2, 3, 4], [0xff, 0x25, 1, 2, 3, 4]] {
            for target in [0x5000, 0x1000, 0x4000_0000] {
                let made = code::direct(bytes, 0x2000, target).unwrap();
                assert_eq!(direct_target(&made, 0x2000), Some(target), "{made:x?}");
            }
            assert_eq!(direct_target(&bytes, 0x2000), None);
        }
    }
}
