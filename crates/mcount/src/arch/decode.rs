//! How the code of a linked image is read. There no relocation says what a call calls.
//!
//! For that each processor answers three questions about a place in code: how long is the instruction,
//! is it a call and of which address, and is it a stub and where does that lead? A *stub* is what the
//! linker puts between a call and its target: a PLT entry, a veneer, a thunk.

use super::{Code, Unit};

/// How a processor's linked code is read.
#[derive(Clone, Copy)]
pub(crate) struct Decode {
    /// Bytes of the instruction at a place; never 0.
    pub(crate) length: fn(&Place<'_>) -> u64,
    /// The direct call of a function that begins at a place.
    pub(crate) call: fn(&Place<'_>) -> Option<Branch>,
    /// Where the stub at a place leads, if it is one.
    pub(crate) stub: fn(&Place<'_>) -> Option<Goal>,
    /// Where instructions begin can only be told from function starts on: what calls begin with.
    pub(crate) anchors: &'static [&'static [u8]],
    /// The relocation types, all their bits, that add the load address: `R_*_RELATIVE`.
    pub(crate) relative: &'static [u32],
}

/// A place in the code of an image.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) code: Code<'a>,
    /// The address of the first byte of `code`.
    pub(crate) base: u64,
    /// Bytes from the start of `code`.
    pub(crate) at: u64,
    /// The processor's second instruction set: Thumb, microMIPS.
    pub(crate) alternate: bool,
    /// The value that code addresses data by (`_gp`, the TOC), where it has one.
    pub(crate) data_base: u64,
    pub(crate) is_64: bool,
    /// The byte order of data among the code, which need not be that of the instructions.
    pub(crate) big_endian_data: bool,
}

/// A direct call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Where its first instruction begins: bytes from the start of the code.
    pub(crate) start: u64,
    /// Where the relocation to the target was: bytes from the start of the code.
    pub(crate) reference: u64,
    /// The end of the call.
    pub(crate) end: u64,
    pub(crate) target: Goal,
}

/// Where a call or a stub leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// To this address.
    Address(u64),
    /// To the address that the word at this address holds.
    Slot(u64),
}

impl<'a> Place<'a> {
    /// The address of the place, plus `distance` bytes.
    pub(crate) fn address(&self, distance: i64) -> u64 {
        let address = self.base.wrapping_add(self.at).wrapping_add_signed(distance);
        self.truncate(address)
    }

    /// Addresses of a 32-bit image have 32 bits.
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

    /// A call of `size` bytes with its relocation `reference` bytes from here, to `target`.
    pub(crate) fn branch(&self, reference: u64, size: u64, target: Goal) -> Option<Branch> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.code.len())?;
        Some(Branch { start: self.at, reference: self.at + reference, end, target })
    }

    /// A call of four bytes, to the address `distance` bytes from here.
    pub(crate) fn near(&self, distance: i64) -> Option<Branch> {
        self.branch(0, 4, Goal::Address(self.address(distance)))
    }
}

/// The low `bits` bits of `value`, as a signed number.
pub(crate) fn signed(value: u32, bits: u32) -> i64 {
    i64::from(value.cast_signed() << (32 - bits) >> (32 - bits))
}

/// Four bytes, always.
pub(crate) fn four(_: &Place<'_>) -> u64 {
    4
}

/// No stub is known.
pub(crate) fn no_stub(_: &Place<'_>) -> Option<Goal> {
    None
}
