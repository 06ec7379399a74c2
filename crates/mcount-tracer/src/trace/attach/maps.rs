//! What is mapped in a process (`proc_pid_maps(5)`), with files and permissions.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `r-xp` and the like.
    pub(super) permissions: [u8; 4],
    /// Where it begins in its file.
    pub(super) offset: u64,
    pub(super) device: (u64, u64),
    pub(super) inode: u64,
    /// As the process sees it; a name in brackets; or empty.
    pub(super) path: PathBuf,
}

impl Mapping {
    pub(super) fn is_code(&self) -> bool {
        self.permissions.get(2) == Some(&b'x')
    }

    pub(super) fn is_file(&self) -> bool {
        self.inode != 0 && self.path.is_absolute()
    }

    /// Is it of what `mcount patch` leaves in a process?
    pub(super) fn is_patch(&self) -> bool {
        self.path == Path::new("/memfd:mcount-patch (deleted)")
    }

    pub(super) fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The file behind it, whatever its name is.
    pub(super) fn file(&self) -> ((u64, u64), u64) {
        (self.device, self.inode)
    }
}

/// All mappings of `process`, in ascending order.
pub(super) fn read(process: i32) -> io::Result<Vec<Mapping>> {
    let mut text = Vec::new();
    let path = format!("/proc/{process}/maps");
    OpenOptions::new().read(true).open(path)?.read_to_end(&mut text)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// The mapping that `address` is in.
pub(super) fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = maps.partition_point(|map| map.start <= address);
    maps.get(after.checked_sub(1)?).filter(|map| map.has(address))
}

/// First and last addresses of all mappings.
pub(super) fn ranges(maps: &[Mapping]) -> Vec<(u64, u64)> {
    maps.iter().map(|map| (map.start, map.end)).collect()
}

fn parse(line: &[u8]) -> Option<Mapping> {
    // The path may have spaces in it, and begins in a column of its own.
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut next = || words.next().and_then(|word| std::str::from_utf8(word).ok());
    let (range, permissions, offset, device, inode) = (next()?, next()?, next()?, next()?, next()?);
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let path = words.next().unwrap_or_default();
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        permissions: permissions.as_bytes().try_into().ok()?,
        offset: hexadecimal(offset)?,
        device: (hexadecimal(major)?, hexadecimal(minor)?),
        inode: inode.parse().ok()?,
        path: PathBuf::from(OsString::from_vec(path.trim_ascii_start().to_vec())),
    })
}

/// The path without what the kernel appends to one that's gone.
pub(super) fn without_deleted(path: &Path) -> (PathBuf, bool) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(name) => (PathBuf::from(OsString::from_vec(name.to_vec())), true),
        None => (path.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let line = b"55d0-55d2 r-xp 00001000 fe:00 123                        /a b (deleted)";
        let map = parse(line).unwrap();
        assert_eq!((map.start, map.end, map.offset, map.inode), (0x55d0, 0x55d2, 0x1000, 123));
        assert!(map.is_code() && map.is_file() && map.has(0x55d1) && !map.has(0x55d2));
        assert_eq!(without_deleted(&map.path), (PathBuf::from("/a b"), true));
        let line = b"7ffc-7ffe rw-p 00000000 00:00 0                          [stack]";
        let map = parse(line).unwrap();
        assert!(!map.is_code() && !map.is_file());
        assert_eq!(parse(b"7ffc-7ffe rw-p 00000000 00:00 0 ").unwrap().path, PathBuf::new());
        assert_eq!(parse(b""), None);
    }
}
