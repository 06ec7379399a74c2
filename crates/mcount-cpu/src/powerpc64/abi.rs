//! 64-bit PowerPC: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? An emulator counts microseconds.
pub const IS_CLOCK_COARSE: bool = true;

/// Bits of an address that a program can have, unless it asks for more. Kernels with pages of 4 KiB let it have one less.
pub const ADDRESS_BITS: u32 = 47;

/// The bits in which the shadows of stacks differ from stacks: the highest that every kernel has.
pub const SHADOWS: [u64; 3] = [1 << 45, 1 << 44, 1 << 43];

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 16;

/// Where in a pad exceptions go.
pub const PAD_LANDING: u64 = 4;
