//! Checked ranges of untrusted bytes, and writing numbers in the file's class and byte order.

use std::ffi::CStr;

/// `size` bytes of `data` from `offset`. `None` if they aren't all there.
pub(super) fn range(data: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    data.get(start..end)
}

/// The string at `offset` of a string table, up to its NUL or the end of the table. Empty if out of
/// range.
pub(crate) fn string(table: &[u8], offset: u32) -> &[u8] {
    let rest = table.get(offset as usize..).unwrap_or_default();
    CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
}

/// The places of `text` in `table`, in ascending order.
///
/// memchr's usual search first asks the processor what it can do. In a virtual machine that takes longer
/// than searching the string table of most objects. So on x86-64 we use the search that all of them can
/// do.
pub(crate) fn find_all(table: &[u8], text: &[u8]) -> Vec<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(finder) = memchr::arch::x86_64::sse2::packedpair::Finder::new(text) {
        let mut found = Vec::new();
        let mut start = 0;
        while let Some(rest) = table.get(start..) {
            // The finder needs at least as many bytes as it reads at a time.
            let at = if rest.len() < finder.min_haystack_len() {
                rest.windows(text.len()).position(|window| window == text)
            } else {
                finder.find(rest, text)
            };
            let Some(at) = at else { break };
            found.push(start + at);
            start += at + 1;
        }
        return found;
    }
    memchr::memmem::find_iter(table, text).collect()
}

/// Whether the string at `offset` of a string table is `text`.
pub(super) fn is_string(table: &[u8], offset: u32, text: &[u8]) -> bool {
    let rest = table.get(offset as usize..).unwrap_or_default();
    // Most strings differ in their first byte, which is less work to compare than all of them.
    text.first().is_none_or(|first| rest.first() == Some(first))
        && rest.strip_prefix(text).is_some_and(|after| after.first().is_none_or(|next| *next == 0))
}

/// A count or index of a slice, as 32 bits. Larger ones become `u32::MAX`.
pub(super) fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The addresses of words of `size` bytes from `start` on, up to the end of the address space.
pub(crate) fn addresses(start: u64, size: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(start), move |at| at.checked_add(size))
}

/// Appends numbers in one class and byte order.
pub(crate) struct Encoder {
    pub(crate) big_endian: bool,
    pub(crate) is_64: bool,
    pub(crate) out: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.out.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.out.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    /// Appends a number of the class's address size. In ELFCLASS32, the upper half is lost.
    pub(crate) fn word(&mut self, value: u64) {
        if self.is_64 {
            self.u64(value);
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "ELFCLASS32 keeps 32 bits")]
            self.u32(value as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length of a table around the block size of a search, with the text at every place.
    #[test]
    fn text_is_found_wherever_it_is() {
        for text in [b"a".as_slice(), b"mcount\0", b"__fentry__\0"] {
            for size in text.len()..70 {
                for at in 0..=size - text.len() {
                    let mut table = vec![b'_'; size];
                    table[at..at + text.len()].copy_from_slice(text);
                    assert_eq!(find_all(&table, text), [at], "{size} {at}");
                }
            }
            assert!(find_all(b"", text).is_empty());
        }
        assert_eq!(find_all(b"\0mcount\0_mcount\0mcount", b"mcount\0"), [1, 9]);
    }
}
