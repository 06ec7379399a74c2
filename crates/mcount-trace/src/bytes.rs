//! Numbers in the traced machine's byte order, at offsets that needn't be inside the bytes.

/// Bytes and the order of their numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) big_endian: bool,
}

impl<'a> Bytes<'a> {
    /// The number at `offset`, if it is all there.
    pub(crate) fn u32(self, offset: usize) -> Option<u32> {
        let word = *self.bytes.get(offset..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// The number at `offset`, if it is all there.
    pub(crate) fn u64(self, offset: usize) -> Option<u64> {
        Some(word(*self.bytes.get(offset..)?.first_chunk()?, self.big_endian))
    }

    /// `value` in this order.
    pub(crate) fn encoded(self, value: u64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// `value` in this order.
    pub(crate) fn encoded_half(self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// `size` bytes from `offset` on, or as many of them as there are.
    pub(crate) fn up_to(self, offset: usize, size: usize) -> Bytes<'a> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        Bytes { bytes: rest.get(..size).unwrap_or(rest), ..self }
    }

    /// All `size` bytes from `offset` on.
    pub(crate) fn exactly(self, offset: usize, size: usize) -> Option<&'a [u8]> {
        self.bytes.get(offset..)?.get(..size)
    }
}

/// A number of 8 bytes.
#[inline]
pub(crate) fn word(bytes: [u8; 8], big_endian: bool) -> u64 {
    let value = u64::from_le_bytes(bytes);
    if big_endian { value.swap_bytes() } else { value }
}
