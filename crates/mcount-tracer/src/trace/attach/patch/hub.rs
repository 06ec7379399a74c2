//! A patched process keeps this: one block for all patches, which the next `mcount patch` finds.
//!
//! ```text
//! room        code: a system call, where functions return to, and a gate for each slot
//! table       one page: which patches there are and which are in force, and where each slot leads
//! entries     for each slot, which function it's of, and what its hook was
//! stack       for what a thread is made to do
//! ```
//!
//! All that decides which code runs is in the table, and the table is written at once, as one page: so a recorder that is
//! killed leaves all of the old after it, or all of the new. A module that is out of the block's reach has another room
//! near it, with the same gates.
//!
//! The contents of a process are its own. Code is compared with what it should be; the rest can only do harm to
//! the process itself, and is never an address here, nor a length, without a limit.

use super::super::block::{anonymous, give, in_memory, map_file, map_near};
use super::super::maps::{self, Mapping};
use super::arch;
use crate::trace::processor::{REACH, SITE};
use crate::trace::space::{gaps, reaches};
use mcount_hooks::PAGE;
use mcount_ptrace::rescue::Rescue;
use mcount_ptrace::{CallEnd, Memory, Remote, Target};
use nix::libc;
use std::io;

const MAGIC: &[u8; 16] = b"mcount-patch  1\n";
const CALL: u64 = 64;
const DONE: u64 = 128;
const STORAGE: u64 = 192;
const DESCRIPTOR: u64 = 256;
const GATES: u64 = PAGE;
const ROOM: u64 = GATES + ((SLOTS * arch::GATE) as u64).next_multiple_of(PAGE);
pub(super) const SLOTS: usize = 432;
pub(super) const PATCHES: usize = 64;
const OWNER: usize = 16;
const PATCH_WORDS: usize = 64;
const SLOT_WORDS: usize = PATCH_WORDS + 8 * PATCHES;
const ENTRY: u64 = 256;
const ENTRIES: u64 = (SLOTS as u64 * ENTRY).next_multiple_of(PAGE);
const STACK: u64 = 64 << 10;
const TOTAL: u64 = ROOM + PAGE + ENTRIES + STACK;
/// Bytes of a name that are kept.
const LONGEST: usize = 160;

/// A file in memory, by whose name the next recorder finds it.
pub(super) fn file(bytes: &[u8]) -> io::Result<std::fs::File> {
    in_memory(c"mcount-patch", bytes)
}

/// The block of a process, and its rooms.
pub(super) struct Hub {
    start: u64,
    /// All of them, the block's own first.
    rooms: Vec<u64>,
}

/// One page that decides which code runs.
#[derive(Clone)]
pub(super) struct Table(Vec<u8>);

impl Table {
    fn new() -> Self {
        let mut bytes = vec![0; usize::try_from(PAGE).unwrap_or(0)];
        if let Some(room) = bytes.get_mut(..MAGIC.len()) {
            room.copy_from_slice(MAGIC);
        }
        Self(bytes)
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn set_word(&mut self, at: usize, value: u64) {
        if let Some(room) = self.0.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
            *room = value.to_le_bytes();
        }
    }

    /// The target of slot `index`; 0 if it's free.
    pub(super) fn slot(&self, index: usize) -> u64 {
        if index < SLOTS { self.word(SLOT_WORDS + 8 * index) } else { 0 }
    }

    pub(super) fn set_slot(&mut self, index: usize, target: u64) {
        if index < SLOTS {
            self.set_word(SLOT_WORDS + 8 * index, target);
        }
    }

    /// Where patch `index` is, and whether it's in force; `None` if there's none.
    pub(super) fn patch(&self, index: usize) -> Option<(u64, bool)> {
        let word = if index < PATCHES { self.word(PATCH_WORDS + 8 * index) } else { 0 };
        (word != 0).then_some((word & !(PAGE - 1), word & 1 != 0))
    }

    pub(super) fn set_patch(&mut self, index: usize, start: u64, is_in_force: bool) {
        if index < PATCHES {
            self.set_word(PATCH_WORDS + 8 * index, start | u64::from(is_in_force));
        }
    }

    /// The first patch that there's room for.
    pub(super) fn next_patch(&self) -> Option<usize> {
        (0..PATCHES).find(|index| self.patch(*index).is_none())
    }
}

/// The data about the function of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) function: u64,
    pub(super) size: u64,
    /// Where the hook is, and what was there.
    pub(super) site: u64,
    pub(super) idle: Vec<u8>,
    /// Where the jump to the gate is, if not at the hook.
    pub(super) before: Option<(u64, Vec<u8>)>,
}

