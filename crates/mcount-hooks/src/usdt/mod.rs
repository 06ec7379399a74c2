//! Markers that a program declares with `<sys/sdt.h>` (USDT): where they are, and where their arguments are.
//!
//! A marker is a NOP in the middle of a function. A note in the section `.note.stapsdt` says where, what the marker is called, and where its
//! arguments are at that moment ([`Argument`]). If it costs something to compute these, the program only does so while a counter
//! isn't 0: the *semaphore*.
//!
//! Source: systemtap's wiki, `UserSpaceProbeImplementation`; `<sys/sdt.h>` itself.

mod argument;

pub use self::argument::{Argument, Kind, Place, arguments};

use object::elf::{PF_W, PF_X};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSegment, SegmentFlags};

/// A marker of a file. Addresses are those of the file (`p_vaddr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker<'d> {
    /// The part of the program that it belongs to.
    pub provider: &'d str,
    /// Its name.
    pub name: &'d str,
    /// Where its NOP is.
    pub site: u64,
    /// Two bytes of data that the program may write. Unless they're 0, it computes the arguments.
    pub semaphore: Option<u64>,
    /// Where its arguments are, as the note says it.
    pub arguments: &'d str,
}

impl Marker<'_> {
    /// What people call it: `provider:name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// `NT_STAPSDT`.
const TYPE: u32 = 3;
/// The name of the notes' owner.
const OWNER: &[u8] = b"stapsdt\0";

/// The markers of a file, by address. Notes that can't be read are skipped.
#[must_use]
pub fn markers<'d>(file: &ElfFile64<'d, Endianness>) -> Vec<Marker<'d>> {
    let mut found = Vec::new();
    let is_big = file.endian() == Endianness::Big;
    let base = file.section_by_name(".stapsdt.base").map(|section| section.address());
    for section in file.sections() {
        if section.name_bytes() != Ok(b".note.stapsdt") {
            continue;
        }
        let mut rest = Bytes { rest: section.data().unwrap_or_default(), is_big };
        while let Some(note) = rest.note() {
            found.extend(note.and_then(|description| marker(description, is_big, base)));
        }
    }
    for marker in &mut found {
        marker.semaphore = marker.semaphore.filter(|at| is_counter(file, *at));
    }
    found.sort_by(|one: &Marker<'_>, other| (one.site, one.name).cmp(&(other.site, other.name)));
    found.dedup();
    found
}

/// Whether a counter can be at an address: in data that the program may write, and in the section that `<sys/sdt.h>` wants them
/// in, if there's one. Whoever arms the marker writes there, and a damaged note may lead into anything else.
fn is_counter(file: &ElfFile64<'_, Endianness>, at: u64) -> bool {
    let holds = |start: u64, size: u64| start <= at && size >= 2 && at - start <= size - 2;
    let is_data = file.segments().any(|segment| {
        let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return false };
        p_flags & (PF_W | PF_X) == PF_W && holds(segment.address(), segment.size())
    });
    let section = file.section_by_name(".probes");
    is_data && section.is_none_or(|section| holds(section.address(), section.size()))
}

/// The marker that a note describes.
fn marker(description: &[u8], is_big: bool, base: Option<u64>) -> Option<Marker<'_>> {
    let mut bytes = Bytes { rest: description, is_big };
    let [site, expected, semaphore] = [bytes.word()?, bytes.word()?, bytes.word()?];
    // Whoever has moved the file since its link has left the notes as they were. What has moved along says how far.
    let moved = base.filter(|_| expected != 0).map_or(0, |base| base.wrapping_sub(expected));
    let [provider, name, arguments] = [bytes.text()?, bytes.text()?, bytes.text()?];
    let semaphore = (semaphore != 0).then(|| semaphore.wrapping_add(moved));
    let site = site.wrapping_add(moved);
    let is_named = !provider.is_empty() && !name.is_empty();
    is_named.then_some(Marker { provider, name, site, semaphore, arguments })
}

/// Bytes that are read one after the other.
struct Bytes<'d> {
    rest: &'d [u8],
    is_big: bool,
}

impl<'d> Bytes<'d> {
    fn take(&mut self, count: usize) -> Option<&'d [u8]> {
        let (first, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(first)
    }

    fn half(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn word(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(if self.is_big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A text with its zero. Its bytes should be UTF-8.
    fn text(&mut self) -> Option<&'d str> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    /// The description of the next note; an inner `None` if it's of another kind. Names and descriptions are padded to 4 bytes.
    #[expect(clippy::option_option, reason = "the outer one is the end")]
    fn note(&mut self) -> Option<Option<&'d [u8]>> {
        let [name_size, size, kind] = [self.half()?, self.half()?, self.half()?];
        let name = self.padded(name_size)?;
        let description = self.padded(size)?.get(..usize::try_from(size).ok()?)?;
        let name = name.get(..usize::try_from(name_size).ok()?)?;
        Some((kind == TYPE && name == OWNER).then_some(description))
    }

    fn padded(&mut self, size: u32) -> Option<&'d [u8]> {
        let size = usize::try_from(size).ok()?;
        // The last one's padding may be missing.
        self.take(size.checked_next_multiple_of(4)?.min(self.rest.len().max(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [owner.len(), description.len(), kind as usize] {
            bytes.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn description(words: [u64; 3], texts: &str) -> Vec<u8> {
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        words.chain(texts.bytes()).collect()
    }

    fn read(bytes: &[u8], base: Option<u64>) -> Vec<Marker<'_>> {
        let mut bytes = Bytes { rest: bytes, is_big: false };
        let notes = std::iter::from_fn(|| bytes.note());
        notes.flatten().filter_map(|note| marker(note, false, base)).collect()
    }

    #[test]
    fn notes_are_read_and_moved_with_their_base() {
        let first = description([0x1000, 0x500, 0x2000], "app\0start\x004@%eax\0");
        let second = description([0x1010, 0x500, 0], "app\0stop\0\0");
        let mut bytes = note(b"stapsdt\0", 3, &first);
        bytes.extend(note(b"GNU\0", 3, &first));
        bytes.extend(note(b"stapsdt\0", 4, &first));
        bytes.extend(note(b"stapsdt\0", 3, &second));
        let expected = |moved: u64| {
            let (provider, arguments) = ("app", "4@%eax");
            let semaphore = Some(0x2000 + moved);
            let site = 0x1000 + moved;
            let one = Marker { provider, name: "start", site, semaphore, arguments };
            let site = 0x1010 + moved;
            [one, Marker { provider, name: "stop", site, semaphore: None, arguments: "" }]
        };
        assert_eq!(read(&bytes, None), expected(0));
        assert_eq!(read(&bytes, Some(0x500)), expected(0));
        assert_eq!(read(&bytes, Some(0x700)), expected(0x200));
    }

    #[test]
    fn cut_notes_end_the_list() {
        let whole = note(b"stapsdt\0", 3, &description([1, 2, 3], "app\0start\x004@%eax\0"));
        for length in 0..whole.len() {
            let found = read(whole.get(..length).unwrap(), None);
            // Padding may be missing.
            assert!(found.len() <= usize::from(length > whole.len() - 4), "{length}");
        }
        for texts in ["app\0start\x004@%eax", "app\0start\0", "app", "", "\0\0\0", "a\0\0\0"] {
            assert!(read(&note(b"stapsdt\0", 3, &description([1, 2, 3], texts)), None).is_empty());
        }
        let mut huge = whole.clone();
        huge.splice(4..8, u32::MAX.to_le_bytes());
        assert!(read(&huge, None).is_empty());
    }
}
