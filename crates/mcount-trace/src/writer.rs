//! Writes traces, for tests and converters. The agent doesn't: it stores words into a mapped file.

use crate::entry::{
    Entry, Function, Module, Note, ProcessEnd, ProcessStart, ThreadEnd, ThreadName, ThreadStart,
};
use crate::layout::{self, call, chunk, clock, directory, end, flags, header, special, told};
use crate::record::{End, address_slot};
use std::collections::HashMap;

/// A thread of a trace that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(u32);

impl ThreadId {
    /// Its number in the trace.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Builds a trace in memory.
#[derive(Debug)]
pub struct Writer {
    big_endian: bool,
    header: Vec<(usize, u64)>,
    chunks: Vec<Chunk>,
    /// Process and thread ID of each thread, and the chunk that it writes to.
    threads: Vec<(u32, u32, Option<usize>)>,
    modules: Vec<Vec<u8>>,
    functions: u32,
    metadata: Option<usize>,
    /// The chunks with starts of open calls, by process and address.
    open: HashMap<(u32, u64), usize>,
}

#[derive(Debug)]
struct Chunk {
    kind: u32,
    thread: u32,
    base: u64,
    pid: u32,
    bytes: Vec<u8>,
    /// The thread and the base of the next record.
    current: Option<(u32, u64)>,
}

/// The contents of a chunk.
const CAPACITY: usize = 65_536;
const _: () = assert!(CAPACITY as u64 == layout::CHUNK_SIZE);

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// A trace without calls: little-endian, ticks that are nanoseconds, from 0 on.
    #[must_use]
    pub fn new() -> Self {
        let header = vec![
            (header::CHUNK_SIZE, layout::CHUNK_SIZE),
            (header::TICKS_PER_SECOND, 1_000_000_000),
            (header::CLOCK, clock::MONOTONIC),
            (header::FLAGS, flags::FINISHED),
        ];
        Self {
            big_endian: false,
            header,
            chunks: Vec::new(),
            threads: Vec::new(),
            modules: Vec::new(),
            functions: 0,
            metadata: None,
            open: HashMap::new(),
        }
    }

    /// An empty trace with the other byte order.
    #[must_use]
    pub fn big_endian() -> Self {
        Self { big_endian: true, ..Self::new() }
    }

    /// Sets the number of 8 bytes at this offset of the header ([`layout::header`]).
    pub fn header(&mut self, offset: usize, value: u64) -> &mut Self {
        self.header.push((offset, value));
        self
    }

    /// A program that a process runs from `ticks` on.
    pub fn process(&mut self, pid: u32, parent: u32, ticks: u64, name: &str) -> &mut Self {
        self.entry(ProcessStart { pid, parent, ticks, path: name.as_bytes() })
    }

    /// A process ends.
    pub fn process_end(&mut self, pid: u32, status: u32, ticks: u64) -> &mut Self {
        self.entry(ProcessEnd { pid, status, ticks })
    }

    /// A thread begins or gets a name.
    pub fn thread_name(&mut self, pid: u32, tid: u32, ticks: u64, name: &str) -> &mut Self {
        self.entry(ThreadStart { pid, tid, ticks, name: name.as_bytes() })
    }

    /// The name of a thread at this time.
    pub fn thread_called(&mut self, pid: u32, tid: u32, ticks: u64, name: &str) -> &mut Self {
        self.entry(ThreadName { pid, tid, ticks, name: name.as_bytes() })
    }

    /// A thread ends, and its process doesn't.
    pub fn thread_end(&mut self, pid: u32, tid: u32, ticks: u64) -> &mut Self {
        self.entry(ThreadEnd { pid, tid, ticks })
    }

    /// Says what is missing, and why.
    pub fn note(&mut self, text: &str) -> &mut Self {
        self.entry(Note { text: text.as_bytes() })
    }

    /// The number of the module with this path, which is added if it isn't there.
    pub fn module(&mut self, path: &str) -> u32 {
        let known = self.modules.iter().position(|known| known == path.as_bytes());
        let number = u32_of(known.unwrap_or(self.modules.len()) + 1);
        if known.is_none() {
            self.modules.push(path.as_bytes().to_vec());
            self.entry(Module { number, build_id: b"", path: path.as_bytes() });
        }
        number
    }

