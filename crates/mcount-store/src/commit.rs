//! Writes a recorded object to disk so that nothing is lost. At every instant, the file is the complete
//! old object or the complete new one.
//!
//! A file with only one name is changed in place: we append what is new, and then one write of the ELF
//! header makes it current. Any other file is written beside the old one and renamed over it. Signals
//! wait until that is done or undone.
//!
//! A file that is changed keeps its mode and its owner. A file that `--output` names is new, like a
//! linker's output: it belongs to whoever runs the command, and has the mode of the input without the
//! bits of the umask.

use crate::files::{Input, is_at, is_standard, lock, open_locked, open_regular};
use crate::signals;
use mcount::{Change, ErrorKind, Options, RecordOptions, Recording, Write};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, open};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a command couldn't do its work on a file.
#[derive(Debug)]
pub enum Failure {
    /// An error of the operating system.
    Io(io::Error),
    /// An error of the library.
    Object(mcount::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::FBIG) => write!(f, "{}: raise ulimit -f", without_number(error)),
                Some(Errno::MFILE) => write!(f, "{}: raise ulimit -n", without_number(error)),
                Some(_) => write!(f, "{}", without_number(error)),
                None => error.fmt(f),
            },
            Self::Object(error) => {
                error.fmt(f)?;
                advice(&error.kind).map_or(Ok(()), |advice| write!(f, ": {advice}"))
            }
        }
    }
}

/// What to do about an error, if there is something to say.
fn advice(kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Archive => Some("take out its members (ar x)"),
        ErrorKind::Bitcode => Some("record vmlinux.o after the LTO link"),
        ErrorKind::SlimLto => Some("record the object that the LTO link makes"),
        _ => None,
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<mcount::Error> for Failure {
    fn from(error: mcount::Error) -> Self {
        Self::Object(error)
    }
}

/// `error`, with the `path` of the file that it is about.
#[must_use]
pub fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {}", path.display(), Failure::from(error)))
}

/// A writer whose errors name the file that it writes, as [`about`] does.
#[derive(Debug)]
pub struct NamedWriter<W> {
    out: W,
    path: PathBuf,
}

impl<W: io::Write> NamedWriter<W> {
    /// Writes to `out`, which is the file at `path`, or will be.
    pub fn new(out: W, path: &Path) -> Self {
        Self { out, path: path.to_owned() }
    }
}

impl<W: io::Write> io::Write for NamedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| about(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| about(&self.path, error))
    }
}

/// The message of the C library, without " (os error 2)".
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What to do with a file.
#[derive(Debug)]
pub enum Plan {
    /// Leave it as it is, and don't write an output either.
    Refuse,
    /// Leave it as it is. An output is a copy of it.
    Keep,
    /// Append to it.
    Append(Change),
    /// Change these bytes.
    Overwrite(Vec<Write>),
}

/// Records the object at `path`, in place or to `output`.
///
/// # Errors
///
/// The object can't be read, recorded or written. The file is as it was.
pub fn record_file(
    path: &Path,
    output: Option<&Path>,
    options: &Options,
    how: &RecordOptions,
) -> Result<Recording, Failure> {
    change_file(path, output, |object| {
        let mut recording = mcount::record(object, options, how)?;
        let plan = recording.change.take().map_or(Plan::Keep, Plan::Append);
        Ok((plan, recording))
    })
}

/// Changes the file at `path`, in place or to `output`, as `plan` says. If the file is standard input,
/// the result goes to standard output unless there is an `output`.
///
/// # Errors
///
/// The file can't be read or written, or `plan` fails. The file is as it was.
pub fn change_file<T>(
    path: &Path,
    output: Option<&Path>,
    plan: impl FnOnce(&[u8]) -> Result<(Plan, T), Failure>,
) -> Result<T, Failure> {
    if is_standard(path) {
        let input = Input::given(path)?;
        let (plan, result) = plan(input.bytes())?;
        write_changed(output.unwrap_or(path), ANY_MODE, plan, input.bytes())?;
        return Ok(result);
    }
    let (file, metadata, writable) = open_locked(path)?;
    let input = Input::new(&file, metadata.len())?;
    let (plan, result) = plan(input.bytes())?;
    if let Some(output) = output.filter(|output| is_elsewhere(output, &metadata)) {
        write_changed(output, metadata.mode(), plan, input.bytes())?;
        return Ok(result);
    }
    match plan {
        Plan::Refuse | Plan::Keep => {}
        Plan::Append(change) if writable && metadata.nlink() == 1 => {
            let old: Vec<u8> = input.bytes().iter().take(change.header.len()).copied().collect();
            drop(input);
            append(&file, &metadata, &change, &old)?;
        }
        Plan::Append(change) => replace(path, &metadata, &parts(&change, input.bytes()))?,
        Plan::Overwrite(writes) => {
            put(path, Like::File(&metadata), &[input.bytes()], &writes)?;
        }
    }
    Ok(result)
}

