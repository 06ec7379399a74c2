//! RISC-V: the frame of a signal (`struct rt_sigframe`, `<asm/sigcontext.h>`): `siginfo_t`, then `ucontext_t`. After the general registers
//! are those for floating-point numbers, and then a head that says whether there are more registers: here it says that there are none.

use crate::outside::{SignalFrame, SignalFrames, VectorState, put};
use alloc::vec;
use alloc::vec::Vec;

/// How they are.
pub const SIGNALS: SignalFrames = SignalFrames {
    size: HEAD + 8,
    place: REGISTERS,
    read,
    is_left_by: |_| true,
    write,
    below: 0,
    room: 2048,
    // A system call, and a return.
    gate: &[0x73, 0, 0, 0, 0x82, 0x80],
    // `li a7, 139; ecall`.
    restorer: &[0x93, 0x08, 0xb0, 0x08, 0x73, 0, 0, 0],
    is_restorer_kernels: true,
};

/// No such stack for signals: the thread keeps the one that it has.
const NO_STACK: u64 = 0xff;
/// Bytes before `ucontext_t`, and where what it has begins: blocked signals, registers, those for floating-point numbers, and the head.
const CONTEXT: usize = 128;
const MASK: usize = CONTEXT + 40;
const REGISTERS: usize = CONTEXT + 176;
const NUMBERS: usize = REGISTERS + 32 * 8;
const HEAD: usize = NUMBERS + 520;
/// Bytes of 32 floating-point registers and their control word.
const STATE: usize = 32 * 8 + 4;
/// The head of vector registers.
const VECTORS: u32 = 0x5346_5457;

/// May this be one? Where the handler returns to is in a register, which the frame doesn't have.
fn read(bytes: &[u8]) -> Option<SignalFrame> {
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(u64::MAX, u64::from_le_bytes)
    };
    let half = |offset: usize| u32::try_from(word(offset) & 0xffff_ffff).unwrap_or(0);
    let is_signal = (1..=64).contains(&half(0));
    // Neither flags nor a link; a word before the head is reserved, and no frame ends with another head.
    let is_context = word(CONTEXT) == 0 && word(CONTEXT + 8) == 0;
    let is_head = half(HEAD - 4) == 0 && [0, VECTORS].contains(&half(HEAD));
    let frame = SignalFrame { place: word(REGISTERS), stack: word(REGISTERS + 16), back: None };
    let is_aligned = frame.place.is_multiple_of(2) && frame.stack.is_multiple_of(8);
    (is_signal && is_context && is_head && is_aligned && frame.place != 0).then_some(frame)
}

/// The bytes of a frame.
fn write(_at: u64, registers: &[u64], blocked: u64, state: &VectorState) -> Vec<u8> {
    let mut bytes = vec![0; HEAD + 8];
    let words: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
    let numbers = state.bytes.get(..STATE).unwrap_or(&state.bytes);
    let pieces: &[(usize, &[u8])] = &[
        (CONTEXT + 24, &NO_STACK.to_le_bytes()),
        (MASK, &blocked.to_le_bytes()),
        (REGISTERS, &words),
        (NUMBERS, numbers),
    ];
    put(&mut bytes, pieces);
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::outside::ROLES;
    use super::*;
    use crate::outside::GeneralRegisters;

    /// As the kernel reads it, which is looked at elsewhere, too.
    #[test]
    fn a_frame_is_what_is_taken_for_one() {
        let mut registers = GeneralRegisters::zero(&ROLES);
        registers.set_instruction(0x1234);
        registers.set_stack(0x5670);
        let state = VectorState { kind: 2, bytes: vec![1; 260], more: Vec::new() };
        let mut bytes = write(0, registers.words(), 7, &state);
        // The kernel writes a signal's number before it.
        assert_eq!(read(&bytes), None);
        bytes[0] = 10;
        let found = read(&bytes[..SIGNALS.size]).unwrap();
        assert_eq!((found.place, found.stack), (0x1234, 0x5670));
        assert_eq!(bytes[MASK], 7);
        assert_eq!(bytes[NUMBERS..NUMBERS + 261], [vec![1; 260], vec![0]].concat());
    }
}
