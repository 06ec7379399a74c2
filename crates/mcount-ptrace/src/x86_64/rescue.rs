//! x86-64: the frame of a signal, as it's written for a thread (`<asm/sigcontext.h>`). Vector registers are as XSAVE has them.

use super::GeneralRegisters;
use crate::state::VectorState;

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

/// A system call, and a return.
pub(crate) const GATE: &[u8] = &[0x0f, 0x05, 0xc3];
/// `mov $15, %rax; syscall`.
pub(crate) const RESTORER: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Is the restorer the kernel's? C libraries have their own.
pub(crate) const IS_KERNELS: bool = false;

/// How many bytes below a multiple of 64 a frame is, and how many it may have.
pub(crate) const BELOW: u64 = 8;
pub(crate) const ROOM: u64 = 4096;

/// The bytes that a gate's return takes from the stack at `frame` to come to `restorer`.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it's otherwise")]
pub(crate) fn way_back(restorer: u64) -> Option<u64> {
    Some(restorer)
}

/// The bytes of a frame at `at`, which is 8 below a multiple of 64.
pub(crate) fn frame(
    at: u64,
    registers: &GeneralRegisters,
    blocked: u64,
    state: &VectorState,
) -> Vec<u8> {
    let r = registers.raw();
    let stack_of_signals = [0, NO_STACK, 0];
    let context = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags, SEGMENTS, 0, 0, 0, 0,
    ];
    let head = [0, FLAGS, 0].into_iter().chain(stack_of_signals);
    let mut bytes: Vec<u8> = head.chain(context).flat_map(u64::to_le_bytes).collect();
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
    for (place, piece) in [
        (STATE_POINTER, (at + room as u64).to_le_bytes().as_slice()),
        (MASK, &blocked.to_le_bytes()),
        (room + SAYS, &says),
    ] {
        if let Some(room) = bytes.get_mut(place..place + piece.len()) {
            room.copy_from_slice(piece);
        }
    }
    bytes.extend_from_slice(&END.to_le_bytes());
    bytes
}
