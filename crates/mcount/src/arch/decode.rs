//! Decoding the code of linked images, in which no relocation says what a call calls.
//!
//! Each processor answers three questions about a place in code. How long is the instruction? Is it a
//! call, and of which address? Is it a stub, and where does that lead? A *stub* is code that the linker
//! puts between a call and its target: a PLT entry, a veneer, a thunk.

use super::{Code, Unit};

/// How to decode a processor's code.
#[derive(Clone, Copy)]
pub(crate) struct Decode {
    /// The size in bytes of the instruction at a place; never 0.
    pub(crate) length: fn(&Place<'_>) -> u64,
    /// The direct call of a function that begins at a place.
    pub(crate) call: fn(&Place<'_>) -> Option<Branch>,
    /// Where the stub at a place leads, if it is one.
    pub(crate) stub: fn(&Place<'_>) -> Option<Goal>,
    /// The bytes that calls begin with, if instructions can only be told apart by reading from the start
    /// of a function. Empty if they can be told apart anywhere.
    pub(crate) anchors: &'static [&'static [u8]],
    /// The relocation types, with all their bits, that add the load address: `R_*_RELATIVE`.
    pub(crate) relative: &'static [u32],
}

/// A place in the code of an image.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) code: Code<'a>,
    /// The address of the first byte of `code`.
    pub(crate) base: u64,
    /// The offset in `code`, in bytes.
    pub(crate) at: u64,
    /// Whether the code is of the processor's second instruction set: Thumb, microMIPS.
    pub(crate) alternate: bool,
    /// The address that code finds its data by (`_gp`, the TOC), if there is one.
    pub(crate) data_base: u64,
    pub(crate) is_64: bool,
    /// The byte order of data among the code. Instructions may have the other.
    pub(crate) big_endian_data: bool,
}

/// A direct call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Where its first instruction begins, in bytes from the start of the code.
    pub(crate) start: u64,
    /// Where its relocation was, in bytes from the start of the code.
    pub(crate) reference: u64,
    /// Where it ends, in bytes from the start of the code.
    pub(crate) end: u64,
    pub(crate) target: Goal,
}

/// Where a call or a stub leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// At this address.
    Address(u64),
    /// At the address that the word at this address holds.
    Slot(u64),
}

impl<'a> Place<'a> {
    /// The address of the place, plus `distance` bytes.
    pub(crate) fn address(&self, distance: i64) -> u64 {
        let address = self.base.wrapping_add(self.at).wrapping_add_signed(distance);
        self.truncate(address)
    }

    /// `address`, of which a 32-bit image uses 32 bits.
    pub(crate) fn truncate(&self, address: u64) -> u64 {
        if self.is_64 { address } else { address & 0xffff_ffff }
    }

    /// The 32-bit instruction `distance` bytes on.
    pub(crate) fn word(&self, distance: u64) -> Option<u32> {
        self.code.word(self.at.checked_add(distance)?)
    }

    /// The 32-bit number among the code, `distance` bytes on.
    pub(crate) fn data_word(&self, distance: u64) -> Option<u32> {
        let bytes = *self.code.from(self.at.checked_add(distance)?).first_chunk()?;
        Some(if self.big_endian_data {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// The 16-bit instruction, or half of one, `distance` bytes on.
    pub(crate) fn half(&self, distance: u64) -> Option<u32> {
        self.code.half(self.at.checked_add(distance)?)
    }

    /// The byte `distance` bytes on.
    pub(crate) fn byte(&self, distance: u64) -> Option<u32> {
        self.code.get(Unit::Byte, self.at.checked_add(distance)?)
    }

    /// The same place, `distance` bytes on.
    pub(crate) fn skip(&self, distance: u64) -> Place<'a> {
        Place { at: self.at.saturating_add(distance), ..*self }
    }

    /// The call of `target` that begins here and has `size` bytes, with its relocation `reference` bytes
    /// from here.
    pub(crate) fn branch(&self, reference: u64, size: u64, target: Goal) -> Option<Branch> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.code.len())?;
        Some(Branch { start: self.at, reference: self.at + reference, end, target })
    }

    /// The call that begins here and has four bytes, of the address `distance` bytes from here.
    pub(crate) fn near(&self, distance: i64) -> Option<Branch> {
        self.branch(0, 4, Goal::Address(self.address(distance)))
    }
}

/// The low `bits` bits of `value`, as a signed number.
pub(crate) fn signed(value: u32, bits: u32) -> i64 {
    i64::from(value.cast_signed() << (32 - bits) >> (32 - bits))
}

/// The length of an instruction that always has four bytes.
pub(crate) fn four(_: &Place<'_>) -> u64 {
    4
}

/// For a processor whose stubs aren't known.
pub(crate) fn no_stub(_: &Place<'_>) -> Option<Goal> {
    None
}
