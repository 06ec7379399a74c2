//! AArch64, little endian: the frames that the kernel makes for signal handlers, and how they are left.

use crate::state::SignalFrame;

/// Bytes of the frame of a signal (`struct rt_sigframe`) that are looked at: `siginfo_t`, then `ucontext_t`.
pub(crate) const SIGNAL_FRAME: usize = 600;
/// Where in it it's reported where the code that was interrupted goes on.
pub(crate) const SIGNAL_PLACE: usize = 568;

/// May this be the frame of a signal? After the general registers is a record of vector registers, with its kind and its size.
pub(crate) fn signal_frame(bytes: &[u8]) -> Option<SignalFrame> {
    const STACK: usize = 560;
    const RECORD: usize = 592;
    const KIND: u64 = 0x4650_8001 | 528 << 32;
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let frame = SignalFrame { place: word(SIGNAL_PLACE), stack: word(STACK), back: None };
    (word(RECORD) == KIND).then_some(frame)
}

/// Does a signal handler return to this code? That's in a register, which the frame doesn't have.
pub(crate) fn leaves_signal(_code: [u8; 9]) -> bool {
    true
}
