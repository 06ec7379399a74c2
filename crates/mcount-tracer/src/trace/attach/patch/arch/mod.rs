//! Parts that differ by processor: relocations of an object that's patched in, the code that leads to it, and
//! registers. A file each, with the same names in it.
//!
//! An armed site jumps to its function's *gate*, which loads the address of the function's slot and jumps to where that
//! points: to the body of the old function, or to a new one. So any number of functions change by the write of one page, and
//! an object may lie anywhere.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod here;

pub(super) use here::*;

/// The value that a relocation wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    /// The load bias and the addend.
    Bias,
    /// The address of its symbol and the addend.
    Address,
    /// The address of its symbol.
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "there's an addend there"))]
    Symbol,
    /// The number of the module that has the thread-local variable.
    Module,
    /// Where it is from the thread pointer on, and the addend.
    FromThreadPointer,
    /// Two words: a function that returns the second one, and that: where it is from the thread pointer on, and the addend.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "it's refused there"))]
    Descriptor,
}
