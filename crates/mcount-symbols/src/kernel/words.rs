//! Numbers in the bytes of a kernel.

/// The byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The two bytes of `pair`.
    pub(super) fn pair(self, pair: &[u8]) -> Option<usize> {
        let pair = *pair.first_chunk::<2>()?;
        Some(usize::from(match self {
            Self::Little => u16::from_le_bytes(pair),
            Self::Big => u16::from_be_bytes(pair),
        }))
    }

    /// The four bytes at `at`.
    pub(super) fn number(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(four),
            Self::Big => u32::from_be_bytes(four),
        })
    }
}

/// The word of `size` bytes at `at`.
pub(super) fn word(bytes: &[u8], at: usize, size: usize, is_big: bool) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?.iter().copied();
    let append = |value: u64, byte: u8| value << 8 | u64::from(byte);
    Some(if is_big { bytes.fold(0, append) } else { bytes.rev().fold(0, append) })
}
