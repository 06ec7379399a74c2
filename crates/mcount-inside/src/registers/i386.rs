//! i386: System V ABI, Intel386 Supplement, 3-9.

/// The general registers of a call. Arguments are on the stack, unless a function has an attribute or the compiler knows all its
/// callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// At the exit, the result.
    pub eax: u32,
    /// At the entry, often the static chain of nested functions.
    pub ecx: u32,
    /// At the exit, the upper half of a result of 64 bits.
    pub edx: u32,
}