    /// Adds a function, 16 bytes after the one before; its number.
    pub fn function(&mut self, module: &str, name: &str) -> u32 {
        let address = 0x1000 + u64::from(self.functions) * 16;
        self.function_at(module, name, address, 16)
    }

    /// Adds a function; its number.
    pub fn function_at(&mut self, module: &str, name: &str, address: u64, size: u64) -> u32 {
        let module = self.module(module);
        self.functions += 1;
        let number = self.functions;
        self.entry(Function { number, module, address, size, name: name.as_bytes() });
        self.functions
    }

    /// Adds a metadata record of any kind.
    pub fn entry<'e>(&mut self, entry: impl Into<Entry<'e>>) -> &mut Self {
        let mut record = Vec::new();
        entry.into().append_in(&mut record, self.big_endian);
        let last = self.metadata.and_then(|last| self.chunks.get_mut(last));
        if let Some(last) = last.filter(|last| last.bytes.len() + record.len() <= CAPACITY) {
            last.bytes.extend(record);
        } else {
            self.metadata = Some(self.add(chunk::METADATA, 0, 0, 0, record));
        }
        self
    }

    /// Adds a thread.
    pub fn thread(&mut self, pid: u32, tid: u32) -> ThreadId {
        self.threads.push((pid, tid, None));
        ThreadId(u32_of(self.threads.len()))
    }

    /// The chunk that `from` writes to goes to `to`.
    pub fn hand_over(&mut self, from: ThreadId, to: ThreadId) -> &mut Self {
        let chunk = self.thread_mut(from).and_then(|(_, _, chunk)| chunk.take());
        if let Some((_, _, of)) = self.thread_mut(to) {
            *of = chunk;
        }
        self
    }

    fn thread_mut(&mut self, thread: ThreadId) -> Option<&mut (u32, u32, Option<usize>)> {
        self.threads.get_mut((thread.0 as usize).checked_sub(1)?)
    }

    /// A call that has ended. It is recorded by [`NewCall::end`], and has to be in the order of ends.
    pub fn call(&mut self, thread: ThreadId, function: u32) -> NewCall<'_> {
        let owner = thread;
        NewCall { writer: self, thread, owner, function, start: 0, end: 0, slot: 0 }
    }

    /// A call that has not ended, by the address of its slot.
    pub fn open(&mut self, thread: ThreadId, function: u32, start: u64, slot: u64) -> &mut Self {
        let pid = self.thread_mut(thread).map_or(0, |(pid, ..)| *pid);
        let base = slot & !(layout::CHUNK_SIZE - 1);
        let starts = if let Some(starts) = self.open.get(&(pid, base)) {
            *starts
        } else {
            let starts = self.add(chunk::STARTS, 0, base, pid, vec![0; CAPACITY]);
            self.add(chunk::OPEN, 0, base, pid, vec![0; CAPACITY]);
            self.open.insert((pid, base), starts);
            starts
        };
        let at = usize::try_from((slot - base) & !7).unwrap_or(0);
        let word = u64::from(thread.0) << layout::open::THREAD_SHIFT | u64::from(function);
        for (chunk, value) in [(starts, start), (starts + 1, word)] {
            let value = self.word(value);
            let chunk = self.chunks.get_mut(chunk);
            if let Some(place) = chunk.and_then(|chunk| chunk.bytes.get_mut(at..at + 8)) {
                place.copy_from_slice(&value);
            }
        }
        self
    }

    /// A thread was off the processor; `function` says why.
    pub fn off_cpu(&mut self, thread: ThreadId, function: u32, start: u64, end: u64) -> &mut Self {
        let (pid, tid) = self.thread_mut(thread).map_or((0, 0), |(pid, tid, _)| (*pid, *tid));
        let mut record = [self.word(start), self.word(end)].concat();
        record.extend(self.words(&[pid, tid, function, 0]));
        let is_last = |one: &&mut Chunk| one.kind == chunk::OFF_CPU && one.bytes.len() < CAPACITY;
        if let Some(last) = self.chunks.iter_mut().rfind(is_last) {
            last.bytes.extend(record);
        } else {
            self.add(chunk::OFF_CPU, 0, 0, 0, record);
        }
        self
    }

    /// A call into the system, with the bytes of its values; without an end it has not ended.
    pub fn told(
        &mut self,
        (pid, tid): (u32, u32),
        function: u32,
        (start, end): (u64, Option<u64>),
        values: &[u8],
    ) -> &mut Self {
        let how = if end.is_none() { told::OPEN } else { 0 };
        let mut record = [self.word(start), self.word(end.unwrap_or(0))].concat();
        record.extend(self.words(&[pid, tid, how << 24 | function, u32_of(values.len())]));
        record.extend(values);
        record.resize(record.len().next_multiple_of(told::ALIGNMENT), 0);
        let has_room = |one: &&mut Chunk| {
            one.kind == chunk::TOLD && one.bytes.len() + record.len() <= CAPACITY
        };
        if let Some(last) = self.chunks.iter_mut().rfind(has_room) {
            last.bytes.extend(record);
        } else {
            self.add(chunk::TOLD, 0, 0, 0, record);
        }
        self
    }

    /// Adds the two words of a record, whatever they are, to what a thread writes.
    pub fn record(&mut self, thread: ThreadId, first: u64, second: u64) -> &mut Self {
        self.records(thread, 0, &[(first, second)])
    }

    /// Adds records that have to be in one chunk; `base` is that of the chunk if it is a new one.
    fn records(&mut self, thread: ThreadId, base: u64, records: &[(u64, u64)]) -> &mut Self {
        let Some((pid, tid, current)) = self.thread_mut(thread).copied() else { return self };
        let ids = u64::from(pid) << 32 | u64::from(tid);
        let head = special_record(special::THREAD, thread.0, ids);
        // Room for a new thread and a new base, too.
        let size = (records.len() + 2) * call::SIZE;
        let room = |at: &usize| {
            self.chunks.get(*at).is_some_and(|chunk| chunk.bytes.len() + size <= CAPACITY)
        };
        let at = match current.filter(room) {
            Some(at) => at,
            None => self.add(chunk::CALLS, thread.0, base, pid, Vec::new()),
        };
        if let Some((_, _, current)) = self.thread_mut(thread) {
            *current = Some(at);
        }
        let state = self.chunks.get(at).and_then(|chunk| chunk.current);
        let mut words = Vec::new();
        if state.is_none_or(|(of, _)| of != thread.0) {
            words.push(head);
        }
        words.extend(records);
        let bytes: Vec<u8> =
            words.iter().flat_map(|(a, b)| [self.word(*a), self.word(*b)]).flatten().collect();
        if let Some(chunk) = self.chunks.get_mut(at) {
            chunk.bytes.extend(bytes);
            chunk.current = Some((thread.0, state.map_or(base, |(_, base)| base)));
        }
        self
    }

    fn base(&mut self, thread: ThreadId) -> Option<u64> {
        let (_, _, chunk) = *self.thread_mut(thread)?;
        self.chunks.get(chunk?)?.current.map(|(_, base)| base)
    }

    fn add(&mut self, kind: u32, thread: u32, base: u64, pid: u32, bytes: Vec<u8>) -> usize {
        self.chunks.push(Chunk { kind, thread, base, pid, bytes, current: None });
        self.chunks.len() - 1
    }

    fn word(&self, value: u64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(&self, values: &[u32]) -> Vec<u8> {
        let bytes = values.iter().flat_map(|value| {
            if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
        });
        bytes.collect()
    }

    /// The bytes of the trace.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut file = vec![0; usize::try_from(layout::HEADER_BLOCK).unwrap_or(0)];
        put(&mut file, 0, &layout::MAGIC);
        put(&mut file, header::BYTE_ORDER, &self.words(&[layout::BYTE_ORDER, layout::VERSION]));
        let per_directory = usize::try_from(directory::SPAN - 1).unwrap_or(1);
        let directories = self.chunks.len().div_ceil(per_directory);
        let given_out = (self.chunks.len() + directories) as u64;
        let threads = self.threads.len() as u64;
        let counts = [
            (header::NEXT_CHUNK, given_out),
            (header::READY, given_out),
            (header::NEXT_THREAD, threads),
        ];
        for (offset, value) in counts.iter().chain(&self.header) {
            put(&mut file, *offset, &self.word(*value));
        }
        for chunks in self.chunks.chunks(per_directory) {
            let start = file.len();
            file.resize(start + CAPACITY, 0);
            for (k, chunk) in (1..).zip(chunks) {
                let at = start + k * directory::DESCRIPTOR_SIZE;
                put(&mut file, at + directory::KIND, &self.words(&[chunk.kind, chunk.thread]));
                put(&mut file, at + directory::BASE, &self.word(chunk.base));
                put(&mut file, at + directory::PID, &self.word(u64::from(chunk.pid)));
                let used = chunk.bytes.len() as u64;
                put(&mut file, at + directory::USED, &self.word(used));
                let end = file.len() + CAPACITY;
                file.extend(&chunk.bytes);
                file.resize(end, 0);
            }
        }
        file
    }
}

