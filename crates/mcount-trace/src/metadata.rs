//! Metadata chunks: processes, threads, modules, functions and notes, as they were recorded.

use crate::bytes::Bytes;
use crate::entry::{Entry, Function, Mapping, Module, TooShort};
use crate::layout::metadata as kind;

/// A program that a process ran. A process that called `exec` has one for each program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// The process ID.
    pub pid: u32,
    /// The process ID of its parent; 0 if not known.
    pub parent: u32,
    /// Ticks when it began, or called `exec`.
    pub start: u64,
    /// Ticks when it ended or called `exec`, if it did.
    pub end: Option<u64>,
    /// The wait status that it ended with, if it ended.
    pub status: Option<u32>,
    /// The path of the program.
    pub name: &'a [u8],
}

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread<'a> {
    /// Its number in the trace; 0 if it made no calls.
    pub number: u32,
    /// The process ID.
    pub pid: u32,
    /// The thread ID; 0 if not known.
    pub tid: u32,
    /// Ticks when it began, if known.
    pub start: Option<u64>,
    /// Ticks when it ended, if it did.
    pub end: Option<u64>,
    /// The last name that it's known to have had, or nothing.
    pub name: &'a [u8],
}

/// The start or the end of a thread or process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) pid: u32,
    /// The thread ID, parent or wait status.
    pub(crate) other: u32,
    pub(crate) ticks: u64,
    pub(crate) name: &'a [u8],
}

/// All that metadata chunks hold, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Metadata<'a> {
    pub(crate) processes: Vec<Event<'a>>,
    pub(crate) process_ends: Vec<Event<'a>>,
    pub(crate) threads: Vec<Event<'a>>,
    pub(crate) thread_ends: Vec<Event<'a>>,
    pub(crate) thread_names: Vec<Event<'a>>,
    pub(crate) modules: Vec<Module<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) notes: Vec<&'a [u8]>,
    /// The recorded arguments and results: functions, and the data after their numbers.
    pub(crate) values: Vec<(u32, &'a [u8])>,
    /// Enumerations, and what follows their numbers.
    pub(crate) enumerations: Vec<(u32, &'a [u8])>,
    /// Records that could not be read.
    pub(crate) bad: u64,
}

impl<'a> Metadata<'a> {
    /// Reads the records of a chunk.
    pub(crate) fn read(&mut self, chunk: Bytes<'a>) {
        let mut at = 0;
        while let (Some(kind), Some(length)) = (chunk.u32(at), chunk.u32(at + 4)) {
            if kind == kind::NOTHING {
                return;
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let Some(payload) = chunk.exactly(at + kind::HEAD, length) else {
                self.bad += 1;
                return;
            };
            match Entry::read(kind, Bytes { bytes: payload, ..chunk }) {
                Ok(Some(entry)) => self.add(entry),
                Ok(None) => {}
                Err(TooShort) => self.bad += 1,
            }
            at += kind::HEAD + length.next_multiple_of(kind::ALIGNMENT);
        }
    }

    /// Takes in one record.
    fn add(&mut self, entry: Entry<'a>) {
        let event = |pid, other, ticks, name| Event { pid, other, ticks, name };
        match entry {
            Entry::ProcessStart(one) => {
                self.processes.push(event(one.pid, one.parent, one.ticks, one.path));
            }
            Entry::ProcessEnd(one) => {
                self.process_ends.push(event(one.pid, one.status, one.ticks, b""));
            }
            Entry::ThreadStart(one) => {
                self.threads.push(event(one.pid, one.tid, one.ticks, one.name));
            }
            Entry::ThreadName(one) => {
                self.thread_names.push(event(one.pid, one.tid, one.ticks, one.name));
            }
            Entry::ThreadEnd(one) => {
                self.thread_ends.push(event(one.pid, one.tid, one.ticks, b""));
            }
            Entry::Module(one) => self.modules.push(one),
            Entry::Function(one) => self.functions.push(one),
            Entry::Note(one) => self.notes.push(one.text),
            Entry::Mapping(one) => self.mappings.push(one),
            Entry::Signature(one) => self.values.push((one.function, one.values)),
            Entry::Enumeration(one) => self.enumerations.push((one.number, one.enumerators)),
        }
    }
}

/// How a process ended, if that's known.
pub(crate) fn known_status(status: u32) -> Option<u32> {
    (status != crate::layout::metadata::UNKNOWN_STATUS).then_some(status)
}
