//! Opening and reading files, and standard input. This is the only place that maps memory.

use crate::words::counted;
use memmap2::{Mmap, UncheckedAdvice};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock, tell};
use rustix::io::{Errno, read};
use rustix::stdio::{stderr, stdin, stdout};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

/// Files of at least this many bytes are mapped. For smaller files, reading costs less than page faults.
const MAP_FROM: u64 = 32 * 1024;

/// The most bytes that are held in memory, if the user asks for no more. A 32-bit host only has 4 GiB of
/// addresses.
pub(crate) const MOST_IN_MEMORY: u64 = if usize::BITS == 32 { 1 << 30 } else { 4 << 30 };

/// The first bytes of an ELF file.
pub const ELF_MAGIC: &[u8] = b"\x7fELF";

/// The bytes of a file.
pub enum Input {
    /// Read into memory.
    Read(Vec<u8>),
    /// Mapped, privately.
    Mapped(Mmap),
    /// Standard input, which is read once for the whole process.
    Standard(&'static [u8]),
}

impl Input {
    /// The bytes of `file`, which has `size` bytes.
    ///
    /// # Errors
    ///
    /// The file can't be read or mapped, or is too large for this host.
    pub fn new(file: &File, size: u64) -> io::Result<Self> {
        if isize::try_from(size).is_err() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if size >= MAP_FROM {
            // SAFETY: the map is private and read-only. If another process shortens the file
            // while it is mapped, a read may fault and end this process. Nothing is lost, because
            // nothing was written yet. Recorders lock the file against each other.
            match unsafe { Mmap::map(file) } {
                // Files that the kernel makes when they are read can't always be mapped.
                Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {}
                mapped => return mapped.map(Self::Mapped),
            }
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The standard library would ask again for the size, and look for the end of the file.
        while bytes.len() < bytes.capacity() {
            match read(file, spare_capacity(&mut bytes)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::Read(bytes))
    }

    /// The bytes of the file at `path`.
    ///
    /// # Errors
    ///
    /// It can't be opened or read, or isn't a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_regular(path, OpenOptions::new().read(true))?;
        Self::new(&file, metadata.len())
    }

    /// The bytes of a file from the command line. `-` is standard input.
    ///
    /// # Errors
    ///
    /// As [`Input::open`].
    pub fn given(path: &Path) -> io::Result<Self> {
        if is_standard(path) { standard_input().map(Self::Standard) } else { Self::open(path) }
    }

    /// Gives back the memory that holds what was read so far. It's read again where it is asked for again.
    pub fn give_back(&self) {
        if let Self::Mapped(map) = self {
            // SAFETY: the map is read-only, so what is read again is what the file has.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(map) => map,
            Self::Standard(bytes) => bytes,
        }
    }
}

/// The bytes of the file at `path`, up to its end, wherever the file system says that this is: the kernel
/// makes files of which it says that they are empty.
///
/// # Errors
///
/// As [`Input::open`].
pub fn read_to_end(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, _) = open_regular(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether `path` is `-`, which is standard input, or for an output, standard output. A file with that
/// name is `./-`.
#[must_use]
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All of standard input. It is read once and kept, so that a command can read it again, and can have it
/// as two of its inputs. So is an error: what comes after it isn't the input.
fn standard_input() -> io::Result<&'static [u8]> {
    static CONTENTS: OnceLock<io::Result<Input>> = OnceLock::new();
    match CONTENTS.get_or_init(read_standard_input) {
        Ok(input) => Ok(input.bytes()),
        Err(error) => Err(match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        }),
    }
}

fn read_standard_input() -> io::Result<Input> {
    match regular_input() {
        Some(input) => input,
        None => read_stream(io::stdin().lock(), MOST_IN_MEMORY).map(Input::Read),
    }
}

/// Standard input, if it is a large regular file, still at its start: mapping it needs no memory.
fn regular_input() -> Option<io::Result<Input>> {
    let file = File::from(stdin().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    let is_whole = metadata.is_file() && tell(&file) == Ok(0);
    (is_whole && metadata.len() >= MAP_FROM).then(|| Input::new(&file, metadata.len()))
}

/// All of `stream`, which has `most` bytes at most.
fn read_stream(stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let most = counted(most, "byte", "bytes");
        let text = format!("has more than {most}: write them to a file, and give its name");
        return Err(io::Error::other(text));
    }
    Ok(bytes)
}

/// Opens the regular file `path`.
///
/// # Errors
///
/// It can't be opened, or is a folder, a device or the like.
pub fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<(File, Metadata)> {
    // Don't wait for a pipe to which nobody writes. For a regular file, the flag has no effect.
    let file = open(path, options.clone().custom_flags(NONBLOCK))?;
    let metadata = file.metadata()?;
    is_regular(&metadata).map(|()| (file, metadata))
}

/// `O_NONBLOCK`.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(is_folder()),
        other => other,
    }
}