/// A call on its way into a trace.
#[derive(Debug)]
#[must_use = "it is recorded by `end`"]
pub struct NewCall<'w> {
    writer: &'w mut Writer,
    thread: ThreadId,
    owner: ThreadId,
    function: u32,
    start: u64,
    end: u64,
    slot: u64,
}

impl NewCall<'_> {
    /// Ticks when it begins.
    pub fn from(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// Ticks when it ends.
    pub fn to(self, end: u64) -> Self {
        Self { end, ..self }
    }

    /// The address of its slot: where its return address is.
    pub fn slot(self, slot: u64) -> Self {
        Self { slot, ..self }
    }

    /// The thread that made it, if another one records it.
    pub fn owner(self, owner: ThreadId) -> Self {
        Self { owner, ..self }
    }

    /// Records it, ended in this way.
    pub fn end(self, how: End) {
        let how = match how {
            End::Return => end::RETURN,
            End::TailCall => end::TAIL_CALL,
            End::Unwound => end::UNWOUND,
            End::Exit => end::EXIT,
        };
        let mut records = Vec::new();
        let limit = 1 << call::TIME_BITS;
        let base = self.writer.base(self.thread).unwrap_or(self.end);
        let is_near = self.end.checked_sub(base).is_some_and(|since| since < limit);
        let base = if is_near {
            base
        } else {
            records.push(special_record(special::BASE, 0, self.end));
            self.end
        };
        if self.owner != self.thread {
            records.push(special_record(special::OWNER, self.owner.0, 0));
        }
        let duration = self.end.saturating_sub(self.start);
        if duration >= limit {
            records.push(special_record(special::START, 0, self.start));
        }
        let slot = u64::from(address_slot(self.slot)) << call::SLOT_SHIFT;
        records.push((
            self.end.saturating_sub(base) << call::TIME_SHIFT | u64::from(self.function),
            (duration & (limit - 1)) << call::TIME_SHIFT | slot | how,
        ));
        let (thread, writer) = (self.thread, self.writer);
        writer.records(thread, base, &records);
        if !is_near
            && let Some((_, _, Some(chunk))) = writer.thread_mut(thread).copied()
            && let Some(chunk) = writer.chunks.get_mut(chunk)
        {
            chunk.current = Some((thread.0, base));
        }
    }
}

/// The words of a special record.
fn special_record(kind: u64, value: u32, word: u64) -> (u64, u64) {
    (u64::from(value) << special::VALUE_SHIFT | kind << special::KIND_SHIFT, word)
}

fn put(file: &mut [u8], offset: usize, bytes: &[u8]) {
    let place = file.get_mut(offset..).and_then(|rest| rest.get_mut(..bytes.len()));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
}

fn u32_of(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
