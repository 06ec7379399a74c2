//! Code of a process that is changed in many places: it's read a page at a time and written back at once.

use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Pieces of whole pages, by the address of their first page.
#[derive(Default, Clone)]
pub(super) struct Pages(BTreeMap<u64, Vec<u8>>);

impl Pages {
    /// The pages of `ranges`, which are in ascending order. Unreadable memory counts as absent.
    pub(super) fn read(
        memory: &Memory,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> io::Result<Self> {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let (start, end) = (range.start / PAGE * PAGE, range.end.next_multiple_of(PAGE));
            match pieces.last_mut() {
                Some(last) if start <= last.end => last.end = end.max(last.end),
                _ => pieces.push(start..end),
            }
        }
        let mut pages = BTreeMap::new();
        for piece in pieces {
            let size = usize::try_from(piece.end - piece.start).map_err(io::Error::other)?;
            let mut bytes = vec![0; size];
            if memory.read(piece.start, &mut bytes).is_ok() {
                pages.insert(piece.start, bytes);
            }
        }
        Ok(Self(pages))
    }

    /// Bytes that were read, to be changed.
    pub(super) fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let (start, bytes) = self.0.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        bytes.get_mut(offset..)?.get_mut(..length)
    }

    /// Changes bytes in pages that are read if they haven't been.
    pub(super) fn patch(&mut self, memory: &Memory, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let page = self.rest_of_page(memory, at)?;
            let (now, later) = rest.split_at(rest.len().min(page.len()));
            for (room, byte) in page.iter_mut().zip(now) {
                *room = *byte;
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// The bytes of one page from `address` on. A page that's new, and after a piece, becomes part of it.
    fn rest_of_page(&mut self, memory: &Memory, address: u64) -> io::Result<&mut [u8]> {
        let page = address / PAGE * PAGE;
        let before = self.0.range(..=page).next_back();
        let before = before.map(|(start, bytes)| (*start, *start + bytes.len() as u64));
        let (start, end) = before.filter(|(_, end)| page <= *end).unwrap_or((page, page));
        let piece = self.0.entry(start).or_default();
        if page == end {
            let size = usize::try_from(PAGE).unwrap_or(0);
            let known = piece.len();
            piece.resize(known + size, 0);
            memory.read(page, piece.get_mut(known..).unwrap_or_default())?;
        }
        let offset = |address: u64| usize::try_from(address - start).unwrap_or(0);
        Ok(piece.get_mut(offset(address)..offset(page + PAGE)).unwrap_or_default())
    }

    /// Is in memory what was read?
    pub(super) fn are_still(&self, memory: &Memory) -> io::Result<bool> {
        let mut now = Vec::new();
        for (start, bytes) in &self.0 {
            now.resize(bytes.len(), 0);
            memory.read(*start, &mut now)?;
            if now != *bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes everything back.
    pub(super) fn write(&self, memory: &Memory) -> io::Result<()> {
        self.0.iter().try_for_each(|(start, bytes)| memory.write(*start, bytes))
    }
}
