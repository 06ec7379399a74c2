//! i386: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? It counts every cycle, or nearly, and every entry takes some.
pub const IS_CLOCK_COARSE: bool = false;

/// Bits of an address.
pub const ADDRESS_BITS: u32 = 32;

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 32;

/// Where in a pad exceptions go.
pub const PAD_LANDING: u64 = 16;
