//! 64-bit PowerPC: the frame of a signal (`struct rt_sigframe`, `<asm/sigcontext.h>`), as a handler finds it above its stack pointer: 128 bytes
//! of a frame for what the handler stores in its caller's, and then `ucontext_t`.

use crate::outside::{SignalFrame, SignalFrames, VectorState, put};
use alloc::vec;
use alloc::vec::Vec;

/// How they are.
pub const SIGNALS: SignalFrames = SignalFrames {
    size: PLACE + 8,
    place: PLACE,
    read,
    is_left_by: |_| true,
    write,
    below: 0,
    room: 2048,
    // `sc`, and a return.
    gate: &[2, 0, 0, 0x44, 0x20, 0, 0x80, 0x4e],
    // `addi r1,r1,128; li r0,172; sc`.
    restorer: &[0x80, 0, 0x21, 0x38, 0xac, 0, 0, 0x38, 2, 0, 0, 0x44],
    is_restorer_kernels: true,
};

/// No such stack for signals: the thread keeps the one that it has.
const NO_STACK: u64 = 0xff;
/// Bytes before `ucontext_t`, and where what it has begins: blocked signals, the signal's number, registers, those for floating-point
/// numbers, the address of vector registers, and room for these.
const CONTEXT: usize = 128;
const MASK: usize = CONTEXT + 40;
const SIGNAL: usize = CONTEXT + 168 + 32;
const REGISTERS: usize = CONTEXT + 168 + 64;
const STACK: usize = REGISTERS + 8;
const PLACE: usize = REGISTERS + 8 * 32;
const MACHINE_STATE: usize = 33;
const NUMBERS: usize = REGISTERS + 48 * 8;
const ADDRESS: usize = NUMBERS + 33 * 8;
const ROOM: usize = ADDRESS + 8;
/// Bytes of the frame: the room is for 34 vector registers, 32 halves of others, and some that aren't needed.
const SIZE: usize = ROOM + 101 * 8;
const VECTORS: usize = 34 * 16;
/// The kernel's names for them (`NT_PPC_VMX`, `NT_PPC_VSX`).
const VMX: i32 = 0x100;
const VSX: i32 = 0x102;
/// Vector registers, and the others, are in the frame (`MSR_VEC`, `MSR_VSX`); a transaction isn't (`MSR_TS_MASK`).
const HAS_VECTORS: u64 = 1 << 25 | 1 << 23;
const IN_TRANSACTION: u64 = 3 << 33;

/// May this be one? It begins with the stack pointer that was interrupted. Where the handler returns to is in a register, which the frame
/// doesn't have.
fn read(bytes: &[u8]) -> Option<SignalFrame> {
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(u64::MAX, u64::from_le_bytes)
    };
    let frame = SignalFrame { place: word(PLACE), stack: word(STACK), back: None };
    let is_signal = (1..=64).contains(&(word(SIGNAL) & 0xffff_ffff));
    let is_place = frame.place.is_multiple_of(4) && frame.place != 0;
    (is_signal && is_place && word(0) == frame.stack).then_some(frame)
}

/// The bytes of a frame.
fn write(at: u64, registers: &[u64], blocked: u64, state: &VectorState) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    let mut words = registers.to_vec();
    if let Some(word) = words.get_mut(MACHINE_STATE) {
        *word = *word & !IN_TRANSACTION | HAS_VECTORS;
    }
    let stack = registers.get(1).copied().unwrap_or(0);
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let room = (at + ROOM as u64).next_multiple_of(16);
    let vectors = usize::try_from(room - at).unwrap_or(ROOM);
    let more = |kind| state.more.iter().find(|(found, _)| *found == kind);
    let more = |kind| more(kind).map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
    let pieces: &[(usize, &[u8])] = &[
        (0, &stack.to_le_bytes()),
        (CONTEXT + 24, &NO_STACK.to_le_bytes()),
        (MASK, &blocked.to_le_bytes()),
        (REGISTERS, &words),
        (NUMBERS, &state.bytes),
        (ADDRESS, &room.to_le_bytes()),
        (vectors, more(VMX)),
        (vectors + VECTORS, more(VSX)),
    ];
    put(&mut bytes, pieces);
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::outside::ROLES;
    use super::*;
    use crate::outside::GeneralRegisters;

    /// As the kernel reads it.
    #[test]
    fn a_frame_is_what_is_taken_for_one() {
        let mut registers = GeneralRegisters::zero(&ROLES);
        registers.set_instruction(0x1234);
        registers.set_stack(0x5670);
        let more = vec![(VMX, vec![2; 34 * 16]), (VSX, vec![3; 32 * 8])];
        let state = VectorState { kind: 2, bytes: vec![1; 33 * 8], more };
        let at = 0x7fff_0040;
        let mut bytes = write(at, registers.words(), 7, &state);
        assert_eq!(bytes.len(), 128 + 1696, "as <asm/ucontext.h> has it");
        // The kernel writes a signal's number.
        assert_eq!(read(&bytes), None);
        bytes[SIGNAL] = 10;
        let found = read(&bytes[..SIGNALS.size]).unwrap();
        assert_eq!((found.place, found.stack), (0x1234, 0x5670));
        assert_eq!(bytes[MASK], 7);
        assert_eq!(bytes[NUMBERS..NUMBERS + 264], vec![1; 264]);
        let address = u64::from_le_bytes(bytes[ADDRESS..ROOM].try_into().unwrap());
        assert!(address.is_multiple_of(16));
        let vectors = usize::try_from(address - at).unwrap();
        assert_eq!(bytes[vectors..vectors + 800], [vec![2; 544], vec![3; 256]].concat());
        assert_eq!(bytes[REGISTERS + 8 * MACHINE_STATE..][..8], HAS_VECTORS.to_le_bytes());
    }
}
