//! AArch64: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? Systems count by 1 to 50 MHz, later ones by 1 GHz (Arm ARM, "The Generic Timer").
pub const IS_CLOCK_COARSE: bool = true;

/// Bits of an address that a program can have.
pub const ADDRESS_BITS: u32 = 48;

/// The bits in which the shadows of stacks differ from stacks.
pub const SHADOWS: [u64; 3] = [1 << 46, 1 << 45, 1 << 44];

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 16;

/// Where in a pad exceptions go.
pub const PAD_LANDING: u64 = 4;
