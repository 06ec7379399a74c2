//! s390x: ELF Application Binary Interface Supplement, 1.2.

/// The general registers of a call: those that can hold arguments, and a result. If handlers change the first four of `r`, and
/// `r0`, they're changed for the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// `r2` to `r6`: arguments; the first is the result. `r6` is only to be looked at, because functions keep it for their
    /// caller.
    pub r: [u64; 5],
    /// The static chain of nested functions.
    pub r0: u64,
    /// The stack pointer at the entry.
    pub sp: u64,
    /// At the entry: where the hook is.
    pub pc: u64,
}
