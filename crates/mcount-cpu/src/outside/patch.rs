//! Replacing functions of a running program: what a patch's relocations want.

/// The value that a relocation wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Nothing.
    Nothing,
    /// The load bias and the addend.
    Bias,
    /// The address of its symbol and the addend.
    Address,
    /// The address of its symbol.
    Symbol,
    /// The number of the module that has the thread-local variable.
    Module,
    /// Where it is from the thread pointer on, and the addend.
    FromThreadPointer,
    /// Two words: a function that returns the second one, and that: where it is from the thread pointer on, and the addend.
    Descriptor,
}

/// What signal handlers return to where no unwind information tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Restorer {
    /// It begins with this.
    pub code: [u8; 8],
    /// The interrupted registers, in the order of unwind information, are that many bytes above the stack pointer then
    /// (`struct rt_sigframe`).
    pub registers: u64,
}
