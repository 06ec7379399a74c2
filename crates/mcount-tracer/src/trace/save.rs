//! Writing the newest calls of a trace that goes on, as a trace of its own.
//!
//! Chunks that threads are about to write to are copied first, all others afterwards; a chunk that a thread has
//! taken again meanwhile is left out. Where all threads mean the first part, it's as of that moment. Where they
//! run, the calls of the last moments may lack their callers: open calls are copied first, and one that begins
//! then isn't seen.

use super::file::{TraceFile, give_name};
use super::room::descriptor;
use mcount_trace::layout::{self, chunk, directory, flags, header};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes what `trace` has now to a new file: `target`, or, if that's there, one with a number. Its path. `stand` has the
/// threads stand until what it returns is dropped.
pub(super) fn save<T>(
    trace: &TraceFile,
    target: &Path,
    stand: impl FnOnce() -> io::Result<T>,
) -> io::Result<PathBuf> {
    let target = std::path::absolute(target)?;
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let path = target.with_file_name(name);
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| crate::commit::about(&path, error))?;
    let copied = copy(trace, &file, stand).and_then(|()| give_name(&path, &target));
    copied.inspect_err(|_| drop(std::fs::remove_file(&path)))
}

/// One chunk, as its descriptor said it was.
struct Chunk {
    number: u64,
    descriptor: [u8; directory::DESCRIPTOR_SIZE],
}

impl Chunk {
    fn of(trace: &TraceFile, number: u64) -> Option<Self> {
        let mut bytes = [0; directory::DESCRIPTOR_SIZE];
        let is_there = trace.read(descriptor(number), &mut bytes);
        is_there.then_some(Self { number, descriptor: bytes })
    }

    fn kind(&self) -> u32 {
        let bytes = self.descriptor.get(directory::KIND..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Does a thread write to it?
    fn is_busy(&self) -> bool {
        let bytes = self.descriptor.get(directory::BUSY..).and_then(|bytes| bytes.first_chunk());
        self.kind() == chunk::CALLS && bytes.is_some_and(|bytes| u64::from_ne_bytes(*bytes) != 0)
    }

    /// Is it still the same one's?
    fn is_same(&self, trace: &TraceFile) -> bool {
        let end = directory::USED;
        Self::of(trace, self.number)
            .is_some_and(|now| now.descriptor.get(..end) == self.descriptor.get(..end))
    }

    /// Copies its bytes.
    fn copy(&self, trace: &TraceFile, file: &File) -> io::Result<()> {
        let mut bytes = vec![0; usize::try_from(layout::CHUNK_SIZE).unwrap_or(0)];
        let place = layout::HEADER_BLOCK + self.number * layout::CHUNK_SIZE;
        if !trace.read(place, &mut bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(&bytes, place)
    }

    /// Says what it is.
    fn describe(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.descriptor, descriptor(self.number))
    }
}

fn copy<T>(
    trace: &TraceFile,
    file: &File,
    stand: impl FnOnce() -> io::Result<T>,
) -> io::Result<()> {
    trace.measure_clock();
    let standing = stand()?;
    let mut head = vec![0; usize::try_from(layout::HEADER_SIZE).unwrap_or(0)];
    if !trace.read(0, &mut head) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let end = trace.ticks();
    let word = |offset: usize| {
        let bytes = head.get(offset..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    let (next, flag) = (trace.chunks(), word(header::FLAGS) | flags::FINISHED);
    let mut dropped = word(header::DROPPED);
    let numbers = (0..next).filter(|number| !number.is_multiple_of(directory::SPAN));
    let chunks: Vec<Chunk> = numbers.filter_map(|number| Chunk::of(trace, number)).collect();
    let is_open = |one: &&Chunk| matches!(one.kind(), chunk::STARTS | chunk::OPEN);
    let is_busy = |one: &&Chunk| one.is_busy();
    let is_now = |one: &&Chunk| is_busy(one) || is_open(one);
    for one in chunks.iter().filter(is_open).chain(chunks.iter().filter(is_busy)) {
        one.copy(trace, file)?;
        one.describe(file)?;
    }
    drop(standing);
    let later = |one: &&Chunk| one.kind() != chunk::UNUSED && !is_now(one);
    for one in chunks.iter().filter(later) {
        one.copy(trace, file)?;
        if one.kind() == chunk::METADATA || one.is_same(trace) {
            one.describe(file)?;
        } else {
            dropped += layout::CHUNK_SIZE / layout::call::SIZE as u64 - 1;
        }
    }
    file.write_all_at(&head, 0)?;
    for (offset, value) in
        [(header::END_TICKS, end), (header::FLAGS, flag), (header::DROPPED, dropped)]
    {
        file.write_all_at(&value.to_ne_bytes(), offset as u64)?;
    }
    file.set_len(layout::HEADER_BLOCK + next * layout::CHUNK_SIZE)
}
