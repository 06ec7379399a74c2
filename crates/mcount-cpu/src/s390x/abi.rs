//! s390x: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? An emulator counts microseconds.
pub const IS_CLOCK_COARSE: bool = true;

/// Bits of an address that a program can have. Most have 42; the kernel gives them more when memory is asked for there, as
/// shadows are.
pub const ADDRESS_BITS: u32 = 53;

/// The bits in which the shadows of stacks differ from stacks.
pub const SHADOWS: [u64; 3] = [1 << 46, 1 << 45, 1 << 44];

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 16;

/// Exceptions aren't stopped in watched calls, so they go nowhere in a pad.
pub const PAD_LANDING: u64 = 0;
