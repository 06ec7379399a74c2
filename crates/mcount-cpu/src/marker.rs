//! A marker in the middle of a function, as the agent finds it when a thread passes there.
//!
//! The recorder puts a *unit* into the agent for each: a call of the agent's routine, and the instructions that the jump at the marker has
//! replaced. The last 16 bytes of the unit say where the marker is, as a word, and the number that it has in the trace.

/// Bytes of a unit, which begins at a multiple of that.
pub const UNIT: u64 = 256;
/// Where in a unit it says where the marker is, and then its number.
pub const NOTED: u64 = 240;

/// A marker that a thread passes.
#[derive(Debug, Clone, Copy)]
pub struct Marker {
    /// Where it is.
    pub site: u64,
    /// Its number in the trace.
    pub id: u32,
    /// The stack pointer there.
    pub stack: u64,
    /// The general registers, by their numbers. The stack pointer isn't among them.
    pub general: *const u64,
    /// The vector registers, 16 bytes each.
    pub vectors: *const u8,
}
