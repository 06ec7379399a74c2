//! The mappings of a process: files, permissions and addresses (`proc_pid_maps(5)`).

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// `r-xp` and the like.
    pub permissions: [u8; 4],
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u64, u64),
    /// The number of the file's inode; 0 if there's no file.
    pub inode: u64,
    /// The file's path as the process sees it; a name in brackets; or empty.
    pub path: PathBuf,
}

impl Mapping {
    /// Whether its bytes can be executed.
    #[must_use]
    pub fn is_code(&self) -> bool {
        self.permissions.get(2) == Some(&b'x')
    }

    /// Whether its bytes can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.permissions.first() == Some(&b'r')
    }

    /// Whether its bytes are those of a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.path.is_absolute()
    }

    /// Whether the byte at `address` is in it.
    #[must_use]
    pub fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The file after it, whatever its name is: its device and its inode.
    #[must_use]
    pub fn file(&self) -> ((u64, u64), u64) {
        (self.device, self.inode)
    }
}

/// All mappings of a process, in ascending order. `process` is its number, or `self`.
///
/// # Errors
///
/// The process doesn't exist, belongs to another user, or there's no `/proc`.
pub fn read(process: impl Display) -> io::Result<Vec<Mapping>> {
    let mut text = Vec::new();
    let path = format!("/proc/{process}/maps");
    OpenOptions::new().read(true).open(path)?.read_to_end(&mut text)?;
    Ok(parse(&text))
}

/// The mappings that the text of such a file has, in its order. Lines that aren't understood are passed over.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// The mapping that `address` is in; `maps` are in ascending order.
#[must_use]
pub fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = maps.partition_point(|map| map.start <= address);
    maps.get(after.checked_sub(1)?).filter(|map| map.has(address))
}

/// The first address of each mapping, and the one behind its last.
#[must_use]
pub fn ranges(maps: &[Mapping]) -> Vec<(u64, u64)> {
    maps.iter().map(|map| (map.start, map.end)).collect()
}

/// The path of a file that may be deleted, without the mark that the kernel appends then; whether the mark was there.
#[must_use]
pub fn without_deleted(path: &Path) -> (PathBuf, bool) {
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(name) => (PathBuf::from(OsString::from_vec(name.to_vec())), true),
        None => (path.to_owned(), false),
    }
}

fn line(line: &[u8]) -> Option<Mapping> {
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
        path: PathBuf::from(OsString::from_vec(unescaped(path.trim_ascii_start()))),
    })
}

