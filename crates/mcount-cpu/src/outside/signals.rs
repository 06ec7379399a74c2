//! Frames of signals: those that the kernel has made for handlers, and those that are made for a thread, so that it comes back by
//! itself.

use alloc::vec::Vec;

/// Vector registers and all that goes with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorState {
    /// The kernel's name for them (`NT_…` in `<elf.h>`).
    pub kind: i32,
    /// Their bytes, as the kernel writes them for that name.
    pub bytes: Vec<u8>,
    /// What the kernel has for others: names and bytes.
    pub more: Vec<(i32, Vec<u8>)>,
}

/// The contents of a signal's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalFrame {
    /// Where the code that was interrupted goes on.
    pub place: u64,
    /// Its stack pointer.
    pub stack: u64,
    /// Where the handler returns to, if the frame says it.
    pub back: Option<u64>,
}

/// Writes each of `pieces` into `frame`, at its offset there. What is outside isn't written.
pub(crate) fn put(frame: &mut [u8], pieces: &[(usize, &[u8])]) {
    for (place, piece) in pieces {
        if let Some(room) = frame.get_mut(*place..place + piece.len()) {
            room.copy_from_slice(piece);
        }
    }
}

/// How the frames of signals are on a processor (`struct rt_sigframe`).
#[derive(Debug, Clone, Copy)]
pub struct SignalFrames {
    /// Bytes of one that are looked at.
    pub size: usize,
    /// Where in it it's reported where the code that was interrupted goes on.
    pub place: usize,
    /// May these bytes be one?
    pub read: fn(&[u8]) -> Option<SignalFrame>,
    /// Does a signal handler return to this code, if the frame says where to?
    pub is_left_by: fn(&[u8; 9]) -> bool,
    /// The bytes of one at this address, of a thread with these registers, blocked signals and vector registers.
    pub write: fn(u64, &[u64], u64, &VectorState) -> Vec<u8>,
    /// How many bytes below a multiple of 64 one is.
    pub below: u64,
    /// How many it may have.
    pub room: u64,
    /// Code that makes a system call and returns, as C libraries have it.
    pub gate: &'static [u8],
    /// Code that makes the system call `rt_sigreturn`.
    pub restorer: &'static [u8],
    /// Is that in the kernel's own code (vDSO)? Otherwise C libraries have theirs.
    pub is_restorer_kernels: bool,
}
