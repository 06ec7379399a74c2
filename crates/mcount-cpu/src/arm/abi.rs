//! Arm with 32 bits: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? It's the system's, which may count in steps.
pub const IS_CLOCK_COARSE: bool = true;

/// Bits of an address.
pub const ADDRESS_BITS: u32 = 32;

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 16;

/// Exceptions aren't stopped in watched calls, so they go nowhere in a pad.
pub const PAD_LANDING: u64 = 0;
