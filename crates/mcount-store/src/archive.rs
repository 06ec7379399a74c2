//! Archives of objects, as `ar` makes them: reading their members, and recording them.
//!
//! The `object` crate reads archives. We write them ourselves, because nothing may change except the
//! members that are recorded: every header, name, padding byte and index entry must stay as another
//! program wrote it. The crate `ar_archive_writer` makes archives from scratch, with another index, order
//! of names and alignment, and its names must be UTF-8.
//!
//! A recorded member is longer, and recording adds no global symbols. So the new archive is the old one
//! with some bodies and sizes replaced, and with other offsets in its symbol index.
//!
//! Formats: System V (`/`, `/SYM64/`), GNU (`//`), BSD (`__.SYMDEF`, `#1/`). See bfd's `archive.c` and
//! LLVM's `Archive.cpp`.

use crate::commit::{ANY_MODE, Failure, is_elsewhere, kept, replace, write_output};
use crate::files::{ELF_MAGIC, Input, is_standard, open_locked, open_regular};
use mcount::{Change, Options, RecordOptions, Recording};
use object::archive::Header;
use object::read::archive::{ArchiveFile, ArchiveKind};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The first bytes of an archive.
pub const MAGIC: &[u8; 8] = &object::archive::MAGIC;
/// The first bytes of an archive that only names its members.
pub const THIN_MAGIC: &[u8; 8] = &object::archive::THIN_MAGIC;

const HEADER_SIZE: usize = size_of::<Header>();
/// Where the size is in a member's header. It is decimal.
const SIZE_FIELD: Range<usize> = 48..58;

/// A member that is ELF.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    /// Where its header begins, in bytes from the start of the archive.
    header: usize,
    /// Where its contents are.
    body: Range<usize>,
}

/// The contents of an archive.
struct Contents {
    kind: ArchiveKind,
    /// Where the contents of the symbol index are; empty if there is none.
    index: Range<usize>,
    /// The members that are ELF, in order.
    members: Vec<Member>,
    /// The names of the members that are archives.
    nested: Vec<String>,
}

/// A result for each of several members, by name.
pub type Results<T> = Vec<(String, Result<T, Failure>)>;

/// What happened to the members of an archive.
#[derive(Debug)]
pub struct Members<T> {
    /// The results of the members that are ELF, in order.
    pub results: Results<T>,
    /// The names of the members that are archives. They are skipped; linkers refuse them.
    pub nested: Vec<String>,
}

/// The names in the thin archive `archive`. They are paths relative to its folder.
///
/// # Errors
///
/// It is malformed.
pub fn names(archive: &[u8]) -> Result<Vec<OsString>, Failure> {
    let parsed = ArchiveFile::parse(archive).map_err(malformed)?;
    let mut names = Vec::new();
    for member in parsed.members() {
        match member {
            Ok(member) => names.push(OsString::from_vec(member.name().to_vec())),
            Err(_) if has_members_of_others(archive) => {
                let what = "it names members of another archive: give that one instead";
                return Err(malformed(what));
            }
            Err(error) => return Err(malformed(error)),
        }
    }
    Ok(names)
}

/// Whether a thin archive names members of a regular archive. Such a name is `/`, the place of the
/// archive's name, `:`, and the place of the member. They are all at the end.
fn has_members_of_others(archive: &[u8]) -> bool {
    let names = archive.rchunks_exact(HEADER_SIZE).filter_map(|header| header.first_chunk::<16>());
    names.take_while(|name| name.starts_with(b"/")).any(|name| name.contains(&b':'))
}

/// `verb` on each ELF member of the archive at `path`, in order.
///
/// # Errors
///
/// The archive can't be read or is malformed. An error in a member is one of the results.
pub fn read<T: Send>(
    path: &Path,
    verb: impl Fn(&[u8]) -> mcount::Result<T> + Sync,
) -> Result<Results<T>, Failure> {
    read_all(path, verb).map(|members| members.results)
}

/// The same, with the names of the members that were skipped.
///
/// # Errors
///
/// As [`read`].
pub fn read_all<T: Send, E: Into<Failure>>(
    path: &Path,
    verb: impl Fn(&[u8]) -> Result<T, E> + Sync,
) -> Result<Members<T>, Failure> {
    let input = Input::given(path)?;
    let contents = parse(input.bytes())?;
    let results = each(input.bytes(), &contents.members, |bytes| verb(bytes).map_err(Into::into));
    Ok(Members { results, nested: contents.nested })
}

