//! The words of a recipe: what the agent copies from the registers and the memory of a call. What is done is bits 0 to 7.
//!
//! They name registers as x86-64 has them; each processor's agent knows which of its own is meant.

pub use crate::condition;

/// Copies bits 24 to 31 bytes of a source, bits 8 to 15.
pub const COPY: u64 = 1;
/// Copies the text that a source leads to, up to its zero. Of this and the next two, bits 24 to 31 say how many bytes at most; 0 is
/// [`TEXT_MOST`].
pub const TEXT: u64 = 2;
/// Copies the text that a source leads to, of the length that the source in bits 16 to 23 has.
pub const COUNTED: u64 = 3;
/// The same where the source leads to pointer and length.
pub const STRING: u64 = 4;
/// Copies bits 24 to 31 bytes of the memory that a source leads to.
pub const MEMORY: u64 = 5;

/// Copies counters, 8 bytes each; bits 8 to 15 say how many. It's the first word, if there is one.
pub const COUNTERS: u64 = 14;

/// Follows the pointer that a source has: copies that, unless the source is [`FIELD`], and says whether its target was read. Of that, it copies
/// as many bytes as bits 0 to 15 of the next word say, and does what the words behind that say of these bytes. Bits 32 to 47 say how many
/// there are.
pub const FOLLOW: u64 = 9;
/// Copies elements of a list that the source leads to. Where it ends, or with bit 24 how many elements it has, the source in bits 16 to 23 says,
/// in bits 48 to 63 where there. The next word: bits 0 to 15 the size of an element, bits 16 to 31 how many are copied at most, bits
/// 32 to 47 how many words there are about each.
pub const LIST: u64 = 10;
/// Bit 24 of [`LIST`].
pub const COUNTS: u64 = 1 << 24;
/// The next words, whose number is bits 48 to 63, are about the last bytes that were copied; bits 32 to 47 say how many bytes.
pub const WITHIN: u64 = 11;
/// Compares a number with those in the next words; bits 16 to 23 say how many. The number has bits 24 to 31 bytes at bits 32 to 47. If it's none of them,
/// or with bit 8 if it's one of them, the words behind these are skipped: bits 48 to 63 say how many.
pub const CASE: u64 = 12;
/// Bit 8 of [`CASE`].
pub const NONE_OF: u64 = 1 << 8;
/// As [`LIST`], of a binary tree in its order: bits 32 to 47 say where the address of the first node is, bits 48 to 63 where
/// the count is. The next word is as there, and bits 48 to 63 say where in a node the value is. The third word says where
/// a node has the addresses of its parent, its left and its right child, 16 bits each.
pub const TREE: u64 = 13;
/// How many of these may be in each other.
pub const DEEPEST: usize = 12;

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
/// The bytes that a word such as [`FOLLOW`] has copied: as many of them from there on as bits 32 to 47 say; of lengths, bits 48 to 63.
pub const FIELD: u64 = 21;

/// A bit of the second number of a recipe: the function's calls are recorded however short they are.
pub const KEPT: u32 = 1 << 31;

/// The most bytes of values that are recorded of a call.
pub const MOST: usize = 492;
/// The most bytes of a text.
pub const TEXT_MOST: usize = 64;
