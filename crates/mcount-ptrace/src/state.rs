//! Parts of a thread's state as plain data, the same on all processors.

use nix::libc;

/// Vector registers and all that goes with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorState {
    /// The kernel's name for them (`NT_…` in `<elf.h>`).
    pub kind: libc::c_int,
    /// Their bytes, as the kernel writes them for that name.
    pub bytes: Vec<u8>,
}

/// A call that a thread is going to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCall {
    /// The address of the function.
    pub function: u64,
    /// Its arguments.
    pub arguments: [u64; 2],
    /// The end of the stack that it has, a multiple of 64.
    pub stack: u64,
    /// Where it returns to.
    pub back: u64,
}

/// A word that has to be on the stack of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackWord {
    /// Where.
    pub at: u64,
    /// The word.
    pub value: u64,
}

/// The contents of a signal's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignalFrame {
    /// Where the code that was interrupted goes on.
    pub(crate) place: u64,
    /// Its stack pointer.
    pub(crate) stack: u64,
    /// Where the handler returns to, if the frame says it.
    pub(crate) back: Option<u64>,
}
