//! The words of a recipe: what the agent copies from the registers and the memory of a call. What is done is bits 0 to 7.
//!
//! They name registers as x86-64 has them; each processor's agent knows which of its own is meant.

pub use crate::condition;

/// Copies bits 24 to 31 bytes of a source, bits 8 to 15.
pub const COPY: u64 = 1;
/// Copies the text that a source leads to, up to its zero.
pub const TEXT: u64 = 2;
/// Copies the text that a source leads to, of the length that the source in bits 16 to 23 has.
pub const COUNTED: u64 = 3;
/// The same where the source leads to pointer and length.
pub const STRING: u64 = 4;
/// Copies bits 24 to 31 bytes of the memory that a source leads to.
pub const MEMORY: u64 = 5;

/// At a marker in the middle of a function: copies bits 24 to 31 bytes of the next word.
pub const CONSTANT: u64 = 6;
/// There: copies bits 24 to 31 bytes of the register in bits 8 to 15, from the byte on that bits 16 to 23 say. Registers have the numbers
/// of the processor's instructions here; those of vectors begin at [`VECTORS`].
pub const REGISTER: u64 = 7;
/// There: copies bits 24 to 31 bytes of the memory at the sum of bits 32 to 63, which have a sign, of the register in bits 8 to 15, and of the
/// one in bits 16 to 23 times a power of two, which bits 0 to 1 say. [`NO_REGISTER`] and [`SITE`] may be there instead.
pub const ADDRESSED: u64 = 8;
/// Bits 0 to 2 of [`ADDRESSED`] that count.
pub const SCALE: u64 = 3;
/// A bit besides, at a marker: the value isn't copied, but the text that it leads to, up to its zero.
pub const LEADS_TO_TEXT: u64 = 64;
/// The first vector register.
pub const VECTORS: u64 = 16;
/// Instead of a register: 0.
pub const NO_REGISTER: u64 = 255;
/// Instead of a register: where the marker is.
pub const SITE: u64 = 254;

/// Sources: %rdi, %rsi, %rdx, %rcx, %r8 and %r9 are 0 to 5.
pub const GENERAL: u64 = 0;
/// %xmm0 to %xmm7.
pub const VECTOR: u64 = 8;
/// %rax, at the exit.
pub const RAX: u64 = 16;
/// %rdx, at the exit.
pub const RDX: u64 = 17;
/// The top of the x87 stack.
pub const X87: u64 = 18;
/// The stack above the return address, that many bytes as bits 32 to 47 say; of lengths, bits 48 to 63.
pub const STACK: u64 = 19;
/// Where a result in memory goes, as a register said at the entry that functions don't keep (AArch64).
pub const PLACE: u64 = 20;

/// A bit of the second number of a recipe: the function's calls are recorded however short they are.
pub const KEPT: u32 = 1 << 31;

/// The most bytes of values that are recorded of a call.
pub const MOST: usize = 492;
/// The most bytes of a text.
pub const TEXT_MOST: usize = 64;
