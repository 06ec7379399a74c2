//! x86-64: instructions have 1 to 15 bytes, and a jump that reaches a stub has five. So several may have to move, and anything
//! that leads to the second of them would land inside the jump.
//!
//! What names other places relative to itself is rewritten: a branch gets its long form, an operand another distance. All other
//! instructions are copied byte for byte. A call pushes the address that follows. In a stub that would be the wrong one, so another instruction
//! pushes the right one.
//!
//! Source: Intel SDM, volume 2; AMD APM, volume 3.

mod instruction;
mod relocate;
mod scan;
mod stack;

pub use self::relocate::{MOVED_MOST, Relocated, relocate};
pub(super) use self::scan::{Piece, Scanned, far, scan};

use self::instruction::{Flow, can_move, decoder, flow};
use super::Refusal;
use iced_x86::{Code, Mnemonic, Register};

/// Bytes of the jump that takes the place of a function's first instructions.
pub const JUMP: usize = 5;

/// `endbr64`: where indirect branches may lead.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Where a function's first instruction is that may move.
pub(super) fn entry(bytes: &[u8], start: u64) -> u64 {
    if bytes.starts_with(&ENDBR64) { start.saturating_add(4) } else { start }
}

/// The first bytes of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Bytes of the whole instructions that have to move.
    pub(super) moved: usize,
    /// Where the last of them begins.
    pub(super) last: u64,
    /// Execution goes on behind them.
    pub(super) goes_on: bool,
}

/// The whole instructions at `entry`, of which `bytes` has all that belong to the function, that a jump there replaces.
pub(super) fn beginning(bytes: &[u8], entry: u64) -> Result<Beginning, Refusal> {
    let mut decoder = decoder(bytes, entry);
    let mut found = Beginning { moved: 0, last: entry, goes_on: true };
    let mut call = None;
    while found.moved < JUMP && decoder.can_decode() {
        let one = decoder.decode();
        if one.is_invalid() {
            return Err(Refusal::NotDecoded(one.ip()));
        }
        if let Some(at) = call {
            return Err(Refusal::Call(at));
        }
        if !can_move(&one) {
            return Err(Refusal::Instruction(one.ip()));
        }
        let flow = flow(&one);
        call = matches!(flow, Flow::Call(_) | Flow::IndirectCall).then_some(one.ip());
        found.moved += one.len();
        found.last = one.ip();
        found.goes_on =
            matches!(flow, Flow::Next | Flow::Branch(_) | Flow::Call(_) | Flow::IndirectCall);
    }
    Ok(found)
}

/// Whether instructions that follow each other from `start` on lead to `at`, and the one there does nothing. `bytes` begin at `start`.
pub(super) fn is_nop_at(bytes: &[u8], start: u64, at: u64) -> bool {
    let mut decoder = decoder(bytes, start);
    while decoder.can_decode() && decoder.ip() < at {
        let _ = decoder.decode();
    }
    decoder.ip() == at && decoder.can_decode() && decoder.decode().mnemonic() == Mnemonic::Nop
}

/// Whether `bytes` begin with `length` bytes of instructions that do nothing; the last may have more bytes.
pub(super) fn is_padding(bytes: &[u8], length: usize) -> bool {
    let mut decoder = decoder(bytes, 0);
    let mut known = 0;
    while known < length && decoder.can_decode() {
        let one = decoder.decode();
        let does_nothing = matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
            || one.code() == Code::Xchg_r16_AX && one.op0_register() == Register::AX;
        if !does_nothing {
            return false;
        }
        known += one.len();
    }
    known >= length
}

/// The word that the first instruction jumps by, if it does, as entries of a procedure linkage table do.
pub(super) fn jumps_by(bytes: &[u8], address: u64) -> Option<u64> {
    let one = decoder(bytes, address).decode();
    let by_word = flow(&one) == Flow::IndirectJump && one.is_ip_rel_memory_operand();
    by_word.then(|| one.ip_rel_memory_address())
}