impl Entry {
    const MOST_IDLE: usize = 24;

    /// Where the old function goes on behind its hook.
    pub(super) fn body(&self) -> u64 {
        self.site.wrapping_add(self.idle.len() as u64)
    }

    fn bytes(&self) -> Vec<u8> {
        let (before, old) = self.before.clone().unwrap_or_default();
        let mut cut = self.name.len().min(LONGEST);
        while !self.name.is_char_boundary(cut) {
            cut -= 1;
        }
        let name = self.name.get(..cut).unwrap_or_default();
        let words = [
            self.site,
            self.function,
            self.size,
            before,
            self.idle.len() as u64,
            name.len() as u64,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (piece, size) in
            [(self.idle.as_slice(), Self::MOST_IDLE), (&old, 8), (name.as_bytes(), LONGEST)]
        {
            let end = bytes.len() + size;
            bytes.extend_from_slice(piece.get(..size).unwrap_or(piece));
            bytes.resize(end, 0);
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = bytes.get(8 * index..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let length = |index: usize, most: usize| {
            word(index).and_then(|value| usize::try_from(value).ok()).filter(|value| *value <= most)
        };
        let (idle, name) = (length(4, Self::MOST_IDLE)?, length(5, LONGEST)?);
        let (at, old) = (48, 48 + Self::MOST_IDLE);
        let before = word(3).filter(|before| *before != 0);
        let old = bytes.get(old..)?.get(..SITE)?.to_vec();
        let name = bytes.get(at + Self::MOST_IDLE + 8..)?.get(..name)?;
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            function: word(1)?,
            size: word(2)?,
            site: word(0)?,
            idle: bytes.get(at..)?.get(..idle)?.to_vec(),
            before: before.map(|before| (before, old)),
        })
    }
}

/// The code of a room at `at`, for the block at `hub`.
fn room(hub: u64) -> Vec<u8> {
    let mut bytes = [MAGIC.as_slice(), &hub.to_le_bytes()].concat();
    let mut put = |at: u64, code: &[u8]| {
        let at = usize::try_from(at).unwrap_or(0);
        bytes.resize(bytes.len().max(at), arch::FILLING);
        bytes.truncate(at);
        bytes.extend_from_slice(code);
    };
    put(CALL, arch::CALL);
    put(DONE, arch::DONE);
    put(STORAGE, arch::STORAGE);
    put(DESCRIPTOR, arch::DESCRIPTOR);
    for index in 0..SLOTS as u64 {
        let slot = hub + ROOM + SLOT_WORDS as u64 + 8 * index;
        put(GATES + index * arch::GATE as u64, &arch::gate(slot));
    }
    put(ROOM, &[]);
    bytes
}

impl Hub {
    /// The block that's in the process already.
    pub(super) fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let is_room = |map: &&Mapping| {
            maps::is_patch(map)
                && map.offset == 0
                && map.permissions == *b"r-xp"
                && map.end - map.start == ROOM
        };
        let rooms: Vec<u64> = maps.iter().filter(is_room).map(|map| map.start).collect();
        let mut head = vec![0; MAGIC.len()];
        let start = rooms.iter().copied().find(|start| {
            let is_data =
                |at: u64| maps::find(maps, at).is_some_and(|map| map.permissions == *b"rw-p");
            is_same(memory, *start, &room(*start))
                && [ROOM, TOTAL - 1].iter().all(|offset| is_data(start + offset))
                && memory.read(start + ROOM, &mut head).is_ok()
                && head == MAGIC
        })?;
        let mut all = vec![start];
        let expected = room(start);
        all.extend(rooms.into_iter().filter(|at| *at != start && is_same(memory, *at, &expected)));
        Some(Self { start, rooms: all })
    }

    /// Maps the block near `extent`.
    pub(super) fn inject(
        remote: &mut Remote<'_>,
        target: Target<'_>,
        maps: &[Mapping],
        extent: (u64, u64),
    ) -> io::Result<Self> {
        let start = map_near(remote, maps, extent, TOTAL)?;
        let hub = Self { start, rooms: Vec::new() };
        let done = hub.map(remote, target);
        if done.is_err() {
            let _ = remote.call(libc::SYS_munmap, &[hub.start, TOTAL]);
        }
        done.map(|()| Self { rooms: vec![hub.start], ..hub })
    }