/// Records each ELF member of the archive at `path`, in place or to `output`.
///
/// # Errors
///
/// As [`change`].
pub fn record(
    path: &Path,
    output: Option<&Path>,
    options: &Options,
    how: &RecordOptions,
) -> Result<Members<Recording>, Failure> {
    change(path, output, |object| {
        let mut recording = mcount::record(object, options, how)?;
        Ok((recording.change.take(), recording))
    })
}

/// Changes each ELF member of the archive at `path` as `verb` says, in place or to `output`. If `verb`
/// fails for one member, the archive stays as it is. If the archive is standard input, it goes to
/// standard output unless there is an `output`.
///
/// # Errors
///
/// The archive can't be read or written, or is malformed. An error in a member is one of the results.
pub fn change<T: Send>(
    path: &Path,
    output: Option<&Path>,
    verb: impl Fn(&[u8]) -> Result<(Option<Change>, T), Failure> + Sync,
) -> Result<Members<T>, Failure> {
    if is_standard(path) {
        let input = Input::given(path)?;
        let changed = changed(input.bytes(), verb)?;
        if !changed.is_refused() {
            let pieces: Vec<&[u8]> = changed.pieces.iter().map(AsRef::as_ref).collect();
            write_output(output.unwrap_or(path), ANY_MODE, &pieces, &[])?;
        }
        return Ok(changed.members);
    }
    loop {
        let (file, metadata) = open_regular(path, OpenOptions::new().read(true))?;
        let input = Input::new(&file, metadata.len())?;
        let changed = changed(input.bytes(), &verb)?;
        let output = output.filter(|output| is_elsewhere(output, &metadata));
        if changed.is_refused() || (changed.is_same && output.is_none()) {
            return Ok(changed.members);
        }
        // Lock it only now, because this thread may have waited for other threads.
        let (_lock, now, _) = open_locked(path)?;
        if !is_unchanged(&metadata, &now) {
            continue;
        }
        let pieces: Vec<&[u8]> = changed.pieces.iter().map(AsRef::as_ref).collect();
        match output {
            Some(output) => write_output(output, metadata.mode(), &pieces, &[])?,
            None => replace(path, &metadata, &pieces)?,
        }
        return Ok(changed.members);
    }
}

/// A new archive.
struct Changed<'a, T> {
    members: Members<T>,
    /// Whether no member changes.
    is_same: bool,
    /// Its bytes, in pieces.
    pieces: Vec<Cow<'a, [u8]>>,
}

impl<T> Changed<'_, T> {
    /// Whether there is an error in a member.
    fn is_refused(&self) -> bool {
        self.members.results.iter().any(|(_, result)| result.is_err())
    }
}

/// `archive`, with its members changed as `verb` says.
fn changed<T: Send>(
    archive: &[u8],
    verb: impl Fn(&[u8]) -> Result<(Option<Change>, T), Failure> + Sync,
) -> Result<Changed<'_, T>, Failure> {
    let mut contents = parse(archive)?;
    let (mut results, mut changes) = (Vec::new(), Vec::new());
    for (name, result) in each(archive, &contents.members, verb) {
        let (change, result) = match result {
            Ok((change, value)) => (change, Ok(value)),
            Err(failure) => (None, Err(failure)),
        };
        changes.push(change);
        results.push((name, result));
    }
    let is_same = changes.iter().all(Option::is_none);
    let pieces = splice(archive, &contents, changes)?;
    let nested = std::mem::take(&mut contents.nested);
    Ok(Changed { members: Members { results, nested }, is_same, pieces })
}

/// Whether a file is still the one that was read.
fn is_unchanged(then: &Metadata, now: &Metadata) -> bool {
    let [then, now] = [then, now].map(|file| {
        let modified = (file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec());
        (file.dev(), file.ino(), file.len(), modified)
    });
    then == now
}

/// `verb` on each of `members`. On a thread of a pool, which is where commands work on many files, this
/// is done in parallel.
fn each<T: Send>(
    archive: &[u8],
    members: &[Member],
    verb: impl Fn(&[u8]) -> Result<T, Failure> + Sync,
) -> Results<T> {
    let bodies = members.iter().map(|member| part(archive, member.body.clone()));
    let results: Vec<_> = if rayon::current_thread_index().is_some() {
        bodies.collect::<Vec<_>>().into_par_iter().map(&verb).collect()
    } else {
        bodies.map(verb).collect()
    };
    members.iter().map(|member| member.name.clone()).zip(results).collect()
}

