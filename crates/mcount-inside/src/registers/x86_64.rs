//! x86-64: System V psABI, 3.2.3.

/// The general registers of a call: those that can hold arguments, and a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "registers by their names")]
pub struct Registers {
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub r8: u64,
    pub r9: u64,
    /// At the entry `al` is the number of vector registers that a variadic call uses; at the exit, the result.
    pub rax: u64,
    /// The static chain of nested functions.
    pub r10: u64,
}
