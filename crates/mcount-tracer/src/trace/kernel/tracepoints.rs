//! The kernel's tracepoints of system calls: where tracefs is, and what their records are like (`Documentation/trace/events.rst`).

use crate::commit::Failure;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where they are beneath the folder of tracefs.
const FOLDER: &str = "events/raw_syscalls";

/// Both tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tracepoints {
    pub(super) enter: Tracepoint,
    pub(super) exit: Tracepoint,
}

/// One of them. Offsets are those in its records, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// The kernel's number.
    pub(super) id: u16,
    /// Offset of the system call's number, 8 bytes.
    pub(super) number: usize,
    /// Offset of the six arguments or of the result, 8 bytes each.
    pub(super) values: usize,
}

impl Tracepoints {
    /// Those of the kernel that runs.
    ///
    /// # Errors
    ///
    /// There are none, or they can't be read. The text says what to do.
    pub(super) fn find() -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let folder = tracefs(&mounts).ok_or_else(|| {
            io::Error::other("tracefs isn't mounted: mount -t tracefs nodev /sys/kernel/tracing")
        })?;
        let one = |name: &str, values: &str| {
            let path = folder.join(FOLDER).join(name).join("format");
            let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            let unknown = || io::Error::other(format!("{}: unknown format", path.display()));
            parse(&text, values).ok_or_else(unknown)
        };
        Ok(Self { enter: one("sys_enter", "args")?, exit: one("sys_exit", "ret")? })
    }
}

/// The message if a file can't be read.
fn unreadable(path: &Path, error: io::Error) -> io::Error {
    let path = path.display();
    io::Error::other(match error.kind() {
        io::ErrorKind::NotFound => {
            "this kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS)".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("{path}: permission denied: run mcount as root"),
        _ => format!("{path}: {}", Failure::from(error)),
    })
}

/// The folder of tracefs, by the text of `mountinfo` (`proc_pid_mountinfo(5)`): a mount of its own, or beneath that of debugfs.
fn tracefs(mounts: &str) -> Option<PathBuf> {
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

/// What a tracepoint's file `format` says, if it has the field `values`.
fn parse(text: &str, values: &str) -> Option<Tracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID: ")?.trim().parse().ok())?;
    let offset = |wanted: &str| {
        text.lines().find_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            let name = parts.next()?.rsplit(' ').next()?;
            let name = name.split('[').next().unwrap_or(name);
            let number = |part: &str, of: &str| part.strip_prefix(of)?.parse::<usize>().ok();
            let offset = number(parts.next()?, "offset:")?;
            let size = number(parts.next()?, "size:")?;
            (name == wanted && size.is_multiple_of(8)).then_some(offset)
        })
    };
    Some(Tracepoint { id, number: offset("id")?, values: offset(values)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_say_where_fields_are() {
        let enter = "name: sys_enter\nID: 443\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n\
            print fmt: \"NR %ld (%lx)\", REC->id, REC->args[0]\n";
        let expected = Tracepoint { id: 443, number: 8, values: 16 };
        assert_eq!(parse(enter, "args"), Some(expected));
        assert_eq!(parse(enter, "ret"), None);
        assert_eq!(parse(&enter.replace("size:8;", "size:4;"), "args"), None);
        assert_eq!(parse(&enter.replace("ID: 443", "ID: many"), "args"), None);
        assert_eq!(parse("", "args"), None);
    }

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
            assert_eq!(tracefs(&text).as_deref(), expected.map(Path::new), "{text}");
        }
    }
}
