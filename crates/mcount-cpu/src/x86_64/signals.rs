//! x86-64: the frame of a signal (`struct rt_sigframe`): its own return address, then `ucontext_t`. Vector registers are as XSAVE has them
//! (`<asm/sigcontext.h>`).

use crate::outside::{SignalFrame, SignalFrames, VectorState, put};
use alloc::vec::Vec;

/// How they are.
pub const SIGNALS: SignalFrames = SignalFrames {
    size: 200,
    place: PLACE,
    read,
    is_left_by,
    write,
    below: 8,
    room: 4096,
    // A system call, and a return.
    gate: &[0x0f, 0x05, 0xc3],
    restorer: &LONG_RESTORER,
    is_restorer_kernels: false,
};

const PLACE: usize = 176;
/// `mov $15, %rax; syscall`, and the same in a register of 32 bits.
const LONG_RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
const SHORT_RESTORER: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// The frame's own flags: vector registers are there, and the segment of the stack is to be restored.
const FLAGS: u64 = 7;
/// No such stack for signals: the thread keeps the one that it has.
const NO_STACK: u64 = 0xff;
const CONTEXT: usize = 48;
const STATE_POINTER: usize = CONTEXT + 184;
const MASK: usize = CONTEXT + 256;
/// Bytes of the frame before the vector registers.
const SIZE: usize = 512;
/// Where in the vector registers it's reported what they are.
const SAYS: usize = 464;
const BEGIN: u32 = 0x4650_5853;
const END: u32 = 0x4650_5845;
/// The last register that every thread has room for is that of protection keys; then come tiles.
const MOST_STATE: usize = 2696;
const TILES: u64 = 3 << 17;
/// Segments of code and stack, in 64-bit programs.
const SEGMENTS: u64 = 0x33 | 0x2b << 48;

fn read(bytes: &[u8]) -> Option<SignalFrame> {
    const STACK: usize = 168;
    const SEGMENTS: usize = 192;
    /// The code segment of 64-bit programs.
    const CODE_SEGMENT: u64 = 0x33;
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let frame = SignalFrame { place: word(PLACE), stack: word(STACK), back: Some(word(0)) };
    (word(SEGMENTS) & 0xffff_ffff == CODE_SEGMENT).then_some(frame)
}

/// Does a signal handler return to this code? It makes the system call `rt_sigreturn`.
fn is_left_by(code: &[u8; 9]) -> bool {
    *code == LONG_RESTORER || code.starts_with(&SHORT_RESTORER)
}

/// The bytes of a frame at `at`, which is 8 below a multiple of 64.
fn write(at: u64, registers: &[u64], blocked: u64, state: &VectorState) -> Vec<u8> {
    /// `%r8` to `%r15`, `%rdi`, `%rsi`, `%rbp`, `%rbx`, `%rdx`, `%rax`, `%rcx`, `%rsp`, `%rip` and flags, by their places in
    /// `struct user_regs_struct`.
    const ORDER: [usize; 18] = [9, 8, 7, 6, 3, 2, 1, 0, 14, 13, 4, 5, 12, 10, 11, 19, 16, 18];
    let stack_of_signals = [0, NO_STACK, 0];
    let context = ORDER.into_iter().map(|place| registers.get(place).copied().unwrap_or(0));
    let head = [0, FLAGS, 0].into_iter().chain(stack_of_signals);
    let all = head.chain(context).chain([SEGMENTS, 0, 0, 0, 0]);
    let mut bytes: Vec<u8> = all.flat_map(u64::to_le_bytes).collect();
    // The address of the return address is 8 below a multiple of 64, that of the state has to be one.
    let room = SIZE + 8;
    bytes.resize(room, 0);
    let state = state.bytes.get(..MOST_STATE).unwrap_or(&state.bytes);
    let known = state.get(SAYS..).and_then(|bytes| bytes.first_chunk());
    let known = known.map_or(3, |bytes| u64::from_le_bytes(*bytes)) & !TILES;
    bytes.extend_from_slice(state);
    let size = u32::try_from(state.len()).unwrap_or(0);
    let says = [BEGIN.to_le_bytes(), (size + 4).to_le_bytes()].concat();
    let says = [says.as_slice(), &known.to_le_bytes(), &size.to_le_bytes(), &[0; 28]].concat();
    let pieces: &[(usize, &[u8])] = &[
        (STATE_POINTER, &(at + room as u64).to_le_bytes()),
        (MASK, &blocked.to_le_bytes()),
        (room + SAYS, &says),
    ];
    put(&mut bytes, pieces);
    bytes.extend_from_slice(&END.to_le_bytes());
    bytes
}
