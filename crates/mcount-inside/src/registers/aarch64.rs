//! AArch64: Procedure Call Standard, 6.1.1.

/// The general registers of a call: those that can hold arguments, and a result. Only `x` is changed for the program if
/// handlers change it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// `x0` to `x7`: arguments, and the result; `x8`: where a result in memory goes.
    pub x: [u64; 9],
    /// The caller's frame pointer.
    pub x29: u64,
    /// The stack pointer at the entry.
    pub sp: u64,
    /// At the entry: where the hook is.
    pub pc: u64,
}