/// Whether `output` isn't the file with this `metadata`.
pub(crate) fn is_elsewhere(output: &Path, metadata: &Metadata) -> bool {
    is_standard(output) || !is_at(metadata, output)
}

/// Writes `old`, changed by `plan`, to `output`.
fn write_changed(output: &Path, mode: u32, plan: Plan, old: &[u8]) -> io::Result<()> {
    match plan {
        Plan::Refuse => Ok(()),
        Plan::Keep => write_output(output, mode, &[old], &[]),
        Plan::Append(change) => write_output(output, mode, &parts(&change, old), &[]),
        Plan::Overwrite(writes) => write_output(output, mode, &[old], &writes),
    }
}

/// The new object in parts. `object` is the old one.
fn parts<'a>(change: &'a Change, object: &'a [u8]) -> [&'a [u8]; 3] {
    [&change.header, kept(change, object), &change.appended]
}

/// The part of `object` that stays, between the new header and what is appended.
pub(crate) fn kept<'o>(change: &Change, object: &'o [u8]) -> &'o [u8] {
    let end = usize::try_from(change.at).unwrap_or(usize::MAX).min(object.len());
    object.get(change.header.len()..end).unwrap_or_default()
}

/// Appends, and then makes what was appended current. After an error, the old bytes are back.
fn append(file: &File, metadata: &Metadata, change: &Change, old: &[u8]) -> io::Result<()> {
    let _guard = signals::hold();
    let written = file
        .write_all_at(&change.appended, change.at)
        .and_then(|()| file.write_all_at(&change.header, 0));
    if written.is_err() {
        // Report the first error. These may fail for the same reason.
        let _ = file.write_all_at(old, 0);
        // If the new header may still be there, what it refers to must stay.
        let mut header = vec![0; old.len()];
        if file.read_exact_at(&mut header, 0).is_ok() && header == old {
            let _ = file.set_len(metadata.len());
        }
    }
    written
}

/// Makes `parts` the contents of the file at `path`, which has this `metadata`, through a temporary file
/// beside it.
pub(crate) fn replace(path: &Path, metadata: &Metadata, parts: &[&[u8]]) -> io::Result<()> {
    put(path, Like::File(metadata), parts, &[])
}

/// Makes `bytes` the contents of `path`, completely or not at all. `-` is standard output.
///
/// # Errors
///
/// The file can't be written beside `path`, or can't be renamed.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, Like::New(ANY_MODE), &[bytes], &[])
}

/// Makes `parts`, with `writes` over them, the contents of `output`, which is made of a file with this
/// mode. Errors name the output, because the caller names the input.
pub(crate) fn write_output(
    output: &Path,
    mode: u32,
    parts: &[&[u8]],
    writes: &[Write],
) -> io::Result<()> {
    put(output, Like::New(mode), parts, writes).map_err(|error| {
        let (kind, name) = (error.kind(), output_name(output));
        io::Error::new(kind, format!("cannot write {name}: {}", Failure::from(error)))
    })
}

/// The name in messages of the output `path`.
#[must_use]
pub fn output_name(path: &Path) -> String {
    if is_standard(path) { "standard output".to_owned() } else { path.display().to_string() }
}

/// Read and write for everybody. The umask then removes some of it.
pub(crate) const ANY_MODE: u32 = 0o666;

/// The mode and owner for a new file.
#[derive(Clone, Copy)]
enum Like<'a> {
    /// Those of the file that it replaces.
    File(&'a Metadata),
    /// This mode, without the bits of the umask, and the owner of the process.
    New(u32),
}