/// Appends to a file, which is made if it isn't there.
///
/// # Errors
///
/// It can't be written.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(bytes)
}

/// Opens `/dev/null` for each standard stream that is closed, so that no file can take its number.
pub fn open_standard_streams() {
    let streams = [stdin(), stdout(), stderr()];
    let mut polled = streams.each_ref().map(|stream| PollFd::new(stream, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut polled, Some(&now)).is_ok_and(|found| found == 0) {
        return;
    }
    for _ in polled.iter().filter(|stream| stream.revents().contains(PollFlags::NVAL)) {
        // It gets the lowest free number, which is that of the stream.
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = null.into_raw_fd();
        }
    }
}

/// Fails if this isn't a regular file.
fn is_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(is_folder());
    }
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
}

fn is_folder() -> io::Error {
    io::Error::other("is a folder")
}

/// The first bytes of the file at `path`, or of standard input if that is `-`. If it has fewer, the rest
/// is zeros.
///
/// # Errors
///
/// As [`open_regular`], or it can't be read.
pub fn head<const SIZE: usize>(path: &Path) -> io::Result<[u8; SIZE]> {
    let mut head = Vec::with_capacity(SIZE);
    if is_standard(path) {
        head.extend(standard_input()?.iter().take(SIZE));
    } else {
        let (file, _) = open_regular(path, OpenOptions::new().read(true))?;
        file.take(SIZE as u64).read_to_end(&mut head)?;
    }
    head.resize(SIZE, 0);
    Ok(head.try_into().unwrap_or([0; SIZE]))
}

/// Opens `path` for changing, or only for reading if it can't be written. It is locked against other
/// recorders until it is closed. Returns whether it can be written.
///
/// # Errors
///
/// As [`open_regular`].
pub fn open_locked(path: &Path) -> io::Result<(File, Metadata, bool)> {
    loop {
        let mut read_write = OpenOptions::new();
        read_write.read(true).write(true);
        let (file, writable) = match open(path, &read_write) {
            Ok(file) => (file, true),
            Err(error) if is_denied(&error) => {
                (open_regular(path, OpenOptions::new().read(true))?.0, false)
            }
            Err(error) => return Err(error),
        };
        lock(&file);
        let metadata = file.metadata()?;
        is_regular(&metadata)?;
        // While we waited, another process may have replaced the file.
        if is_at(&metadata, path) {
            return Ok((file, metadata, writable));
        }
    }
}

/// Locks `file`, after waiting for other recorders. If the file system has no locks, does nothing.
pub fn lock(file: &File) {
    while flock(file, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
}

/// Whether a file can't be written, but perhaps read and replaced. A running program is such a file.
fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{ExecutableFileBusy, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | ExecutableFileBusy)
}

/// Whether the file with this `metadata` is at `path`, or where that links to.
#[must_use]
pub fn is_at(metadata: &Metadata, path: &Path) -> bool {
    let there = path.metadata();
    there.is_ok_and(|there| there.ino() == metadata.ino() && there.dev() == metadata.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream may have no end.
    #[test]
    fn a_stream_has_a_limit() {
        assert_eq!(read_stream(&b"1234"[..], 4).unwrap(), b"1234");
        let error = read_stream(io::repeat(0), 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "has more than 1048576 bytes: write them to a file, and give its name");
    }
}
