//! Where the kernel's files for tracing are (tracefs, `Documentation/trace/ftrace.rst`).
//!
//! If nobody has mounted it, root can still have it: a mount that is in no folder, and that ends with the recorder (`fsopen(2)`,
//! `fsmount(2)`).

use nix::libc;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The folder of tracefs.
pub(super) struct Tracefs {
    folder: PathBuf,
    /// The folder is there as long as this is open.
    pub(super) mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or mounts it where nobody else sees it.
    ///
    /// # Errors
    ///
    /// It isn't mounted, and can't be. The text says what to do.
    pub(super) fn find() -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        if let Some(folder) = mounted(&mounts) {
            return Ok(Self { folder, mount: None });
        }
        let mount = mount().map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::other("this kernel has no tracefs (CONFIG_TRACING)"),
            _ => io::Error::other(
                "tracefs isn't mounted: run mcount as root, or: mount -t tracefs nodev /sys/kernel/tracing",
            ),
        })?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { folder, mount: Some(mount) })
    }

    /// The path of a file or folder in it.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// What messages call it.
    pub(super) fn name(&self, name: impl AsRef<Path>) -> PathBuf {
        match &self.mount {
            Some(_) => Path::new("tracefs").join(name),
            None => self.path(name),
        }
    }
}

/// Mounts it nowhere.
fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// The folder of tracefs, by the text of `mountinfo` (`proc_pid_mountinfo(5)`): a mount of its own, or beneath that of debugfs.
fn mounted(mounts: &str) -> Option<PathBuf> {
    let of_kind = |kind: &str| {
        let mut lines = mounts.lines().filter_map(|line| line.split_once(" - "));
        let line = lines.find(|(left, right)| {
            right.split(' ').next() == Some(kind) && left.split(' ').nth(3) == Some("/")
        });
        line.and_then(|(left, _)| left.split(' ').nth(4)).map(unescaped)
    };
    of_kind("tracefs").or_else(|| Some(of_kind("debugfs")?.join("tracing")))
}

/// A path in which some characters are `\` and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code.filter(|_| *first == b'\\') {
            bytes.push(code);
            rest = behind.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_where_it_is_mounted() {
        let traces = "30 29 0:7 / /sys/kernel/tracing rw,nosuid shared:1 - tracefs nodev rw\n";
        let debug = "31 29 0:8 / /de\\040bug rw - debugfs none rw\n";
        let instance = "32 29 0:7 /instances/a /mnt rw - tracefs nodev rw\n";
        let rows = [
            (traces.to_owned(), Some("/sys/kernel/tracing")),
            (format!("{debug}{traces}"), Some("/sys/kernel/tracing")),
            (debug.to_owned(), Some("/de bug/tracing")),
            (instance.to_owned(), None),
            (String::new(), None),
        ];
        for (text, expected) in rows {
            assert_eq!(mounted(&text).as_deref(), expected.map(Path::new), "{text}");
        }
    }

    /// Root needs no folder for it; others are told what to do.
    #[test]
    fn tracefs_is_there_without_a_folder() {
        match mount() {
            Ok(mount) => {
                let path = format!("/proc/self/fd/{}/trace_clock", mount.as_raw_fd());
                assert!(std::fs::read_to_string(path).unwrap().contains("mono_raw"));
            }
            Err(error) => {
                let known = [libc::EPERM, libc::ENODEV, libc::ENOSYS, libc::EACCES];
                assert!(error.raw_os_error().is_some_and(|number| known.contains(&number)));
            }
        }
    }
}
