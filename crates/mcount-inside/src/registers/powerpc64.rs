//! 64-bit PowerPC: 64-Bit ELF V2 ABI Specification, 2.2.

/// The general registers of a call: those that can hold arguments, and a result. Only `r` and `r11` are changed for the program if
/// handlers change them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// `r3` to `r10`: arguments; the first two are the result.
    pub r: [u64; 8],
    /// The static chain of nested functions.
    pub r11: u64,
    /// The stack pointer at the entry.
    pub sp: u64,
    /// At the entry: where the hook is.
    pub pc: u64,
}
