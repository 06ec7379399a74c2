//! Relocations that compute. Debug sections have them on processors whose linkers delete code, because
//! there the assembler doesn't know the length of anything.

use super::ALL;

/// A relocation that changes a number by the value of a symbol. Two of them make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arithmetic {
    /// The relocation type.
    pub kind: u32,
    /// How many low bits of the field hold the number; `None` for a ULEB128 of any length.
    pub bits: Option<u8>,
    /// Its operation.
    pub step: Step,
}

/// The operation of an [`Arithmetic`] relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Stores the value.
    Set,
    /// Adds it.
    Add,
    /// Subtracts it.
    Subtract,
}

pub(super) const fn set(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Set }
}

pub(super) const fn add(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Add }
}

pub(super) const fn subtract(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Subtract }
}

/// The relocations of the processor `machine` (`e_machine`) that compute, and whether all others take
/// their addend from the section even if they have a field for it.
pub(crate) fn of_debug(machine: u16) -> (&'static [Arithmetic], bool) {
    let arch = ALL.iter().find(|arch| arch.machine == machine);
    arch.map_or((&[], false), |arch| (arch.arithmetic, arch.addend_in_section))
}