/// The contents of `archive`.
fn parse(archive: &[u8]) -> Result<Contents, Failure> {
    let parsed = ArchiveFile::parse(archive).map_err(malformed)?;
    let index = index(archive, parsed.kind())?;
    let (mut members, mut nested) = (Vec::new(), Vec::new());
    for member in parsed.members() {
        let member = member.map_err(malformed)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let contents = member.data(archive);
        let contents = contents.map_err(|error| malformed(format_args!("{name}: {error}")))?;
        if is_archive(contents) {
            nested.push(name);
            continue;
        }
        let (Some(header), true) = (member.header(), contents.starts_with(ELF_MAGIC)) else {
            continue;
        };
        // Both are inside the archive; the crate has checked that.
        let start = usize::try_from(member.file_range().0).unwrap_or(usize::MAX);
        let header = start.saturating_sub(HEADER_SIZE + inline_name(&header.name));
        members.push(Member { name, header, body: start..start.saturating_add(contents.len()) });
    }
    Ok(Contents { kind: parsed.kind(), index, members, nested })
}

/// Whether a file that begins with `head` is a regular or thin archive.
#[must_use]
pub fn is_archive(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(THIN_MAGIC)
}

/// The size of the name after a header with this name field, which is `#1/` and a number (BSD).
fn inline_name(field: &[u8; 16]) -> usize {
    field.strip_prefix(b"#1/").and_then(decimal).unwrap_or(0)
}

/// The decimal number in a field of a header, as the crate reads it: up to the first space.
fn decimal(field: &[u8]) -> Option<usize> {
    let digits = field.split(|byte| *byte == b' ').next()?;
    // No sign is allowed.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// The new archive, in pieces. `changes` has one for each member of `contents`.
fn splice<'a>(
    archive: &'a [u8],
    contents: &Contents,
    changes: Vec<Option<Change>>,
) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
    let Contents { kind, index, members, .. } = contents;
    let mut splice = Splice { archive, done: index.end, size: index.end, ..Splice::default() };
    for (member, change) in members.iter().zip(changes) {
        if let Some(change) = change {
            splice.exchange(member, change)?;
        }
    }
    splice.keep(archive.len());
    let new_index = moved_index(part(archive, index.clone()), *kind, |old| splice.moved(old))?;
    let front = [Cow::from(part(archive, 0..index.start)), Cow::from(new_index)];
    Ok(front.into_iter().chain(splice.pieces).collect())
}

/// An archive that is being made from an old one. Sizes and offsets are in bytes.
#[derive(Default)]
struct Splice<'a> {
    archive: &'a [u8],
    /// How much of the old archive has been handled.
    done: usize,
    pieces: Vec<Cow<'a, [u8]>>,
    /// The size of the new archive so far.
    size: usize,
    /// Ascending old offsets, each with the new one. Everything between two of them moves equally far.
    moves: Vec<(u64, u64)>,
}

impl<'a> Splice<'a> {
    fn push(&mut self, piece: impl Into<Cow<'a, [u8]>>) {
        let piece = piece.into();
        self.size += piece.len();
        self.pieces.push(piece);
    }

    /// Copies the old archive up to `end`.
    fn keep(&mut self, end: usize) {
        self.push(part(self.archive, self.done..end));
        self.done = end;
    }

    /// Copies `member`, with `change` applied.
    fn exchange(&mut self, member: &Member, change: Change) -> Result<(), Failure> {
        self.keep(member.header);
        let header = member.header..member.header + HEADER_SIZE;
        let name = part(self.archive, header.end..member.body.start);
        let kept = kept(&change, part(self.archive, member.body.clone()));
        let size = name.len() + change.header.len() + kept.len() + change.appended.len();
        self.push(resized(part(self.archive, header.clone()), size)?);
        self.push(name);
        self.push(change.header);
        self.push(kept);
        self.push(change.appended);
        if !size.is_multiple_of(2) {
            self.push(b"\n".as_slice());
        }
        // The last member may lack the byte that makes its size even.
        let end = member.body.end + (member.body.end - header.end) % 2;
        self.done = end.min(self.archive.len());
        self.moves.push((self.done as u64, self.size as u64));
        Ok(())
    }

    /// The new offset of what was at `old`.
    fn moved(&self, old: u64) -> u64 {
        let before = self.moves.partition_point(|(from, _)| *from <= old);
        let last = before.checked_sub(1).and_then(|last| self.moves.get(last));
        last.map_or(old, |(from, to)| to.saturating_add(old - from))
    }
}

