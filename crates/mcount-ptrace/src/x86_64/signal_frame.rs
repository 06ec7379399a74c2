//! x86-64: the frames that the kernel makes for signal handlers, and how they are left.

use crate::state::SignalFrame;

/// Bytes of the frame of a signal (`struct rt_sigframe`) that are looked at: its own return address, then `ucontext_t`.
pub(crate) const SIGNAL_FRAME: usize = 200;
/// Where in it it's reported where the code that was interrupted goes on.
pub(crate) const SIGNAL_PLACE: usize = 176;

/// May this be the frame of a signal?
pub(crate) fn signal_frame(bytes: &[u8]) -> Option<SignalFrame> {
    const STACK: usize = 168;
    const SEGMENTS: usize = 192;
    /// The code segment of 64-bit programs.
    const CODE_SEGMENT: u64 = 0x33;
    let word = |offset: usize| {
        let word = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    let frame = SignalFrame { place: word(SIGNAL_PLACE), stack: word(STACK), back: Some(word(0)) };
    (word(SEGMENTS) & 0xffff_ffff == CODE_SEGMENT).then_some(frame)
}

/// Does a signal handler return to this code? It makes the system call `rt_sigreturn`.
pub(crate) fn leaves_signal(code: [u8; 9]) -> bool {
    const LONG: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const SHORT: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
    code == LONG || code.starts_with(&SHORT)
}
