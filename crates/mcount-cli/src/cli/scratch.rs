//! The folder in which `mcount link` makes an image, `.program.mcount-link` for `program`.
//!
//! It is beside the output, so that the image can be renamed to it. Two runs with the same output have the
//! same folder, and one waits for the other.

use super::complain;
use crate::beside::{self, LinkNames};
use crate::children;
use crate::commit::{Failure, about};
use crate::files::{is_at, lock};
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder, and the files in it. It is removed when dropped.
pub(super) struct Scratch {
    folder: PathBuf,
    /// Where the image is linked to, under its own name.
    pub(super) image: PathBuf,
    /// The object with the table.
    pub(super) table: PathBuf,
    /// The response file.
    pub(super) words: PathBuf,
    /// The folder, locked. It tells another run that this one isn't dead, and has only to be waited for.
    _lock: File,
}

impl Scratch {
    /// A new folder for `output`, after waiting for other runs that have it.
    pub(super) fn beside(output: &Path) -> io::Result<Self> {
        let name = output.file_name().ok_or_else(|| io::Error::other("not a file name"))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".mcount-link");
        // Without the ./ in front, which lld leaves out where it names a file.
        let folder = output.with_file_name(hidden);
        let folder = folder.strip_prefix(".").map_or(folder.clone(), Path::to_owned);
        loop {
            match children::begin(&folder, || fs::create_dir(&folder)) {
                Ok(()) => {
                    if let Ok(Some(lock)) = locked_folder(&folder) {
                        return Ok(Self::of(folder, name, lock));
                    }
                    children::finish(&folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Once we have the lock, the run that made the folder is done, or was killed. If it
                    // can't be opened, it isn't a folder of ours, and removing it says what is wrong.
                    let stale = locked_folder(&folder);
                    if !matches!(stale, Ok(None)) {
                        remove_folder(&folder).map_err(|error| about(&folder, error))?;
                    }
                }
                Err(error) => return Err(about(&folder, error)),
            }
        }
    }

    /// The files in `folder`, for an image called `name`.
    fn of(folder: PathBuf, name: &OsStr, lock: File) -> Self {
        let [image, table, words] = [name, OsStr::new("mcount.o"), OsStr::new("mcount.words")]
            .map(|name| folder.join(name));
        Self { folder, image, table, words, _lock: lock }
    }

    /// Moves what the linker named after its image, such as the files of `--save-temps`, beside the
    /// output.
    pub(super) fn move_others(&self, names: &LinkNames<'_>) -> io::Result<()> {
        let entries = fs::read_dir(&self.folder).map_err(|error| about(&self.folder, error))?;
        for entry in entries {
            let path = entry.map_err(|error| about(&self.folder, error))?.path();
            if [&self.image, &self.table, &self.words].contains(&&path) {
                continue;
            }
            if path.is_file() {
                beside::clean(&path, names, false)?;
            }
            let place = names.output.with_file_name(path.file_name().unwrap_or_default());
            fs::rename(&path, &place).map_err(|error| about(&place, error))?;
        }
        Ok(())
    }
}

/// The folder at `path`, locked. `None` if it was gone before we had the lock.
fn locked_folder(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let folder = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    lock(&folder);
    Ok(is_at(&folder.metadata()?, path).then_some(folder))
}

/// Removes a folder. It may be gone already.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.folder) {
            let error = Failure::from(error);
            complain(&format!("warning: {}: cannot be removed: {error}", self.folder.display()));
        }
        children::finish(&self.folder);
    }
}