    fn map(&self, remote: &mut Remote<'_>, target: Target<'_>) -> io::Result<()> {
        let mut bytes = room(self.start);
        let data = libc::PROT_READ | libc::PROT_WRITE;
        // From here on, the thread can do without us.
        let head = bytes.get(..usize::try_from(GATES).unwrap_or(0)).unwrap_or_default();
        target.memory.write(self.start, head)?;
        let frame = self.start + ROOM - 2 * PAGE - arch::FRAME_BELOW;
        remote.rescue(Rescue { gate: self.call(), frame })?;
        remote.call(libc::SYS_mmap, &anonymous(self.start + ROOM, TOTAL - ROOM, data, false))?;
        remote.rescue(self.rescue())?;
        bytes.extend_from_slice(&Table::new().0);
        bytes.resize(usize::try_from(ROOM + PAGE + ENTRIES).unwrap_or(0), 0);
        let descriptor = self.give(remote, target, &bytes)?;
        // What makes it one comes last.
        let mapped =
            map_file(remote, (self.start + ROOM, PAGE + ENTRIES), data, (descriptor, ROOM));
        let mapped = mapped.and_then(|()| map_room(remote, self.start, descriptor));
        let closed = remote.call(libc::SYS_close, &[descriptor]);
        mapped.and(closed.map(|_| ()))
    }

    /// Gives the process a file with these bytes.
    pub(super) fn give(
        &self,
        remote: &mut Remote<'_>,
        target: Target<'_>,
        bytes: &[u8],
    ) -> io::Result<u64> {
        give(self.start + TOTAL - STACK, remote, target, &file(bytes)?)
    }

    /// A room that the module at `extent` reaches, which is made if there's none.
    pub(super) fn room_for(
        &mut self,
        remote: &mut Remote<'_>,
        target: Target<'_>,
        maps: &[Mapping],
        extent: (u64, u64),
    ) -> io::Result<()> {
        if self.room_near(extent).is_some() {
            return Ok(());
        }
        let start = gaps(&maps::ranges(maps), extent, ROOM, REACH).next();
        let start = start.ok_or_else(|| {
            io::Error::other(format!("no free memory within {} MiB", (REACH >> 20) + 1))
        })?;
        let descriptor = self.give(remote, target, &room(self.start))?;
        let mapped = map_room(remote, start, descriptor);
        remote.call(libc::SYS_close, &[descriptor])?;
        mapped?;
        self.rooms.push(start);
        Ok(())
    }

    fn room_near(&self, extent: (u64, u64)) -> Option<u64> {
        self.rooms.iter().copied().find(|start| reaches(extent, (*start, start + ROOM), REACH))
    }

    /// Where the module at `extent` jumps to for slot `index`.
    pub(super) fn gate(&self, index: usize, extent: (u64, u64)) -> Option<u64> {
        Some(self.room_near(extent)? + GATES + (index * arch::GATE) as u64)
    }

    /// Is `target` the gate of slot `index`?
    pub(super) fn is_gate(&self, index: usize, target: u64) -> bool {
        let offset = GATES + (index * arch::GATE) as u64;
        self.rooms.iter().any(|start| start + offset == target)
    }

    /// Where slot `index` leads for the old function `entry`: behind its hook, or to a way there. `None` if nothing is near.
    pub(super) fn old(&self, index: usize, entry: &Entry) -> Option<u64> {
        let body = entry.body();
        let Some(way) = arch::WAY_BACK else { return Some(body) };
        Some(self.gate(index, (entry.site, body))? + way)
    }

    /// Does a slot that leads to `target` lead to the old function?
    pub(super) fn is_old(&self, index: usize, entry: &Entry, target: u64) -> bool {
        match arch::WAY_BACK {
            Some(way) => self.is_gate(index, target.wrapping_sub(way)),
            None => target == entry.body(),
        }
    }

    /// Makes the way there from slot `index`, which no hook uses yet.
    pub(super) fn make_way(&self, memory: &Memory, index: usize, entry: &Entry) -> Option<u64> {
        let old = self.old(index, entry)?;
        if let Some(branch) = arch::way_back(old, entry.body()) {
            memory.write(old, &branch).ok()?;
        }
        Some(old)
    }

    /// Where a gate begins that a thread which stands at `address` has begun, if it's to begin again when slots change.
    pub(super) fn begun_gate(&self, address: u64) -> Option<u64> {
        let behind = arch::WAY_BACK? + 4;
        self.rooms.iter().find_map(|start| {
            let distance = address.checked_sub(start + GATES)?;
            let (index, offset) = (distance / arch::GATE as u64, distance % arch::GATE as u64);
            (index < SLOTS as u64 && (1..behind).contains(&offset)).then_some(address - offset)
        })
    }

