//! One patch in the process: the new object as it's mapped, and what is to be known of it later.
//!
//! ```text
//! header      six pages, read-only: name, functions, where the unwind information is
//! notes       a page: which unwinders know it, and what they keep
//! object      as it's linked, each segment with its protection
//! ```

use super::super::block::map_file;
use super::super::maps::{self, Mapping};
use super::fix::Fix;
use super::hub::{Hub, SLOTS};
use super::stacks::Range;
use crate::trace::space::mapping;
use mcount_hooks::PAGE;
use mcount_ptrace::{Memory, Remote, Target};
use nix::libc;
use std::io;

const MAGIC: &[u8; 16] = b"mcount-fix    1\n";
const HEADER: u64 = 6 * PAGE;
const NOTES: u64 = PAGE;
/// Bytes of the name that are kept.
const LONGEST: usize = 200;
const SIZE: usize = 16;
const FRAMES: usize = 24;
const NAME: usize = 40;
const COUNT: usize = 248;
const FUNCTIONS: usize = 256;
const FUNCTION: usize = 40;
/// As much as one may have in memory.
const MOST: u64 = 512 << 20;
/// As much unwind information as is read.
const MOST_FRAMES: u64 = 16 << 20;
/// Unwinders that can be noted, and bytes of what each keeps.
const UNWINDERS: u64 = 16;
const KEPT: u64 = 128;

/// A new function: its slot, where it is, and where its cold part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct New {
    pub(super) slot: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) cold: (u64, u64),
}

/// A patch in the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: String,
    pub(super) functions: Vec<New>,
    /// Where its unwind information is; 0 if there's none.
    pub(super) frames: u64,
}

impl Region {
    /// Bytes that `fix` takes.
    fn total(fix: &Fix) -> u64 {
        HEADER + NOTES + fix.size()
    }

    /// Makes room for `fix`, in which nothing is mapped yet; its load bias.
    pub(super) fn reserve(remote: &mut Remote<'_>, fix: &Fix) -> io::Result<u64> {
        let arguments = mapping(0, Self::total(fix), libc::PROT_NONE, 0);
        Ok(remote.call(libc::SYS_mmap, &arguments)? + HEADER + NOTES)
    }

    /// Maps `fix`, whose bytes are `image`, at the load bias that it was given.
    pub(super) fn map(
        remote: &mut Remote<'_>,
        target: Target<'_>,
        hub: &Hub,
        (fix, image): (&Fix, &[u8]),
        (bias, functions): (u64, Vec<New>),
    ) -> io::Result<Self> {
        let region = Self {
            start: bias - HEADER - NOTES,
            size: Self::total(fix),
            name: fix.name.clone(),
            functions,
            frames: fix.frames.map_or(0, |frames| bias + frames),
        };
        let notes = vec![0; usize::try_from(NOTES).unwrap_or(0)];
        let bytes = [region.header().as_slice(), &notes, image].concat();
        let descriptor = hub.give(remote, target, &bytes)?;
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let mut pieces = vec![(0, HEADER, read), (HEADER, HEADER + NOTES, read | write)];
        let of_fix = HEADER + NOTES;
        pieces.extend(
            fix.segments.iter().map(|one| (of_fix + one.start, of_fix + one.end, one.protection)),
        );
        let mut mapped = Ok(());
        for (from, to, protection) in pieces {
            mapped = mapped.and_then(|()| {
                let place = (region.start + from, to - from);
                map_file(remote, place, protection, (descriptor, from))
            });
        }
        let closed = remote.call(libc::SYS_close, &[descriptor]);
        mapped.and(closed.map(|_| ()))?;
        Ok(region)
    }

    /// Takes it away. No thread may be in it, nor have an address in it.
    pub(super) fn unmap(&self, remote: &mut Remote<'_>) -> io::Result<()> {
        remote.call(libc::SYS_munmap, &[self.start, self.size]).map(|_| ())
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(HEADER).unwrap_or(0)];
        let mut put = |at: usize, piece: &[u8]| {
            if let Some(room) = bytes.get_mut(at..at + piece.len()) {
                room.copy_from_slice(piece);
            }
        };
        let mut cut = self.name.len().min(LONGEST);
        while !self.name.is_char_boundary(cut) {
            cut -= 1;
        }
        put(0, MAGIC);
        for (at, value) in [
            (SIZE, self.size),
            (FRAMES, self.frames),
            (FRAMES + 8, cut as u64),
            (COUNT, self.functions.len() as u64),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(NAME, self.name.get(..cut).unwrap_or_default().as_bytes());
        for (place, one) in self.functions.iter().enumerate() {
            let words = [one.slot as u64, one.start, one.end, one.cold.0, one.cold.1];
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            put(FUNCTIONS + place * FUNCTION, &words);
        }
        bytes
    }

