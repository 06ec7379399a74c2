//! Leaving out of a finished trace what nothing is in any more: the shadows of stacks on which no call is open. Where there were many
//! threads, that's most of it.
//!
//! What is left is written to a new file, which takes the name of the old one. So whenever the recorder is killed, one of them is
//! there, and it's whole. Chunks stay in their order.

use crate::files::Input;
use mcount_trace::layout::{self, chunk, directory, header};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Fewer chunks than that aren't worth it: 2 MiB.
const LEAST: u64 = 32;

/// So many chunks may be copied for each that is left out, at most.
const COST: u64 = 2;

/// A trace in the place of another.
pub(super) struct Compacted {
    pub(super) file: File,
    /// How many chunks it has.
    pub(super) chunks: u64,
}

/// Has a smaller file take the place of the finished trace `file`, which has that many chunks and is at `path`. `None`: it's not worth
/// it, or can't be done.
pub(super) fn compact(file: &File, path: &Path, chunks: u64) -> Option<Compacted> {
    let size = layout::HEADER_BLOCK + chunks * layout::CHUNK_SIZE;
    let input = Input::new(file, size).ok()?;
    let old = Old { bytes: input.bytes() };
    let kept = old.kept(chunks);
    let left_out = (chunks - chunks.div_ceil(directory::SPAN)).saturating_sub(kept.len() as u64);
    if left_out < LEAST || kept.len() as u64 > COST * left_out {
        return None;
    }
    let known = file.metadata().ok()?;
    let there = std::fs::symlink_metadata(path).ok()?;
    // Somebody has moved it, or it has other names.
    if (known.dev(), known.ino()) != (there.dev(), there.ino()) || known.nlink() != 1 {
        return None;
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let made = write(&old, &kept, &new, &known).and_then(|compacted| {
        std::fs::rename(&new, path)?;
        Ok(compacted)
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    made.ok()
}

/// Writes a trace of these chunks of another.
fn write(
    old: &Old<'_>,
    kept: &[u64],
    path: &Path,
    like: &std::fs::Metadata,
) -> io::Result<Compacted> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    fchown(&file, Some(like.uid()), Some(like.gid()))?;
    file.set_permissions(like.permissions())?;
    let mut next = 0;
    for number in kept {
        next += u64::from(next % directory::SPAN == 0);
        file.write_all_at(old.chunk(*number), layout::HEADER_BLOCK + next * layout::CHUNK_SIZE)?;
        file.write_all_at(old.descriptor(*number), super::room::descriptor(next))?;
        next += 1;
    }
    file.set_len(layout::HEADER_BLOCK + next * layout::CHUNK_SIZE)?;
    let head = old.bytes.get(..usize::try_from(layout::HEADER_SIZE).unwrap_or(0));
    file.write_all_at(head.unwrap_or_default(), 0)?;
    for field in [header::NEXT_CHUNK, header::READY] {
        file.write_all_at(&next.to_ne_bytes(), field as u64)?;
    }
    Ok(Compacted { file, chunks: next })
}

/// The bytes of a trace.
struct Old<'a> {
    bytes: &'a [u8],
}

impl<'a> Old<'a> {
    fn part(&self, offset: u64, size: u64) -> &'a [u8] {
        let place = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        self.bytes.get(place(offset)..place(offset.saturating_add(size))).unwrap_or_default()
    }

    fn chunk(&self, number: u64) -> &'a [u8] {
        self.part(layout::HEADER_BLOCK + number * layout::CHUNK_SIZE, layout::CHUNK_SIZE)
    }

    fn descriptor(&self, number: u64) -> &'a [u8] {
        self.part(super::room::descriptor(number), directory::DESCRIPTOR_SIZE as u64)
    }

    fn kind(&self, number: u64) -> u32 {
        let kind = self.descriptor(number).get(directory::KIND..).and_then(<[u8]>::first_chunk);
        kind.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The shadows that a chunk has: its process, and the stack's address.
    fn whose(&self, number: u64) -> (u64, u64) {
        let field = |offset: usize| {
            let bytes = self.descriptor(number).get(offset..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        (field(directory::PID), field(directory::BASE))
    }

    /// The chunks that there's something in, by number.
    fn kept(&self, chunks: u64) -> Vec<u64> {
        // A chunk of open calls belongs to the last one of starts before it.
        let mut starts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut kept = Vec::new();
        for number in (0..chunks).filter(|number| !number.is_multiple_of(directory::SPAN)) {
            match self.kind(number) {
                chunk::UNUSED => {}
                chunk::STARTS => drop(starts.insert(self.whose(number), number)),
                chunk::OPEN if is_empty(self.chunk(number)) => {}
                chunk::OPEN => {
                    kept.extend(starts.get(&self.whose(number)));
                    kept.push(number);
                }
                _ => kept.push(number),
            }
        }
        kept.sort_unstable();
        kept.dedup();
        kept
    }
}

/// Is there nothing in it but zeroes?
fn is_empty(bytes: &[u8]) -> bool {
    let words = bytes.as_chunks::<64>().0;
    words.iter().all(|part| *part == [0; 64])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcount_trace::{End, Trace, Writer};

    /// The calls of a trace: thread, function, start, end, depth.
    fn calls(bytes: &[u8]) -> Vec<(usize, u32, u64, Option<u64>)> {
        let trace = Trace::parse(bytes).unwrap();
        assert!(!trace.damage.is_any(), "{:?}", trace.damage);
        trace.calls().map(|call| (call.thread, call.function, call.start, call.end)).collect()
    }

    /// A trace of that many stacks, of which every tenth has an open call, and of several chunks of calls.
    fn trace(stacks: u64) -> Vec<u8> {
        let mut writer = Writer::new();
        let function = writer.function("/bin/program", "a");
        let threads = [1, 2].map(|number| writer.thread(100, 100 + number));
        for number in 0..3000 {
            let call = writer.call(threads[number % 2], function);
            let start = number as u64 * 100;
            call.from(start).to(start + 50).slot(0x7ffe_0000).end(End::Return);
            if (number as u64) < stacks {
                let slot = 0x10_0000_0000 + start / 100 * layout::CHUNK_SIZE + 64;
                writer.open(threads[0], function, start + 10, slot);
            }
        }
        let mut bytes = writer.finish();
        // All but every tenth have returned.
        let count = (bytes.len() as u64 - layout::HEADER_BLOCK) / layout::CHUNK_SIZE;
        let mut turn = 0;
        for number in 0..count {
            let old = Old { bytes: &bytes };
            if old.kind(number) == chunk::OPEN && !number.is_multiple_of(directory::SPAN) {
                turn += 1;
                if turn % 10 != 0 {
                    let start = layout::HEADER_BLOCK + number * layout::CHUNK_SIZE;
                    let start = usize::try_from(start).unwrap();
                    bytes[start..start + 65_536].fill(0);
                }
            }
        }
        bytes
    }

    #[test]
    fn all_calls_are_there_afterwards() {
        for stacks in [100, 1200] {
            let bytes = trace(stacks);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace.mcount");
            crate::commit::write_new(&path, &bytes).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let count = (bytes.len() as u64 - layout::HEADER_BLOCK) / layout::CHUNK_SIZE;
            let compacted = compact(&file, &path, count).unwrap();
            assert!(compacted.chunks < count / 4, "{} of {count}", compacted.chunks);
            let size = layout::HEADER_BLOCK + compacted.chunks * layout::CHUNK_SIZE;
            let new = Input::new(&compacted.file, size).unwrap();
            assert_eq!(new.bytes().len() as u64, size);
            assert_eq!(calls(new.bytes()), calls(&bytes));
            let again = compact(&compacted.file, &path, compacted.chunks);
            assert!(again.is_none(), "nothing more to leave out");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_is_not_worth_it_stays() {
        let bytes = trace(10);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.mcount");
        crate::commit::write_new(&path, &bytes).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let count = (bytes.len() as u64 - layout::HEADER_BLOCK) / layout::CHUNK_SIZE;
        assert!(compact(&file, &path, count).is_none());
        // Somebody has moved it.
        let path = folder.path().join("trace.mcount");
        let bytes = trace(100);
        crate::commit::write_new(&path, &bytes).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let count = (bytes.len() as u64 - layout::HEADER_BLOCK) / layout::CHUNK_SIZE;
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        assert!(compact(&file, &path, count).is_none());
        assert!(!path.exists());
    }
}
