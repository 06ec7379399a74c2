//! The kernel's tracepoints of system calls and of threads that are woken, and what their records are like (`Documentation/trace/events.rst`).

use super::format::{Field, Format};
use super::tracefs::Tracefs;
use crate::commit::Failure;
use std::io;
use std::path::Path;

/// Where they are beneath the folder of tracefs.
const FOLDER: &str = "events/raw_syscalls";

/// The one of threads that are woken, by the thread that wakes them.
const WAKING: &str = "events/sched/sched_waking/format";

/// Both tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tracepoints {
    pub(super) enter: Tracepoint,
    pub(super) exit: Tracepoint,
    /// Records have the numbers of process and thread: those that tracepoints have are numbers of another namespace.
    pub(super) has_ids: bool,
}

/// One of them. Offsets are those in its records, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// The kernel's number.
    pub(super) id: u16,
    /// Offset of the thread's number, 4 bytes.
    pub(super) thread: usize,
    /// Offset of the system call's number, 8 bytes.
    pub(super) number: usize,
    /// Offset of the six arguments or of the result, 8 bytes each.
    pub(super) values: usize,
}

/// The tracepoint of threads that are woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waking {
    /// The kernel's number.
    pub(super) id: u16,
    /// The thread that's woken.
    pub(super) thread: Field,
    /// Its name.
    pub(super) name: Field,
    /// Whether it's an interrupt that wakes it.
    pub(super) flags: Field,
}

impl Waking {
    /// That of the kernel that runs, if it has it, and lets it be read.
    pub(super) fn find() -> Option<Self> {
        let tracefs = Tracefs::find().ok()?;
        let text = std::fs::read_to_string(tracefs.path(WAKING)).ok()?;
        let format = Format::parse(&text);
        let (thread, flags) = (format.field("pid")?, format.field("common_flags")?);
        let name = format.field("comm").filter(|name| name.size == 16)?;
        Some(Self { id: format.id?, thread, name, flags })
    }
}

impl Tracepoints {
    /// Those of the kernel that runs.
    ///
    /// # Errors
    ///
    /// There are none, or they can't be read. The text says what to do.
    pub(super) fn find() -> io::Result<Self> {
        let tracefs = Tracefs::find()?;
        let one = |name: &str, values: &str| {
            let file = Path::new(FOLDER).join(name).join("format");
            let (path, name) = (tracefs.path(&file), tracefs.name(&file));
            let text = std::fs::read_to_string(path).map_err(|error| unreadable(&name, error))?;
            let unknown = || io::Error::other(format!("{}: unknown format", name.display()));
            parse(&text, values).ok_or_else(unknown)
        };
        let has_ids = !is_first_namespace()?;
        Ok(Self { enter: one("sys_enter", "args")?, exit: one("sys_exit", "ret")?, has_ids })
    }
}

/// Are the kernel's numbers of processes those that the recorder knows?
pub(super) fn is_first_namespace() -> io::Result<bool> {
    const FIRST: &str = "pid:[4026531836]";
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(namespace.to_str() == Some(FIRST))
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

/// What a tracepoint's file `format` says, if it has the field `values`.
fn parse(text: &str, values: &str) -> Option<Tracepoint> {
    let format = Format::parse(text);
    let offset = |name: &str| {
        let field = format.field(name).filter(|field| field.size.is_multiple_of(8));
        field.map(|field| field.offset)
    };
    let thread = format.field("common_pid").filter(|field| field.size == 4)?.offset;
    Some(Tracepoint { id: format.id?, thread, number: offset("id")?, values: offset(values)? })
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
        let expected = Tracepoint { id: 443, thread: 4, number: 8, values: 16 };
        assert_eq!(parse(enter, "args"), Some(expected));
        assert_eq!(parse(enter, "ret"), None);
        assert_eq!(parse(&enter.replace("size:8;", "size:4;"), "args"), None);
        assert_eq!(parse(&enter.replace("ID: 443", "ID: many"), "args"), None);
        assert_eq!(parse("", "args"), None);
    }
}
