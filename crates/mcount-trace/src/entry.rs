//! One metadata record, as fields and as bytes (docs/trace-format.md, "Metadata").
//!
//! Each kind is a struct. [`Entry::append`] is the one encoder: recorders and [`crate::Writer`] use it. The decoder is in the same
//! file, so that a change of one is a change of both.

use crate::bytes::Bytes;
use crate::layout::{self, metadata};

/// The most bytes of a record without its head. A longer text is cut to this, because a record has to fit into a chunk.
const MOST: usize = 60_000;
const _: () = assert!((metadata::HEAD + MOST + metadata::ALIGNMENT) as u64 <= layout::CHUNK_SIZE);

/// A process runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStart<'a> {
    /// The process ID.
    pub pid: u32,
    /// The process ID of its parent; 0 if not known.
    pub parent: u32,
    /// When it began, or called `exec`.
    pub ticks: u64,
    /// The path of the program.
    pub path: &'a [u8],
}

/// A process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The process ID.
    pub pid: u32,
    /// The status that `wait` returns.
    pub status: u32,
    /// When it ended.
    pub ticks: u64,
}

/// A thread begins, or gets a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadStart<'a> {
    /// The process ID.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// When that was.
    pub ticks: u64,
    /// Its name, or nothing.
    pub name: &'a [u8],
}

/// A thread ends, and its process doesn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEnd {
    /// The process ID.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// When it ended.
    pub ticks: u64,
}

/// The name of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadName<'a> {
    /// The process ID.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// When it's called that.
    pub ticks: u64,
    /// Its name.
    pub name: &'a [u8],
}

/// A file that code was loaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module<'a> {
    /// Its number in the trace.
    pub number: u32,
    /// Its build ID, or nothing.
    pub build_id: &'a [u8],
    /// Its path.
    pub path: &'a [u8],
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its number in the trace.
    pub number: u32,
    /// The number of its module.
    pub module: u32,
    /// Its address as the module's file has it.
    pub address: u64,
    /// Its size in bytes; 0 if not known.
    pub size: u64,
    /// Its name as the symbol table has it.
    pub name: &'a [u8],
}

/// A module that a process loaded, or unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The number of the module.
    pub module: u32,
    /// The process ID.
    pub pid: u32,
    /// The difference to addresses in the file.
    pub bias: u64,
    /// Ticks when it happened.
    pub ticks: u64,
    /// It was loaded, not unloaded.
    pub is_loaded: bool,
}

/// A sentence for people: what is missing from the trace, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// The sentence.
    pub text: &'a [u8],
}

/// The arguments and the result that are recorded of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The number of the function.
    pub function: u32,
    /// Its values, as [`metadata::VALUES`] has them after the number.
    pub values: &'a [u8],
}

/// An enumeration that values are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enumeration<'a> {
    /// Its number in the trace.
    pub number: u32,
    /// How many enumerators there are, and those, as [`metadata::ENUMERATION`] has them after the number.
    pub enumerators: &'a [u8],
}

