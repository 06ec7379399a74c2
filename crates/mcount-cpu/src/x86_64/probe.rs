//! x86-64: instructions have 1 to 15 bytes, and a jump that reaches a stub has five. So several may have to move, and anything
//! that leads to the second of them would land inside the jump.
//!
//! What names other places relative to itself is rewritten: a branch gets its long form, an operand another distance. All other
//! instructions are copied byte for byte. A call pushes the address that follows. In a stub that would be the wrong one, so another instruction
//! pushes the right one.
//!
//! Source: Intel SDM, volume 2; AMD APM, volume 3.

mod instruction;
mod pun;
mod relocate;
mod scan;
mod stack;

use self::instruction::{Flow, can_move, decoder, flow};
use self::pun::puns;
use self::relocate::{MOVED_MOST, relocate};
use self::scan::{far, scan};
use crate::probe::{Beginning, Calls, Entry, Probes, Relocations, Returns, Unmovable};
use iced_x86::{Code, Mnemonic, Register};

/// Bytes of the jump that takes the place of a function's first instructions.
const JUMP: usize = 5;

/// Relocations by the x86-64 psABI, table 4.10; registers by figure 3.36.
pub static PROBES: Probes = Probes {
    name: "x86-64",
    machine: 62,
    relocations: Relocations { absolute: 1, glob_dat: 6, jump_slot: 7, relative: 8, irelative: 37 },
    calls: Calls {
        stack_pointer: 7,
        frame_pointer: 6,
        return_address: 16,
        cfa: 8,
        returns: Returns::At(-8),
    },
    jump: JUMP,
    moved_most: MOVED_MOST,
    has_markers: true,
    has_mapping_symbols: false,
    has_scaled_tables: false,
    entry,
    beginning,
    is_nop_at,
    is_padding,
    jumps_by,
    scan,
    far,
    relocate,
    puns: Some(puns),
    stub: None,
};

/// `endbr64`: where indirect branches may lead.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Where a function's first instruction is that may move.
fn entry(bytes: &[u8], start: u64) -> Entry {
    let at = if bytes.starts_with(&ENDBR64) { start.saturating_add(4) } else { start };
    Entry { at, is_signed: false }
}

/// The whole instructions at `entry`, of which `bytes` has all that belong to the function, that a jump there replaces.
fn beginning(bytes: &[u8], entry: u64) -> Result<Beginning, Unmovable> {
    let mut decoder = decoder(bytes, entry);
    let mut found = Beginning { moved: 0, goes_on: true };
    let mut call = None;
    while found.moved < JUMP && decoder.can_decode() {
        let one = decoder.decode();
        if one.is_invalid() {
            return Err(Unmovable::NotDecoded(one.ip()));
        }
        if let Some(at) = call {
            return Err(Unmovable::Call(at));
        }
        if !can_move(&one) {
            return Err(Unmovable::Instruction(one.ip()));
        }
        let flow = flow(&one);
        call = matches!(flow, Flow::Call(_) | Flow::IndirectCall).then_some(one.ip());
        found.moved += one.len();
        found.goes_on =
            matches!(flow, Flow::Next | Flow::Branch(_) | Flow::Call(_) | Flow::IndirectCall);
    }
    Ok(found)
}

/// Whether instructions that follow each other from `start` on lead to `at`, and the one there does nothing. `bytes` begin at `start`.
fn is_nop_at(bytes: &[u8], start: u64, at: u64) -> bool {
    let mut decoder = decoder(bytes, start);
    while decoder.can_decode() && decoder.ip() < at {
        let _ = decoder.decode();
    }
    decoder.ip() == at && decoder.can_decode() && decoder.decode().mnemonic() == Mnemonic::Nop
}

/// Whether `bytes` begin with `length` bytes of instructions that do nothing; the last may have more bytes.
fn is_padding(bytes: &[u8], length: usize) -> bool {
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
fn jumps_by(bytes: &[u8], address: u64) -> Option<u64> {
    let one = decoder(bytes, address).decode();
    let by_word = flow(&one) == Flow::IndirectJump && one.is_ip_rel_memory_operand();
    by_word.then(|| one.ip_rel_memory_address())
}
