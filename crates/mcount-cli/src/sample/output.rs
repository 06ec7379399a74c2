//! Files of samples: one, or one for each period, of which the newest are kept.

use crate::commit::{about, write_new};
use crate::files::is_standard;
use crate::temporary::Temporary;
use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

/// Where samples are written.
pub struct Output {
    /// The file; if there are several, each has its time before the extension.
    pub path: PathBuf,
    /// There's a file for each period.
    pub is_rotated: bool,
    /// How many of these there are at most.
    pub keep: Option<usize>,
    /// Only this user can read them.
    pub is_private: bool,
    /// Says which file was written.
    pub say: fn(&str),
}

/// Writes a file that only this user can read, completely or not at all.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = Temporary::in_folder(folder.unwrap_or(Path::new(".")))?;
    file.file().write_all(bytes)?;
    file.keep(path)
}

impl Output {
    /// By its name, is it a file of Parquet?
    pub(super) fn is_parquet(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "parquet")
    }

    /// Writes a sample that began at this time, completely or not at all.
    pub(super) fn write(&self, began: SystemTime, bytes: &[u8], what: &str) -> io::Result<()> {
        let path = self.put(began, bytes)?;
        (self.say)(&format!("{what} in {}", path.display()));
        Ok(())
    }

    /// The same, and says nothing; where it is.
    pub(super) fn put(&self, began: SystemTime, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = if self.is_rotated { self.free_path_of(began) } else { self.path.clone() };
        let write = if self.is_private { write_private } else { write_new };
        write(&path, bytes).map_err(|error| about(&path, error))?;
        if let Some(keep) = self.keep.filter(|_| self.is_rotated) {
            self.remove_all_but(keep, &path)?;
        }
        Ok(path)
    }

    /// The same path, or that of the next second without a file.
    fn free_path_of(&self, began: SystemTime) -> PathBuf {
        let paths = (0..).map(|more| self.path_of(began + Duration::from_secs(more)));
        let mut free = paths.filter(|path| path.symlink_metadata().is_err());
        free.next().unwrap_or_else(|| self.path_of(began))
    }

    /// Can the file be written, as far as that's known before there's a sample?
    ///
    /// # Errors
    ///
    /// It can't, and why.
    pub fn check(&self) -> io::Result<()> {
        let path = &self.path;
        if self.is_rotated && (is_standard(path) || path.file_name().is_none()) {
            return Err(io::Error::other("--rotate needs the name of a file"));
        }
        match path.metadata() {
            Ok(there) if there.is_dir() => Err(about(path, io::ErrorKind::IsADirectory.into())),
            // A device or a pipe is written as it is.
            Ok(there) if !there.is_file() && !self.is_rotated => Ok(()),
            _ if is_standard(path) => Ok(()),
            _ => access(self.folder(), Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| about(path, error.into())),
        }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// `redis.jsonl` becomes `redis-20261127-034500.jsonl`, in UTC.
    fn path_of(&self, began: SystemTime) -> PathBuf {
        let time = OffsetDateTime::from(began);
        let (date, clock) = (time.date(), time.time());
        let [before, after] = self.around();
        let mut name = before;
        name.push(format!(
            "{:04}{:02}{:02}-{:02}{:02}{:02}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second(),
        ));
        name.push(after);
        self.path.with_file_name(name)
    }

    /// What names of files have before and after the time.
    fn around(&self) -> [OsString; 2] {
        let mut before = self.path.file_stem().unwrap_or_default().to_owned();
        before.push("-");
        let mut after = OsString::new();
        if let Some(extension) = self.path.extension() {
            after.push(".");
            after.push(extension);
        }
        [before, after]
    }

    /// Removes the oldest files, but not the one that was just written: the clock may have been ahead.
    fn remove_all_but(&self, keep: usize, written: &Path) -> io::Result<()> {
        let folder = self.folder();
        let [before, after] = self.around();
        let mut found: Vec<OsString> = Vec::new();
        for entry in folder.read_dir().map_err(|error| about(folder, error))? {
            let entry = entry.map_err(|error| about(folder, error))?;
            let (name, is_file) =
                (entry.file_name(), entry.file_type().is_ok_and(|of| of.is_file()));
            let is_other = written.file_name() != Some(&*name);
            if is_file && is_other && is_between(&name, &before, &after) {
                found.push(name);
            }
        }
        found.sort_unstable();
        for name in found.iter().take((found.len() + 1).saturating_sub(keep)) {
            let path = folder.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(about(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Is there a time between these two, and nothing else?
fn is_between(name: &OsStr, before: &OsStr, after: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(before.as_bytes());
    let time = rest.and_then(|rest| rest.strip_suffix(after.as_bytes()));
    time.is_some_and(|time| {
        time.len() == 15
            && time.iter().enumerate().all(|(place, byte)| match place {
                8 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(path: &Path) -> Output {
        Output {
            path: path.to_owned(),
            is_rotated: true,
            keep: Some(2),
            is_private: false,
            say: |_| {},
        }
    }

    #[test]
    fn names_have_their_time() {
        let rows = [
            ("a/redis.jsonl", 0, "a/redis-19700101-000000.jsonl"),
            ("redis", 1_709_210_096, "redis-20240229-123456"),
            ("x.tar.gz", 4_102_444_799, "x.tar-20991231-235959.gz"),
        ];
        for (path, seconds, expected) in rows {
            let began = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(output(Path::new(path)).path_of(began), Path::new(expected));
        }
    }

    #[test]
    fn the_newest_are_kept_and_nothing_else_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let others =
            ["a.jsonl", "a-x.jsonl", "a-20261127-0345000.jsonl", "b-20261127-034500.jsonl"];
        for other in others {
            write_new(&folder.path().join(other), b"").unwrap();
        }
        let output = output(&folder.path().join("a.jsonl"));
        for second in 0..5 {
            let began = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            output.write(began, b"{}\n", "1 function").unwrap();
        }
        // The clock goes back: a file is there already, others are newer.
        std::fs::create_dir(folder.path().join("a-19600101-000000.jsonl")).unwrap();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(3);
        output.write(began, b"{}\n", "1 function").unwrap();
        let began = SystemTime::UNIX_EPOCH;
        output.write(began, b"{}\n", "1 function").unwrap();
        let mut left: Vec<_> =
            folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected: Vec<OsString> = others.map(OsString::from).into();
        let kept =
            ["a-19600101-000000.jsonl", "a-19700101-000000.jsonl", "a-19700101-000005.jsonl"];
        expected.extend(kept.map(OsString::from));
        expected.sort();
        assert_eq!(left, expected);
    }
}