    /// An instruction that makes a system call.
    fn call(&self) -> u64 {
        self.start + CALL
    }

    /// What objects call for the address of a thread-local variable.
    pub(super) fn storage(&self) -> u64 {
        self.start + STORAGE
    }

    /// What descriptors of thread-local variables lead to.
    pub(super) fn descriptor(&self) -> u64 {
        self.start + DESCRIPTOR
    }

    /// Room for what a resolver of a function is asked with.
    pub(super) fn asked(&self) -> u64 {
        self.start + TOTAL - STACK + PAGE
    }

    /// Where functions return to.
    pub(super) fn end(&self) -> CallEnd {
        let done = self.start + DONE;
        // What's above is the frame that the thread finds if the recorder is gone.
        CallEnd { done, is_done: done + arch::IS_DONE, stack: self.frame() + arch::FRAME_BELOW }
    }

    /// The way of a thread that works for a recorder which has died.
    pub(super) fn rescue(&self) -> Rescue {
        Rescue { gate: self.call(), frame: self.frame() }
    }

    /// Where the frame of a signal has room: where it ends, a function's begins.
    fn frame(&self) -> u64 {
        self.start + TOTAL - STACK / 2 - arch::FRAME_BELOW
    }

    pub(super) fn table(&self, memory: &Memory) -> io::Result<Table> {
        let mut bytes = vec![0; usize::try_from(PAGE).unwrap_or(0)];
        memory.read(self.start + ROOM, &mut bytes)?;
        Ok(Table(bytes))
    }

    /// The moment in which everything changes.
    pub(super) fn set_table(&self, memory: &Memory, table: &Table) -> io::Result<()> {
        memory.write(self.start + ROOM, &table.0)
    }

    /// The recorder that is at work, as it says: its process and when that began.
    pub(super) fn owner(table: &Table) -> (u64, u64) {
        (table.word(OWNER), table.word(OWNER + 8))
    }

    pub(super) fn set_owner(table: &mut Table, owner: (u64, u64)) {
        table.set_word(OWNER, owner.0);
        table.set_word(OWNER + 8, owner.1);
    }

    pub(super) fn entry(&self, memory: &Memory, index: usize) -> Option<Entry> {
        let mut bytes = vec![0; usize::try_from(ENTRY).ok()?];
        memory.read(self.start + ROOM + PAGE + index as u64 * ENTRY, &mut bytes).ok()?;
        Entry::parse(&bytes)
    }

    pub(super) fn set_entry(&self, memory: &Memory, index: usize, entry: &Entry) -> io::Result<()> {
        memory.write(self.start + ROOM + PAGE + index as u64 * ENTRY, &entry.bytes())
    }
}

fn map_room(remote: &mut Remote<'_>, start: u64, descriptor: u64) -> io::Result<()> {
    map_file(remote, (start, ROOM), libc::PROT_READ | libc::PROT_EXEC, (descriptor, 0))
}

/// Is what's there a room as it's expected, but for ways back?
fn is_same(memory: &Memory, start: u64, expected: &[u8]) -> bool {
    let mut found = vec![0; expected.len()];
    if memory.read(start, &mut found).is_err() {
        return false;
    }
    let gates = usize::try_from(GATES).unwrap_or(0);
    let pairs = found.iter_mut().zip(expected).skip(gates).take(SLOTS * arch::GATE);
    for (place, (found, expected)) in pairs.enumerate() {
        if arch::WAY_BACK.is_some_and(|way| (way..way + 4).contains(&((place % arch::GATE) as u64)))
        {
            *found = *expected;
        }
    }
    found == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry {
            name: "größe".repeat(40),
            function: 0x1000,
            size: 80,
            site: 0x1004,
            idle: vec![0x90; 16],
            before: Some((0xff0, vec![7; SITE])),
        };
        let found = Entry::parse(&entry.bytes()).unwrap();
        assert!(entry.name.starts_with(&found.name) && found.name.len() > 100);
        assert_eq!(Entry { name: entry.name.clone(), ..found }, entry);
        let none = Entry { before: None, ..entry };
        assert_eq!(Entry::parse(&none.bytes()).unwrap().before, None);
    }

    #[test]
    fn lengths_that_a_process_makes_up_are_refused() {
        for (word, value) in [(4, 25_u64), (5, 161), (4, u64::MAX), (5, u64::MAX)] {
            let mut bytes = vec![0; 256];
            bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
            assert_eq!(Entry::parse(&bytes), None, "{word} {value}");
        }
    }
}
