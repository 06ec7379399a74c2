//! x86-64. `mold` makes PLTs that have a number in `%r11`, which stubs don't keep.

use super::First;
use mcount_cpu::x86_64::code;
use mcount_cpu::x86_64::code::STUB;
pub(super) use mcount_cpu::x86_64::code::{BY_WORD, direct, jump_by};

/// Where in a gate its site is.
pub(super) const GATE_SITE: u64 = code::GATE_SITE as u64;

/// And where the function goes on.
pub(super) const GATE_BODY: u64 = code::GATE_BODY as u64;

/// The stub at `stub` of the function with this number, which calls these routines at entry and exit, and the gate after it, which goes on
/// by the word at `by`. `None` if something is out of reach.
pub(super) fn pair(
    stub: u64,
    (entry, exit): (u64, u64),
    by: u64,
    number: u32,
) -> Option<[u8; 2 * STUB]> {
    let gate = stub + STUB as u64;
    let made = code::stub(stub, entry, gate + code::GATE_BODY as u64, exit, number)?;
    [made, code::gate(gate, stub, by)?].concat().try_into().ok()
}

/// Where a call or a jump leads to that [`direct`] has made, at `from`. `None` if it's none.
pub(super) fn direct_target(code: [u8; BY_WORD], from: u64) -> Option<u64> {
    let (distance, end) = match code {
        [0x67, 0xe8, a, b, c, d] => ([a, b, c, d], BY_WORD as u64),
        [0xe9, a, b, c, d, 0x90] => ([a, b, c, d], BY_WORD as u64 - 1),
        _ => return None,
    };
    Some(from.wrapping_add(end).wrapping_add_signed(i32::from_le_bytes(distance).into()))
}

/// The changes to this code.
pub(super) fn first(code: [u8; 8]) -> First {
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

/// Code that goes to `place` with the number of an import.
pub(super) fn load_and_jump(index: u32, _word: u64, place: u64) -> [u8; STUB] {
    code::load_and_jump(index, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_replaced_calls_lead_to() {
        for code in [[0xff, 0x15, 1, 2, 3, 4], [0xff, 0x25, 1, 2, 3, 4]] {
            for target in [0x5000, 0x1000, 0x4000_0000] {
                let made = direct(code, 0x2000, target).unwrap();
                assert_eq!(direct_target(made, 0x2000), Some(target), "{made:x?}");
            }
            assert_eq!(direct_target(code, 0x2000), None);
        }
    }
}
