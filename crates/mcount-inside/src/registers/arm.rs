//! Arm: the procedure call standard (AAPCS).

/// The general registers of a call. Only `r` and `ip` are changed for the program if handlers change them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// `r0` to `r3`: arguments, two for one of 64 bits; the result is in the first one, or the first two.
    pub r: [u32; 4],
    /// At the entry, the static chain of nested functions.
    pub ip: u32,
    /// The caller's `r11`, which may be its frame pointer.
    pub fp: u32,
    /// The stack pointer at the entry.
    pub sp: u32,
    /// At the entry: where the hook is.
    pub pc: u32,
}