    /// The one that is at `start`.
    pub(super) fn read(memory: &Memory, maps: &[Mapping], start: u64) -> Option<Self> {
        maps::find(maps, start)
            .filter(|map| map.start == start && maps::is_patch(map) && map.offset == 0)?;
        let mut bytes = vec![0; usize::try_from(HEADER).ok()?];
        memory.read(start, &mut bytes).ok()?;
        Self::parse(&bytes, start)
    }

    fn parse(bytes: &[u8], start: u64) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let length =
            |at: usize, most: usize| usize::try_from(word(at)?).ok().filter(|value| *value <= most);
        let (name, count) = (length(FRAMES + 8, LONGEST)?, length(COUNT, SLOTS)?);
        let size = word(SIZE).filter(|size| (HEADER..=MOST).contains(size))?;
        let name = String::from_utf8_lossy(bytes.get(NAME..NAME + name)?).into_owned();
        let mut functions = Vec::with_capacity(count);
        for place in 0..count {
            let at = FUNCTIONS + place * FUNCTION;
            functions.push(New {
                slot: length(at, SLOTS - 1)?,
                start: word(at + 8)?,
                end: word(at + 16)?,
                cold: (word(at + 24)?, word(at + 32)?),
            });
        }
        let is_whole = bytes.starts_with(MAGIC) && size.is_multiple_of(PAGE);
        is_whole.then_some(Self { start, size, name, functions, frames: word(FRAMES)? })
    }

    /// Its function for slot `slot`.
    pub(super) fn function(&self, slot: usize) -> Option<&New> {
        self.functions.iter().find(|one| one.slot == slot)
    }

    /// Code that no thread may be in if its function for `slot`, which is called `name`, is taken out
    /// of force.
    pub(super) fn ranges(&self, slot: usize, name: &str) -> Vec<Range> {
        let found = self.function(slot).map(|one| [(one.start, one.end), one.cold]);
        let found = found.into_iter().flatten().filter(|(start, end)| start < end);
        let range = |(start, end)| Range { function: name.to_owned(), start, end, body: start };
        found.map(range).collect()
    }

    /// Addresses of its object.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.start + HEADER + NOTES, self.start.saturating_add(self.size))
    }

    /// Its unwind information, as the process has it now.
    pub(super) fn frames(&self, memory: &Memory, maps: &[Mapping]) -> Option<Vec<u8>> {
        let (start, end) = self.extent();
        let map = maps::find(maps, self.frames).filter(|_| (start..end).contains(&self.frames))?;
        let size = (map.end.min(end) - self.frames).min(MOST_FRAMES);
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        memory.read(self.frames, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Where the unwinder whose function is at `address` keeps what it knows of it, and where it's noted that it knows.
    /// `None` if it does already.
    pub(super) fn room_for(&self, memory: &Memory, address: u64) -> io::Result<Option<(u64, u64)>> {
        let notes = self.start + HEADER;
        for place in 0..UNWINDERS {
            let note = notes + 8 * place;
            match memory.word(note)? {
                0 => return Ok(Some((notes + NOTES - (place + 1) * KEPT, note))),
                found if found == address => return Ok(None),
                _ => {}
            }
        }
        Err(io::Error::other("it has too many unwinders"))
    }

    /// The unwinders that were told of it, by the address of the function that tells them.
    pub(super) fn told(&self, memory: &Memory) -> Vec<u64> {
        let words = memory.words(self.start + HEADER, usize::try_from(UNWINDERS).unwrap_or(0));
        words.unwrap_or_default().into_iter().filter(|word| *word != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        let one = New { slot: 3, start: 0x10_0000, end: 0x10_0040, cold: (0, 0) };
        Region {
            start: 0x7000,
            size: 0x20_0000,
            name: "fix.so".to_owned(),
            functions: vec![one; SLOTS],
            frames: 0x11_0000,
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let region = region();
        assert_eq!(Region::parse(&region.header(), 0x7000), Some(region));
    }

    #[test]
    fn lengths_that_a_process_makes_up_are_refused() {
        for (at, value) in [
            (SIZE, u64::MAX),
            (SIZE, 1),
            (COUNT, 433),
            (FRAMES + 8, 201),
            (FUNCTIONS, SLOTS as u64),
            (0, 0),
        ] {
            let mut bytes = region().header();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert_eq!(Region::parse(&bytes, 0x7000), None, "{at} {value}");
        }
    }
}
