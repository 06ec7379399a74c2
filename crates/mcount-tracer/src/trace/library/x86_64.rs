//! x86-64. `mold` makes PLTs that have a number in `%r11`, which stubs don't keep.

use super::First;
use mcount_cpu::x86_64::code;
use mcount_cpu::x86_64::code::STUB;
pub(super) use mcount_cpu::x86_64::code::{BY_WORD, direct, jump_by};

/// Where in a gate its site is.
pub(super) const GATE_SITE: u64 = code::GATE_SITE as u64;

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
