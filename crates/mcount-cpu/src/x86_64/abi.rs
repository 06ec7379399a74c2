//! x86-64: what the system and its C libraries make of the processor: addresses that programs can have, the clock.

/// Can the clock show the same time at two calls in a row? It counts every cycle, or nearly, and every entry takes some.
pub const IS_CLOCK_COARSE: bool = false;

/// Bytes of a pad (`pads.rs`). A function returns to the first, and what is there leaves an address in the pad behind.
pub const PAD_SIZE: u64 = 16;

/// Where in a pad exceptions go.
pub const PAD_LANDING: u64 = 8;

/// Bits of an address that a program can have.
pub const ADDRESS_BITS: u32 = 47;

/// The bits in which the shadows of stacks differ from stacks: one high bit each; and one of bits 16 to 27, as AMD's processors know
/// lines of the first cache by a hash of the address, which doesn't have the bits above these. A slot and its shadows were one line
/// to them, and a call took 100 ns instead of 21 (Zen 4).
pub const SHADOWS: [u64; 3] = [1 << 46 | 1 << 27, 1 << 45 | 1 << 26, 1 << 44 | 1 << 25];
const _: () = {
    let [a, b, c] = SHADOWS;
    let hashed = 0x0fff_0000;
    assert!(a & hashed != b & hashed && b & hashed != c & hashed && a & hashed != c & hashed);
    assert!(a & hashed != 0 && b & hashed != 0 && c & hashed != 0);
    assert!((a ^ b ^ c) & hashed != 0);
};
