//! Files that are damaged in sections which their programs don't need, so that these run all the same.

use object::{Object, ObjectSection};

/// Sections that only tools read, and unwinders.
pub const SECTIONS: &[&str] = &[
    ".eh_frame",
    ".eh_frame_hdr",
    ".symtab",
    ".strtab",
    ".shstrtab",
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line",
    ".debug_rnglists",
    ".debug_addr",
    ".debug_str_offsets",
    "",
];

/// A generator of numbers, the same ones each time.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Begins anew.
    #[must_use]
    pub fn new() -> Self {
        Self(1)
    }

    /// A number from 0 to `below`, which it isn't.
    pub fn below(&mut self, below: usize) -> usize {
        let Self(state) = self;
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*state >> 33).unwrap_or(0) % below.max(1)
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

/// Changes some bytes of a section, or of the table of sections if it has no name. `None` if there's no such section.
#[must_use]
pub fn damaged(whole: &[u8], section: &str, random: &mut Random) -> Option<Vec<u8>> {
    let file = object::File::parse(whole).ok()?;
    let (start, size) = if section.is_empty() {
        let at = whole.get(0x28..0x30)?;
        let start = u64::from_le_bytes(at.try_into().ok()?);
        (start, whole.len() as u64 - start)
    } else {
        file.section_by_name(section)?.file_range()?
    };
    let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(12) {
        let byte = bytes.get_mut(start + random.below(size))?;
        *byte = match random.below(5) {
            0 => 0,
            1 => 0xff,
            2 => 0x80,
            3 => byte.wrapping_add(1),
            _ => u8::try_from(random.below(256)).unwrap_or(0),
        };
    }
    Some(bytes)
}