/// Makes `parts` the contents of `path`, with `writes` over them.
fn put(path: &Path, like: Like<'_>, parts: &[&[u8]], writes: &[Write]) -> io::Result<()> {
    if is_standard(path) {
        return print(parts, writes);
    }
    let target = match path.metadata() {
        // Write to a device or a pipe directly. It must not be replaced.
        Ok(there) if !there.is_file() && !there.is_dir() => {
            return pour(path, parts, writes);
        }
        _ => follow(path)?,
    };
    let temporary = temporary_beside(&target)?;
    let _guard = signals::hold();
    let file = create_new(&temporary, like)?;
    let result = fill(&file, parts, writes)
        .and_then(|()| make_like(&file, like))
        .and_then(|()| std::fs::rename(&temporary, &target));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Where the symbolic links at `path` lead, so that they stay. There may be no file.
///
/// # Errors
///
/// They lead in a circle.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    // As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// Writes to something that isn't a regular file.
fn pour(path: &Path, parts: &[&[u8]], writes: &[Write]) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(&joined(parts, writes))
}

/// Writes to standard output. A reader that has seen enough is no error.
fn print(parts: &[&[u8]], writes: &[Write]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(&joined(parts, writes)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// `parts` as one piece, with `writes` over them.
fn joined(parts: &[&[u8]], writes: &[Write]) -> Vec<u8> {
    let mut bytes = parts.concat();
    for (at, new) in writes {
        let start = usize::try_from(*at).unwrap_or(usize::MAX);
        if let Some(place) = bytes.get_mut(start..).and_then(|rest| rest.get_mut(..new.len())) {
            place.copy_from_slice(new);
        }
    }
    bytes
}

/// Writes `writes`, which are bytes at offsets, to the file at `path`.
///
/// # Errors
///
/// The file can't be opened or written.
pub fn overwrite(path: &Path, writes: &[Write]) -> io::Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    let (file, _) = open_regular(path, OpenOptions::new().write(true))?;
    fill(&file, &[], writes)
}

fn fill(mut file: &File, parts: &[&[u8]], writes: &[Write]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))?;
    writes.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at))
}

/// The name is always the same, so that the next run removes what a killed run left.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("not a file name"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".mcount-tmp");
    Ok(path.with_file_name(temporary))
}

/// A new file, locked until it is closed. The kernel applies the umask to its mode, and default access
/// control lists, which we would miss. If the file will get the mode of another one, only this user can
/// access it until then.
///
/// If there is such a file already, another run made it. We wait until that run has ended, so that two
/// runs with the same output don't write into each other's file.
fn create_new(path: &Path, like: Like<'_>) -> io::Result<File> {
    let mode = match like {
        Like::File(_) => Mode::RUSR | Mode::WUSR,
        // Other runs must be able to open it.
        Like::New(mode) => Mode::from_raw_mode(mode & 0o777) | Mode::RUSR,
    };
    // Don't follow a link that somebody else put there.
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        match open(path, create, mode) {
            Ok(file) => {
                let file = File::from(file);
                lock(&file);
                if is_at(&file.metadata()?, path) {
                    return Ok(file);
                }
            }
            Err(Errno::EXIST) => {
                let stale = match open(path, read, Mode::empty()) {
                    Ok(stale) => Some(File::from(stale)),
                    // It was renamed in the meantime. What has this name now may be a third run's.
                    Err(Errno::NOENT) => continue,
                    // It is a link, or not ours. Removing it says what is wrong.
                    Err(_) => None,
                };
                if stale.as_ref().is_none_or(|file| is_still_at(file, path)) {
                    remove(path)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until no other process has locked `file`. Then, whether it still has the name `path`.
fn is_still_at(file: &File, path: &Path) -> bool {
    lock(file);
    file.metadata().is_ok_and(|metadata| is_at(&metadata, path))
}

/// Removes `path`. It may be gone already.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn make_like(file: &File, like: Like<'_>) -> io::Result<()> {
    let Like::File(metadata) = like else { return Ok(()) };
    // Only root may give a file away. The mode comes after, because this clears set-user-ID.
    let (owner, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
    let is_given =
        fchown(file, Some(owner), Some(group)).is_ok() || fchown(file, None, Some(group)).is_ok();
    let kept = if is_given { 0o7777 } else { 0o777 };
    Ok(fchmod(file, Mode::from_raw_mode(metadata.mode() & kept))?)
}