/// A metadata record of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A process runs a program.
    ProcessStart(ProcessStart<'a>),
    /// A process ends.
    ProcessEnd(ProcessEnd),
    /// A thread begins, or gets a name.
    ThreadStart(ThreadStart<'a>),
    /// A thread ends.
    ThreadEnd(ThreadEnd),
    /// The name of a thread.
    ThreadName(ThreadName<'a>),
    /// A file that code is loaded from.
    Module(Module<'a>),
    /// A function.
    Function(Function<'a>),
    /// A sentence for people.
    Note(Note<'a>),
    /// A process loads a module, or unloads it.
    Mapping(Mapping),
    /// The recorded values of a function.
    Signature(Signature<'a>),
    /// An enumeration.
    Enumeration(Enumeration<'a>),
}

/// Lets [`Entry`] be made of the kinds that borrow nothing, and of those that do.
macro_rules! entries {
    ($($kind:ident $(<$lifetime:lifetime>)?),*) => {$(
        impl<'a> From<$kind $(<$lifetime>)?> for Entry<'a> {
            fn from(one: $kind $(<$lifetime>)?) -> Self {
                Self::$kind(one)
            }
        }
    )*};
}

entries!(
    ProcessStart<'a>,
    ProcessEnd,
    ThreadStart<'a>,
    ThreadEnd,
    ThreadName<'a>,
    Module<'a>,
    Function<'a>,
    Note<'a>
);
entries!(Mapping, Signature<'a>, Enumeration<'a>);

/// A record that is being written.
struct Record<'b> {
    bytes: &'b mut Vec<u8>,
    big_endian: bool,
    /// Where the payload begins.
    start: usize,
}

impl Record<'_> {
    /// Calls `put` for the payload of a record of this kind, and ends the record.
    fn append(bytes: &mut Vec<u8>, big_endian: bool, kind: u32, put: impl FnOnce(&mut Record<'_>)) {
        let head = bytes.len();
        let mut record = Record { bytes, big_endian, start: head + metadata::HEAD };
        record.u32(kind).u32(0);
        put(&mut record);
        let size = record.encoded(size_of(record.bytes.len() - record.start));
        if let Some(place) = bytes.get_mut(head + 4..head + metadata::HEAD) {
            place.copy_from_slice(&size);
        }
        let padded = head + (bytes.len() - head).next_multiple_of(metadata::ALIGNMENT);
        bytes.resize(padded, 0);
    }

    fn encoded(&self, value: u32) -> [u8; 4] {
        Bytes { bytes: &[], big_endian: self.big_endian }.encoded_half(value)
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        let value = self.encoded(value);
        self.bytes.extend(value);
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        let value = Bytes { bytes: &[], big_endian: self.big_endian }.encoded(value);
        self.bytes.extend(value);
        self
    }

    /// As much of `text` as there's room for.
    fn text(&mut self, text: &[u8]) {
        let text = cut(text, self.start + MOST - self.bytes.len());
        self.bytes.extend(text);
    }

    /// The fields that starts and ends have in common.
    fn event(&mut self, pid: u32, other: u32, ticks: u64, name: &[u8]) {
        self.u32(pid).u32(other).u64(ticks).text(name);
    }

    fn module(&mut self, module: &Module<'_>) {
        const HEAD: usize = 16;
        let build_id = cut(module.build_id, MOST - HEAD);
        let path = cut(module.path, MOST - HEAD - build_id.len());
        self.u32(module.number).u32(size_of(build_id.len())).u32(size_of(path.len())).u32(0);
        self.text(build_id);
        self.text(path);
    }
}

/// The beginning of `text`, of at most `most` bytes.
fn cut(text: &[u8], most: usize) -> &[u8] {
    text.get(..most).unwrap_or(text)
}

/// A size of at most [`MOST`] bytes.
fn size_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl<'a> Entry<'a> {
    /// Appends the record to `bytes`, in the byte order of this machine, padded as the format wants it. A text that is too long for
    /// a record is cut.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        self.append_in(bytes, cfg!(target_endian = "big"));
    }

    /// The same in any byte order.
    pub(crate) fn append_in(&self, bytes: &mut Vec<u8>, big_endian: bool) {
        Record::append(bytes, big_endian, self.kind(), |to| match self {
            Self::ProcessStart(one) => to.event(one.pid, one.parent, one.ticks, one.path),
            Self::ProcessEnd(one) => to.event(one.pid, one.status, one.ticks, b""),
            Self::ThreadStart(one) => to.event(one.pid, one.tid, one.ticks, one.name),
            Self::ThreadEnd(one) => to.event(one.pid, one.tid, one.ticks, b""),
            Self::ThreadName(one) => to.event(one.pid, one.tid, one.ticks, one.name),
            Self::Module(one) => to.module(one),
            Self::Function(one) => {
                to.u32(one.number).u32(one.module).u64(one.address).u64(one.size).text(one.name);
            }
            Self::Note(one) => to.text(one.text),
            Self::Mapping(one) => {
                to.u32(one.module).u32(one.pid).u64(one.bias).u64(one.ticks);
            }
            Self::Signature(one) => to.u32(one.function).text(one.values),
            Self::Enumeration(one) => to.u32(one.number).text(one.enumerators),
        });
    }

    /// Which kind of [`metadata`] it is.
    fn kind(&self) -> u32 {
        match self {
            Self::ProcessStart(_) => metadata::PROCESS,
            Self::ProcessEnd(_) => metadata::PROCESS_END,
            Self::ThreadStart(_) => metadata::THREAD,
            Self::ThreadEnd(_) => metadata::THREAD_END,
            Self::ThreadName(_) => metadata::THREAD_NAME,
            Self::Module(_) => metadata::MODULE,
            Self::Function(_) => metadata::FUNCTION,
            Self::Note(_) => metadata::NOTE,
            Self::Mapping(one) if one.is_loaded => metadata::LOADED,
            Self::Mapping(_) => metadata::UNLOADED,
            Self::Signature(_) => metadata::VALUES,
            Self::Enumeration(_) => metadata::ENUMERATION,
        }
    }

    /// Reads a record of this kind. `Err` if it's too short, `Ok(None)` if this version has no such kind.
    pub(crate) fn read(kind: u32, payload: Bytes<'a>) -> Result<Option<Self>, TooShort> {
        let is_known = (metadata::PROCESS..=metadata::THREAD_NAME).contains(&kind);
        match Self::of_kind(kind, payload) {
            None if is_known => Err(TooShort),
            entry => Ok(entry),
        }
    }

    /// `None` if it's too short, or the kind isn't known.
    fn of_kind(kind: u32, payload: Bytes<'a>) -> Option<Self> {
        let Bytes { bytes, .. } = payload;
        let (first, second) = (payload.u32(0), payload.u32(4));
        Some(match kind {
            metadata::PROCESS => Self::ProcessStart(ProcessStart {
                pid: first?,
                parent: second?,
                ticks: payload.u64(8)?,
                path: bytes.get(16..)?,
            }),
            metadata::PROCESS_END => {
                let ticks = payload.u64(8)?;
                Self::ProcessEnd(ProcessEnd { pid: first?, status: second?, ticks })
            }
            metadata::THREAD => Self::ThreadStart(ThreadStart {
                pid: first?,
                tid: second?,
                ticks: payload.u64(8)?,
                name: bytes.get(16..)?,
            }),
            metadata::THREAD_NAME => Self::ThreadName(ThreadName {
                pid: first?,
                tid: second?,
                ticks: payload.u64(8)?,
                name: bytes.get(16..)?,
            }),
            metadata::THREAD_END => {
                let ticks = payload.u64(8)?;
                Self::ThreadEnd(ThreadEnd { pid: first?, tid: second?, ticks })
            }
            metadata::MODULE => Self::Module(module(payload)?),
            metadata::FUNCTION => Self::Function(Function {
                number: first?,
                module: second?,
                address: payload.u64(8)?,
                size: payload.u64(16)?,
                name: bytes.get(24..)?,
            }),
            metadata::NOTE => Self::Note(Note { text: bytes }),
            metadata::LOADED | metadata::UNLOADED => Self::Mapping(Mapping {
                module: first?,
                pid: second?,
                bias: payload.u64(8)?,
                ticks: payload.u64(16)?,
                is_loaded: kind == metadata::LOADED,
            }),
            metadata::VALUES => {
                Self::Signature(Signature { function: first?, values: bytes.get(4..)? })
            }
            metadata::ENUMERATION => {
                Self::Enumeration(Enumeration { number: first?, enumerators: bytes.get(4..)? })
            }
            _ => return None,
        })
    }
}

/// A record hasn't all fields of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

fn module(payload: Bytes<'_>) -> Option<Module<'_>> {
    let build_id_size = usize::try_from(payload.u32(4)?).ok()?;
    let path_size = usize::try_from(payload.u32(8)?).ok()?;
    Some(Module {
        number: payload.u32(0)?,
        build_id: payload.exactly(16, build_id_size)?,
        path: payload.exactly(16_usize.checked_add(build_id_size)?, path_size)?,
    })
}

#[cfg(test)]
mod tests;
