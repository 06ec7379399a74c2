//! Files that are being written: they get their name when they're complete. What isn't kept goes, also if a signal ends the
//! process, where [`watch`](crate::signals::watch) was called.

use crate::commit::about;
use crate::signals::{self, Removal};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new file, which only this user can access.
#[derive(Debug)]
pub struct Temporary {
    file: File,
    path: PathBuf,
}

impl Temporary {
    /// One in this folder. Its name begins with a dot.
    ///
    /// # Errors
    ///
    /// It can't be made.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".mcount-{}-{number}.tmp", std::process::id()));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            match signals::make_unfinished(&path, Removal::File, |path| options.open(path)) {
                Ok(file) => return Ok(Self { file, path }),
                // A process with this number was killed, perhaps in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it this name. A file that had it is replaced.
    ///
    /// # Errors
    ///
    /// It can't be renamed; then it's gone.
    pub fn keep(self, name: &Path) -> io::Result<()> {
        fs::rename(&self.path, name)
    }

    /// Gives each of these files its name. No signal ends the process in between.
    ///
    /// # Errors
    ///
    /// One can't be renamed, which the error names; then it's gone, and so are those after it.
    pub fn keep_all(files: impl IntoIterator<Item = (Self, PathBuf)>) -> io::Result<()> {
        let _guard = signals::hold();
        let keep =
            |(file, name): (Self, PathBuf)| file.keep(&name).map_err(|error| about(&name, error));
        files.into_iter().try_for_each(keep)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It isn't there if it was kept.
        let _ = fs::remove_file(&self.path);
        signals::stays_at_end(&self.path);
    }
}

/// A new folder that a signal takes away until this is dropped.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes a folder for this process alone: a signal takes away all that's in it, too.
    ///
    /// # Errors
    ///
    /// It's there already, or can't be made.
    pub fn folder(path: &Path) -> io::Result<Self> {
        Self::make(path, Removal::Folder)
    }

    fn make(path: &Path, removal: Removal) -> io::Result<Self> {
        signals::make_unfinished(path, removal, |path| fs::create_dir(path))?;
        Ok(Self(path.to_owned()))
    }

    /// Makes a folder with those that it's in. Others may write into them: a signal takes away only those that are empty
    /// then. Those that weren't there, the outermost first; after an error, there are no new ones.
    ///
    /// # Errors
    ///
    /// One can't be made.
    pub fn folders(path: &Path) -> io::Result<Vec<Self>> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(missing).collect();
        let mut made = Vec::new();
        for folder in missing.into_iter().rev() {
            match Self::make(folder, Removal::EmptyFolder) {
                Ok(new) => made.push(new),
                // Somebody else made it at the same time.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
                Err(error) => {
                    Self::remove_empty(made);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Removes it with all that's in it.
    pub fn remove_all(self) {
        // It isn't there, or a part of it belongs to somebody else.
        let _ = fs::remove_dir_all(&self.0);
    }

    /// Removes those of these folders, the outermost first, that are empty.
    pub fn remove_empty(folders: Vec<Self>) {
        for folder in folders.into_iter().rev() {
            // It isn't empty, or not there.
            let _ = fs::remove_dir(&folder.0);
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        signals::stays_at_end(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_kept_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        let first = Temporary::in_folder(folder.path()).unwrap();
        let second = Temporary::in_folder(folder.path()).unwrap();
        assert_eq!(names(), 2);
        drop(first);
        assert_eq!(names(), 1);
        second.file().write_all(b"text").unwrap();
        second.keep(&folder.path().join("name")).unwrap();
        assert_eq!(names(), 1);
        assert_eq!(crate::files::read_to_end(&folder.path().join("name")).unwrap(), b"text");
    }
}