/// A member's header with another size.
fn resized(header: &[u8], size: usize) -> Result<Vec<u8>, Failure> {
    let digits = format!("{size:<10}");
    let mut header = header.to_vec();
    match header.get_mut(SIZE_FIELD) {
        Some(field) if field.len() == digits.len() => field.copy_from_slice(digits.as_bytes()),
        _ => return Err(malformed("a member is too large for its header")),
    }
    Ok(header)
}

/// The range of the contents of the symbol index of `archive`; empty if it has none. The index comes
/// first, so nothing before it or in it moves.
fn index(archive: &[u8], kind: ArchiveKind) -> Result<Range<usize>, Failure> {
    const NAMES: [&[u8]; 2] = [b"/               ", b"/SYM64/         "];
    let header = part(archive, MAGIC.len()..MAGIC.len() + HEADER_SIZE);
    let name = header.first_chunk::<16>().unwrap_or(&[0; 16]);
    let has_index = match kind {
        ArchiveKind::Gnu | ArchiveKind::Gnu64 => NAMES.contains(&name.as_slice()),
        ArchiveKind::Bsd | ArchiveKind::Bsd64 => true,
        ArchiveKind::Unknown => false,
        _ => return Err(malformed("its format is not supported")),
    };
    if !has_index {
        return Ok(0..0);
    }
    let size = header.get(SIZE_FIELD).and_then(decimal);
    let start = MAGIC.len() + HEADER_SIZE;
    let contents = size.map(|size| start + inline_name(name)..start.saturating_add(size));
    let inside = contents.filter(|contents| archive.get(contents.clone()).is_some());
    inside.ok_or_else(|| malformed("the symbol index has no valid size"))
}

/// The symbol index `old`, with the offsets of members changed by `moved`.
fn moved_index(
    old: &[u8],
    kind: ArchiveKind,
    moved: impl Fn(u64) -> u64,
) -> Result<Vec<u8>, Failure> {
    let mut new = old.to_vec();
    if old.is_empty() {
        return Ok(new);
    }
    // The size of a number, and of an entry. System V counts entries, BSD counts bytes.
    let (width, entry, big_endian) = match kind {
        ArchiveKind::Gnu => (4, 4, true),
        ArchiveKind::Gnu64 => (8, 8, true),
        ArchiveKind::Bsd64 => (8, 16, is_bsd_big_endian(old, 8)),
        _ => (4, 8, is_bsd_big_endian(old, 4)),
    };
    let first = number(part(old, 0..width), big_endian);
    let count = if entry == width { first } else { first / entry as u64 };
    let size = usize::try_from(count).ok().and_then(|count| count.checked_mul(entry));
    let end = size.and_then(|size| size.checked_add(width)).filter(|end| *end <= old.len());
    let entries = end.and_then(|end| new.get_mut(width..end));
    let entries = entries.ok_or_else(|| malformed("the symbol index is shorter than it says"))?;
    for entry in entries.chunks_exact_mut(entry) {
        // In a pair, the offset of the name comes first, and then that of the member.
        let (_, field) = entry.split_at_mut(entry.len() - width);
        let offset = moved(number(field, big_endian));
        if offset >> (8 * width - 1) > 1 {
            return Err(malformed("the new archive is too large for its symbol index"));
        }
        let places: &mut dyn Iterator<Item = &mut u8> =
            if big_endian { &mut field.iter_mut().rev() } else { &mut field.iter_mut() };
        for (place, byte) in places.zip(offset.to_le_bytes()) {
            *place = byte;
        }
    }
    Ok(new)
}

/// Whether the numbers in a BSD index are big-endian. It begins with the size of its entries, in the byte
/// order of the processor.
fn is_bsd_big_endian(index: &[u8], width: usize) -> bool {
    let [little, big] = [false, true].map(|big_endian| {
        let size = number(part(index, 0..width), big_endian);
        size.is_multiple_of(2 * width as u64) && size <= index.len() as u64
    });
    big && !little
}

fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let bytes = bytes.iter().copied();
    if big_endian { bytes.fold(0, append) } else { bytes.rev().fold(0, append) }
}

/// `value`, with `byte` after it.
fn append(value: u64, byte: u8) -> u64 {
    value << 8 | u64::from(byte)
}

/// A part of the archive, which is there.
fn part(archive: &[u8], range: Range<usize>) -> &[u8] {
    archive.get(range).unwrap_or_default()
}

/// An error about an archive, in the words of the library's errors.
fn malformed(what: impl Display) -> Failure {
    io::Error::new(io::ErrorKind::InvalidData, format!("archive: {what}")).into()
}
