//! Putting a recorded object on disk so that nothing is lost: at every instant the file is the old
//! object or the new one, whole.
//!
//! A file with one name is changed in place: what is new is appended, then one write of the ELF
//! header makes it current. Another is written anew beside the old one and renamed over it.

use crate::files::{Input, open_locked, open_regular};
use mcount::{Change, Options, Recording, Write};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, open};
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file was not recorded.
#[derive(Debug)]
pub enum Failure {
    /// The operating system refused.
    Io(io::Error),
    /// The object cannot be recorded.
    Object(mcount::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => match error.raw_os_error() {
                Some(_) => write!(f, "{}", without_number(error)),
                None => error.fmt(f),
            },
            Self::Object(error) => error.fmt(f),
        }
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

/// What the C library says, without " (os error 2)".
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What is to become of a file.
#[derive(Debug)]
pub enum Plan {
    /// It is right as it is.
    Keep,
    /// It gets longer.
    Append(Change),
    /// These bytes of it change.
    Overwrite(Vec<Write>),
}

/// Records the object at `path`, in place or to `output`.
///
/// # Errors
///
/// The object cannot be read, recorded or written; the file is as it was.
pub fn record_file(
    path: &Path,
    output: Option<&Path>,
    options: &Options,
) -> Result<Recording, Failure> {
    change_file(path, output, |object| {
        let mut recording = mcount::record(object, options)?;
        let plan = recording.change.take().map_or(Plan::Keep, Plan::Append);
        Ok((plan, recording))
    })
}

/// Changes the file at `path`, in place or to `output`, as `plan` says of its bytes.
///
/// # Errors
///
/// The file cannot be read or written, or there is no plan for it; it is as it was.
pub fn change_file<T>(
    path: &Path,
    output: Option<&Path>,
    plan: impl FnOnce(&[u8]) -> mcount::Result<(Plan, T)>,
) -> Result<T, Failure> {
    let (file, metadata, writable) = open_locked(path)?;
    let input = Input::new(&file, metadata.len())?;
    let (plan, result) = plan(input.bytes())?;
    let elsewhere = output.filter(|output| !is_same(output, &metadata));
    // Through a symbolic link, so that the link survives.
    let target = || elsewhere.map_or_else(|| path.canonicalize(), |output| Ok(output.to_owned()));
    match plan {
        Plan::Keep => {
            if let Some(output) = elsewhere {
                replace(output, &metadata, &[input.bytes()])?;
            }
        }
        Plan::Append(change) if elsewhere.is_none() && writable && metadata.nlink() == 1 => {
            let old: Vec<u8> = input.bytes().iter().take(change.header.len()).copied().collect();
            drop(input);
            append(&file, &metadata, &change, &old)?;
        }
        Plan::Append(change) => replace(&target()?, &metadata, &parts(&change, input.bytes()))?,
        Plan::Overwrite(writes) => {
            replace_patched(&target()?, &metadata, &[input.bytes()], &writes)?;
        }
    }
    Ok(result)
}

/// Whether `path` is the file that `metadata` is of.
fn is_same(path: &Path, metadata: &Metadata) -> bool {
    let there = path.metadata();
    there.is_ok_and(|there| there.ino() == metadata.ino() && there.dev() == metadata.dev())
}

/// The new object, in parts; `object` is the old one.
pub(crate) fn parts<'a>(change: &'a Change, object: &'a [u8]) -> [&'a [u8]; 3] {
    let kept = usize::try_from(change.at).unwrap_or(usize::MAX).min(object.len());
    let tail = object.get(change.header.len()..kept).unwrap_or_default();
    [&change.header, tail, &change.appended]
}

/// Appends, then makes what was appended current. On an error the old bytes are back.
fn append(file: &File, metadata: &Metadata, change: &Change, old: &[u8]) -> io::Result<()> {
    let written = file
        .write_all_at(&change.appended, change.at)
        .and_then(|()| file.write_all_at(&change.header, 0));
    if written.is_err() {
        // The first error is the one to report; these may fail for the same reason.
        let _ = file.write_all_at(old, 0);
        let _ = file.set_len(metadata.len());
    }
    written
}

/// Makes `parts` the contents of `path`, by a temporary file beside it.
pub(crate) fn replace(path: &Path, metadata: &Metadata, parts: &[&[u8]]) -> io::Result<()> {
    replace_patched(path, metadata, parts, &[])
}

/// The same, with `writes` over them.
fn replace_patched(
    path: &Path,
    metadata: &Metadata,
    parts: &[&[u8]],
    writes: &[Write],
) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let result = write_temporary(&temporary, metadata, parts)
        .and_then(|()| overwrite(&temporary, writes))
        .and_then(|()| std::fs::rename(&temporary, path));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Makes `bytes` the contents of `path`, whole or not at all.
///
/// # Errors
///
/// The file cannot be written beside `path`, or not renamed.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let result = create_new(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::set_permissions(&temporary, Permissions::from_mode(0o644)))
        .and_then(|()| std::fs::rename(&temporary, path));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Writes each of `writes`, bytes at an offset, in the file at `path`.
///
/// # Errors
///
/// The file cannot be opened or written.
pub fn overwrite(path: &Path, writes: &[Write]) -> io::Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    let (file, _) = open_regular(path, std::fs::OpenOptions::new().write(true))?;
    writes.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at))
}

/// The name is always the same, so that the next run clears what a killed one left.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("not a file name"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".mcount-tmp");
    Ok(path.with_file_name(temporary))
}

/// A new file that only this user may read.
fn create_new(path: &Path) -> io::Result<File> {
    // Never through a link that somebody else put there.
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let create = || open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = match create() {
        Err(rustix::io::Errno::EXIST) => {
            std::fs::remove_file(path)?;
            create()?
        }
        other => other?,
    };
    Ok(File::from(file))
}

fn write_temporary(path: &Path, metadata: &Metadata, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = create_new(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    // Only root may give a file away; the mode comes after, because this clears set-user-ID.
    let (owner, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
    let _ = fchown(&file, Some(owner), Some(group));
    fchmod(&file, Mode::from_raw_mode(metadata.mode()))?;
    Ok(())
}