/// A path as it is: the kernel writes a line feed as `\012`, so that each mapping has one line. It escapes nothing else, not even
/// backslashes, so a name that has these four characters itself can't be told from that.
fn unescaped(path: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = b"\\012";
    let mut found = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(ESCAPED) {
            found.push(b'\n');
            rest = behind;
        } else {
            found.push(*first);
            rest = behind;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The mapping of a line that has one.
    fn one(line: &[u8]) -> Mapping {
        let [map] = parse(line).try_into().unwrap();
        map
    }

    #[test]
    fn lines_of_all_kinds() {
        let map = one(b"55d0-55d2 r-xp 00001000 fe:0a 123                        /a b (deleted)");
        assert_eq!((map.start, map.end, map.offset, map.inode), (0x55d0, 0x55d2, 0x1000, 123));
        assert_eq!(map.file(), ((0xfe, 10), 123));
        assert!(map.is_code() && map.is_readable() && map.is_file());
        assert!(map.has(0x55d1) && !map.has(0x55d2));
        assert_eq!(without_deleted(&map.path), (PathBuf::from("/a b"), true));
        let map = one(b"7ffc-7ffe -w-p 00000000 00:00 0                          [stack]");
        assert!(!map.is_code() && !map.is_file() && !map.is_readable());
        assert_eq!(one(b"7ffc-7ffe rw-p 00000000 00:00 0 ").path, PathBuf::new());
        let last = b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]";
        assert!(one(last).has(0xffff_ffff_ff60_0fff));
        let whole = b"0-ffffffffffffffff r--p ffffffffffffffff ff:fffff 18446744073709551615 /x";
        assert_eq!(one(whole).inode, u64::MAX);
    }

    #[test]
    fn names_are_what_they_are() {
        let table: [(&[u8], &[u8]); 7] = [
            (b"/a\\012b", b"/a\nb"),
            (b"/\\012\\012", b"/\n\n"),
            (b"/\\01", b"/\\01"),
            (b"/a\\b", b"/a\\b"),
            (b"/tab\tand  spaces ", b"/tab\tand  spaces "),
            (b"/\xff\xfe", b"/\xff\xfe"),
            (b"/memfd:a (deleted) (deleted)", b"/memfd:a (deleted) (deleted)"),
        ];
        for (written, path) in table {
            let line = [b"1-2 r--p 0 1:2 3 ", b"                 ", written].concat();
            assert_eq!(one(&line).path.as_os_str().as_bytes(), path);
        }
        assert!(!without_deleted(Path::new("/a(deleted)")).1);
    }

    #[test]
    fn other_lines_are_passed_over() {
        let bad: [&[u8]; 9] = [
            b"",
            b"1-2",
            b"1-2 r-xp 0 1:2",
            b"1 r-xp 0 1:2 3 /x",
            b"g-2 r-xp 0 1:2 3 /x",
            b"10000000000000000-2 r-xp 0 1:2 3 /x",
            b"1-2 r-xps 0 1:2 3 /x",
            b"1-2 r-xp 0 12 3 /x",
            b"1-2 r-xp 0 1:2 -3 /x",
        ];
        assert_eq!(parse(&bad.join(&b'\n')), []);
    }

    /// As many mappings as a process can have by default, each with the longest path.
    #[test]
    fn a_huge_file_is_read() {
        let path = "x".repeat(4095);
        let mut text = Vec::new();
        for number in 1_u64..65_531 {
            let (start, end) = (number << 12, (number << 12) + 0x800);
            text.extend(format!("{start:x}-{end:x} r-xp 00000000 08:01 7 /{path}\n").bytes());
        }
        let maps = parse(&text);
        assert_eq!(maps.len(), 65_530);
        assert_eq!(find(&maps, 0x07ff_f7ff).map(|map| map.start), Some(0x07ff_f000));
        assert_eq!(find(&maps, 0x07ff_f800), None);
        assert_eq!(find(&maps, 0xfff), None);
        assert_eq!(find(&maps, u64::MAX), None);
        assert_eq!(find(&[], 0), None);
    }

    /// The kernel is the oracle: a file with a difficult name, mapped and deleted, and this function.
    #[test]
    fn what_the_kernel_says_of_this_process() {
        let maps = read("self").unwrap();
        let address = what_the_kernel_says_of_this_process as fn() as usize as u64;
        let here = find(&maps, address).unwrap();
        assert!(here.is_code() && here.is_readable() && here.is_file());
        assert_eq!(here.path, std::env::current_exe().unwrap());
        let local = 1;
        let there = find(&maps, std::ptr::from_ref(&local) as usize as u64).unwrap();
        assert!(!there.is_code() && there.is_readable() && !there.is_file());
        assert!(find(&maps, 8).is_none());
        assert!(maps.is_sorted_by_key(|map| map.start));
        assert_eq!(read(std::process::id()).unwrap().len() / 4, maps.len() / 4);
        assert!(read(-1).is_err());
    }

    /// Names that a program chose, as the kernel escapes them.
    #[test]
    fn files_with_difficult_names_are_found() {
        let folder = std::env::temp_dir().join(format!("mcount-maps-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("a b\nc (deleted)\\d ");
        std::fs::copy("/bin/sleep", &path).unwrap();
        let mut child = std::process::Command::new(&path).arg("100").spawn().unwrap();
        let is_it = |map: &Mapping| map.path == path && map.is_code();
        // Until it has been executed.
        let found = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            read(child.id()).unwrap().iter().any(is_it)
        });
        std::fs::remove_file(&path).unwrap();
        let later = read(child.id()).unwrap();
        let found_later = later.iter().find(|map| map.is_code() && map.is_file()).cloned();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert!(found);
        assert_eq!(without_deleted(&found_later.unwrap().path), (path, true));
    }

    proptest! {
        /// No bytes make it panic, and whatever is understood is a line of the text.
        #[test]
        fn any_text_is_read(text in "([0-9a-f -]{0,9}|[rwxps-]{4} |[0-9a-f]{1,17}[-: ]|\\PC|\n){0,60}") {
            let maps = parse(text.as_bytes());
            prop_assert!(maps.len() <= text.lines().count());
        }

        #[test]
        fn what_is_written_is_read(
            (start, end, offset, inode) in any::<(u64, u64, u64, u64)>(),
            device in any::<(u32, u32)>(),
            name in "(/[^\0\n\\\\]{0,40})?",
        ) {
            let (major, minor) = device;
            let text = format!(
                "{start:x}-{end:x} rw-s {offset:08x} {major:02x}:{minor:02x} {inode}      {name}\n"
            );
            let map = one(text.as_bytes());
            prop_assert_eq!((map.start, map.end, map.offset, map.inode), (start, end, offset, inode));
            prop_assert_eq!(map.device, (u64::from(major), u64::from(minor)));
            prop_assert_eq!(map.path, PathBuf::from(name));
        }
    }
}
