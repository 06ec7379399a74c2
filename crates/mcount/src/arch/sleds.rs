//! Sleds: what clang leaves for LLVM's XRay (`-fxray-instrument`) at the entry of a function, before each return and before
//! each tail call. A sled is a jump over NOPs, or a return before them:
//!
//! ```text
//!   0: eb 09                        jmp 11             the entry, or before a tail call
//!   2: 66 0f 1f 84 00 00 02 00 00   nopw 512(…)
//!  40: c3                           ret                a return
//!  41: 2e 66 0f 1f 84 00 00 02 00 00
//! ```
//!
//! So no thread is ever inside one, and what is behind the jump can be written while threads run. The compiler lists them in
//! `xray_instr_map`, which `table::sleds` reads.
//!
//! Sources: LLVM, "XRay Instrumentation" and "XRay Function Call Tracing"; what clang 14 and 19 emit.

use super::{Arch, Code};

/// The sleds of a processor.
#[derive(Clone, Copy)]
pub(crate) struct Sleds {
    /// The relocations of words of the compiler's list: a distance from the word, and an address.
    pub(crate) relocations: &'static [u32],
    /// The size in bytes of the sled at an offset, if one of this kind is there.
    pub(super) size: fn(Code<'_>, u64, SledKind) -> Option<u64>,
}

/// The kind of a sled, by its number in the compiler's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SledKind {
    /// At the entry of a function, whose first argument may be wanted, too.
    Entry,
    /// A return.
    Exit,
    /// Before a tail call.
    TailCall,
    /// An event that the program writes.
    Event,
    /// The same with a type.
    TypedEvent,
}

impl SledKind {
    pub(crate) fn of(number: u8) -> Option<Self> {
        match number {
            0 | 3 => Some(Self::Entry),
            1 => Some(Self::Exit),
            2 => Some(Self::TailCall),
            4 => Some(Self::Event),
            5 => Some(Self::TypedEvent),
            _ => None,
        }
    }
}

impl Arch {
    /// The size in bytes of the sled of this kind at `offset`, if there is one.
    pub(crate) fn sled(&self, code: Code<'_>, offset: u64, kind: SledKind) -> Option<u64> {
        let size = (self.sleds?.size)(code, offset, kind)?;
        let end = offset.checked_add(size)?;
        (end <= code.len()).then_some(size)
    }
}
