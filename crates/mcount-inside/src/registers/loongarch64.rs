//! LoongArch: the calling convention of its psABI.

/// The general registers of a call: those that can hold arguments, and a result. Only `a` and `t8` are changed for the program
/// if handlers change them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// `$a0` to `$a7`: arguments; `$a0` and `$a1`: the result.
    pub a: [u64; 8],
    /// The static chain of nested functions.
    pub t8: u64,
    /// The caller's `$fp`, which may be its frame pointer.
    pub fp: u64,
    /// The stack pointer at the entry.
    pub sp: u64,
    /// At the entry: where the hook is.
    pub pc: u64,
}
