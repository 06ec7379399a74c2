//! AArch64, little endian: the frame of a signal (`struct rt_sigframe`, `<asm/sigcontext.h>`): `siginfo_t`, then `ucontext_t`. After the general registers are records, each with its kind and its size: one of vector
//! registers of 128 bits, and one of SVE's longer ones if the thread uses these and they have room.

use crate::outside::{SignalFrame, SignalFrames, VectorState};
use alloc::vec;
use alloc::vec::Vec;

/// The kernel's name for vector registers, of which SVE's longer ones are a part (`NT_ARM_SVE`); where there are none of these, for those of
/// 128 bits (`NT_PRFPREG`).
pub const VECTORS: &[i32] = &[0x405, 2];

/// How they are.
pub const SIGNALS: SignalFrames = SignalFrames {
    size: SIZE,
    place: PLACE,
    read,
    is_left_by: |_| true,
    write,
    below: 0,
    room: 8192,
    // A system call, and a return.
    gate: &[0x01, 0, 0, 0xd4, 0xc0, 0x03, 0x5f, 0xd6],
    // `mov x8, #139; svc #0`.
    restorer: &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
    is_restorer_kernels: true,
};

const SIZE: usize = 600;
const PLACE: usize = 568;

/// No such stack for signals: the thread keeps the one that it has.
const NO_STACK: u64 = 0xff;
/// Bytes before `ucontext_t`, and before the records.
const CONTEXT: usize = 128;
const RECORDS: usize = CONTEXT + 464;
/// Bytes of records.
const MOST_RECORDS: usize = 4096;
const VECTORS_KIND: u32 = 0x4650_8001;
const LONG_KIND: u32 = 0x5356_4501;

/// May this be one? Where the handler returns to is in a register, which the frame doesn't have.
fn read(bytes: &[u8]) -> Option<SignalFrame> {
    const STACK: usize = 560;
    const RECORD: usize = 592;
    const KIND: u64 = 0x4650_8001 | 528 << 32;
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let frame = SignalFrame { place: word(PLACE), stack: word(STACK), back: None };
    (word(RECORD) == KIND).then_some(frame)
}

/// The bytes of a frame.
fn write(_at: u64, registers: &[u64], blocked: u64, state: &VectorState) -> Vec<u8> {
    let mut bytes = vec![0; CONTEXT + 16];
    let words = [0, NO_STACK, 0, blocked];
    bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
    bytes.resize(CONTEXT + 184, 0);
    bytes.extend(registers.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(RECORDS, 0);
    bytes.extend(records(state));
    bytes.resize(RECORDS + MOST_RECORDS, 0);
    bytes
}

/// The records of vector registers.
fn records(VectorState { kind, bytes: state, .. }: &VectorState) -> Vec<u8> {
    if VECTORS.last() == Some(kind) {
        return short(state, state.get(512..520).unwrap_or_default());
    }
    // `struct user_sve_header`: size, most, bytes of a register, most, flags.
    let half = |at: usize| {
        let bytes = state.get(at..at + 2).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
    };
    let (length, is_long, registers) = (half(8), half(12) & 1 != 0, state.get(16..));
    let registers = registers.unwrap_or_default();
    if !is_long {
        return short(registers, registers.get(512..520).unwrap_or_default());
    }
    // 32 vectors, 16 predicates of an eighth of that, one more; then status and control.
    let size = 32 * length + 17 * (length / 8);
    let control = (16 + size).next_multiple_of(16);
    let low: Vec<u8> = (0..32)
        .flat_map(|number| registers.get(number * length..number * length + 16).unwrap_or_default())
        .copied()
        .collect();
    let mut bytes = short(&low, state.get(control..control + 8).unwrap_or_default());
    let whole = (16 + size).next_multiple_of(16);
    // And the end, a record of nothing.
    if bytes.len() + whole + 16 <= MOST_RECORDS {
        bytes.extend(head(LONG_KIND, whole));
        bytes.extend(u16::try_from(length).unwrap_or(0).to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(registers.get(..size).unwrap_or_default());
        bytes.resize(bytes.len().next_multiple_of(16), 0);
    }
    bytes
}

/// The record of 32 registers of 128 bits, with the words of status and control.
fn short(registers: &[u8], control: &[u8]) -> Vec<u8> {
    const SIZE: usize = 528;
    let mut bytes = head(VECTORS_KIND, SIZE);
    bytes.extend(control);
    bytes.resize(16, 0);
    bytes.extend(registers.get(..512).unwrap_or_default());
    bytes.resize(SIZE, 0);
    bytes
}

fn head(kind: u32, size: usize) -> Vec<u8> {
    [kind, u32::try_from(size).unwrap_or(0)].into_iter().flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::outside::ROLES;
    use super::*;
    use crate::outside::GeneralRegisters;

    const MASK: usize = CONTEXT + 40;

    /// As the kernel reads it (`struct rt_sigframe`), which is looked at elsewhere, too.
    #[test]
    fn a_frame_is_what_is_taken_for_one() {
        let mut registers = GeneralRegisters::zero(&ROLES);
        registers.set_instruction(0x1234);
        registers.set_stack(0x5670);
        let state = VectorState { kind: 2, bytes: vec![1; 528], more: Vec::new() };
        let bytes = write(0, registers.words(), 7, &state);
        let found = read(&bytes[..SIZE]).unwrap();
        assert_eq!((found.place, found.stack), (0x1234, 0x5670));
        assert_eq!(bytes[MASK], 7);
        assert_eq!(bytes[RECORDS + 528..RECORDS + 536], [0; 8], "the end");
    }

    #[test]
    fn long_registers_are_kept_where_they_have_room() {
        for (length, has) in [(16_u16, true), (64, true), (256, false)] {
            let size = 32 * usize::from(length) + 17 * usize::from(length / 8);
            let mut state = vec![0; 16 + size + 32];
            state[8..10].copy_from_slice(&length.to_le_bytes());
            state[12] = 1;
            state[16 + usize::from(length)] = 9;
            let bytes = records(&VectorState { kind: VECTORS[0], bytes: state, more: Vec::new() });
            assert_eq!(bytes[16 + 16], 9, "the second one");
            assert_eq!(bytes.len() > 528, has, "{length}");
            assert!(bytes.len() + 16 <= MOST_RECORDS);
        }
    }
}
