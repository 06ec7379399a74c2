//! A whole trace: its header, what metadata says, and which calls are where.

use crate::bytes::Bytes;
use crate::calls::{Calls, ThreadCalls};
use crate::entry::{Function, Mapping, Module};
use crate::error::{Damage, Error};
use crate::file::File;
use crate::index::{Descriptor, Index, Starts, ThreadIndex, descriptor};
use crate::layout::{self, chunk, clock, directory, flags, header};
use crate::limits::{Limits, first_since};
use crate::metadata::{Event, Metadata, Process, Thread, known_status};
use crate::nest::resolve;
use crate::record::Hidden;
use crate::scale::Scale;
use crate::stored;
use crate::told;
use crate::unpack::{Packed, is_packed};
use crate::values::{Signatures, Values};
use crate::walk::{Stretch, Visitor, backwards, forwards};
use std::collections::HashMap;

/// The contents of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Header {
    /// The numbers of the file are big-endian.
    pub big_endian: bool,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Ticks in a second; 0 if not known.
    pub ticks_per_second: u64,
    /// One of [`layout::clock`].
    pub clock: u64,
    /// Ticks when the trace began.
    pub start: u64,
    /// `CLOCK_REALTIME` when the trace began, in nanoseconds.
    pub start_realtime: u64,
    /// `CLOCK_MONOTONIC` when the trace began, in nanoseconds; 0 if not known.
    pub start_monotonic: u64,
    /// Ticks when the trace ended, if it did so in an orderly way.
    pub end: Option<u64>,
    /// The file doesn't change again.
    pub is_finished: bool,
    /// Calls have only entries: neither durations nor nesting.
    pub has_only_entries: bool,
    /// How many calls could not be recorded, or were recorded over.
    pub dropped: u64,
    /// How many calls were recorded as left, and went on later, as the program copies stacks.
    pub early: u64,
    /// Older calls made room for newer ones.
    pub is_ring: bool,
}

/// A trace.
#[derive(Debug)]
pub struct Trace<'a> {
    /// The contents of the header.
    pub header: Header,
    /// Programs that ran, by start.
    pub processes: Vec<Process<'a>>,
    /// Threads: those that made calls first, by number.
    pub threads: Vec<Thread<'a>>,
    /// Files with code, by number.
    pub modules: Vec<Module<'a>>,
    /// Functions, by number.
    pub functions: Vec<Function<'a>>,
    /// Which process had which module, as it was recorded.
    pub mappings: Vec<Mapping>,
    /// The recorder's notes: the missing parts of the trace and why.
    pub notes: Vec<&'a [u8]>,
    /// What could not be read.
    pub damage: Damage,
    file: File<'a>,
    indices: Vec<ThreadIndex>,
    /// The programs of each process, by start.
    programs: HashMap<u32, Vec<u32>>,
    scale: Scale,
    has_index: bool,
    signatures: Signatures<'a>,
    hidden: Option<Hidden>,
}

impl<'a> Trace<'a> {
    /// Reads everything but the calls, and finds out where those are.
    ///
    /// # Errors
    ///
    /// The bytes are no trace, or one of a version that isn't known. Damage after the header is no
    /// error: see [`Trace::damage`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        if is_packed(bytes) { Err(Error::Packed) } else { Self::read(File::plain(bytes)) }
    }

    /// The same of a compressed trace.
    ///
    /// # Errors
    ///
    /// As [`Trace::parse`].
    pub fn unpack(packed: &'a Packed<'a>) -> Result<Self, Error> {
        Self::read(File::packed(packed))
    }

    fn read(file: File<'a>) -> Result<Self, Error> {
        let header = header(&file.load(0, usize::try_from(layout::HEADER_SIZE).unwrap_or(0)))?;
        let file = file.with_order(header.big_endian);
        let mut damage = Damage::default();
        let chunks = Chunks { file, size: header.chunk_size, is_ring: header.is_ring };
        let descriptors = chunks.descriptors(&mut damage);
        file.keep(descriptors.iter().filter_map(|of| chunks.kept(of)));
        let mut metadata = Metadata::default();
        for of in descriptors.iter().filter(|of| of.kind == chunk::METADATA) {
            if let Some((offset, size)) = chunks.place(of.number) {
                let used = usize::try_from(of.used).unwrap_or(size).min(size);
                metadata.read(file.kept(offset, used));
            }
        }
        damage.bad_metadata = metadata.bad;
        let processes = processes(&metadata);
        let mut programs: HashMap<u32, Vec<u32>> = HashMap::new();
        for (at, process) in (0..).zip(&processes) {
            programs.entry(process.pid).or_default().push(at);
        }
        let stored = chunks.stored(&header, &descriptors, &mut damage);
        let has_index = stored.is_some();
        let index = stored.unwrap_or_else(|| {
            let thread_ends = by_id(&metadata.thread_ends, |event| (event.pid, event.other));
            let limits = Limits { thread_ends, processes: &processes, programs: &programs };
            let mut index = chunks.index(&descriptors, &limits, &mut damage);
            index.threads.sort_by_key(|thread| thread.number);
            for thread in &mut index.threads {
                let (pid, tid) = (thread.pid, thread.tid);
                resolve(file, thread, |start| limits.of(pid, tid, start));
            }
            index
        });
        let threads = threads(&metadata, &index.threads);
        let Metadata { mut modules, mut functions, mappings, notes, .. } = metadata;
        let signatures = Signatures::new(metadata.values, metadata.enumerations);
        modules.sort_by_key(|module| module.number);
        functions.sort_by_key(|function| function.number);
        let indices = index.threads;
        Ok(Self {
            header,
            processes,
            threads,
            modules,
            functions,
            mappings,
            notes,
            damage,
            file,
            indices,
            programs,
            scale: Scale::new(header.ticks_per_second),
            has_index,
            signatures,
            hidden: None,
        })
    }

    /// Hands out calls as if those of these functions, by number, weren't there: their callers called what they called.
    pub fn hide(&mut self, functions: impl IntoIterator<Item = u32>) {
        let hidden: Hidden = functions.into_iter().collect();
        self.hidden = Some(hidden).filter(|hidden| !hidden.is_empty());
    }

    /// All calls in the order of starts.
    #[must_use]
    pub fn calls(&self) -> Calls<'_, 'a> {
        self.calls_of(|_| true)
    }

    /// Which of [`Trace::processes`] thread `at` of [`Trace::threads`] was in at that time, if that is known.
    #[must_use]
    pub fn process_at(&self, at: usize, ticks: u64) -> Option<usize> {
        self.thread_calls(at)?.process(ticks)
    }

    /// Whether the trace has an index, so that reading needn't begin with a pass over all calls.
    #[must_use]
    pub fn has_index(&self) -> bool {
        self.has_index
    }

    /// Whether it has arguments or results of functions: then [`Trace::values`] tells of them.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.signatures.is_empty()
    }

    /// Whether it has a value of this name: of a parameter, of its place (`arg1`), or a result (`result`); or a field of one
    /// (`at.x`).
    #[must_use]
    pub fn has_value(&self, name: &str) -> bool {
        self.signatures.has_value(name, self.header.big_endian)
    }

    /// Whether it has results of functions.
    #[must_use]
    pub fn has_results(&self) -> bool {
        self.signatures.has_results(self.header.big_endian)
    }

    /// The arguments and results of calls.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        Values::new(self.file, &self.signatures, &self.indices)
    }

    pub(crate) fn file(&self) -> File<'a> {
        self.file
    }

    pub(crate) fn indices(&self) -> &[ThreadIndex] {
        &self.indices
    }

    /// The calls of those threads that `is_wanted` names which start `nanoseconds` after the start of the trace, or
    /// later; in the order of starts. A few that start earlier can come before them.
    #[must_use]
    pub fn calls_from(&self, nanoseconds: u64, is_wanted: impl Fn(usize) -> bool) -> Calls<'_, 'a> {
        let ticks = self.ticks(nanoseconds);
        let threads = (0..self.indices.len()).filter(|at| is_wanted(*at));
        let calls = threads.filter_map(|at| self.thread_calls(at));
        Calls::new(calls.map(|calls| calls.starting_at(ticks)).collect())
    }

    /// The calls of those threads, by their place in [`Trace::threads`], that `is_wanted` names; in the
    /// order of starts.
    #[must_use]
    pub fn calls_of(&self, is_wanted: impl Fn(usize) -> bool) -> Calls<'_, 'a> {
        let threads = (0..self.indices.len()).filter(|at| is_wanted(*at));
        Calls::new(threads.filter_map(|at| self.thread_calls(at)).collect())
    }

    /// The calls of thread `at` of [`Trace::threads`] in the order of starts; `None` if it made none.
    #[must_use]
    pub fn thread_calls(&self, at: usize) -> Option<ThreadCalls<'_, 'a>> {
        let thread = self.indices.get(at)?;
        let programs = self.programs.get(&thread.pid).map_or(&[][..], Vec::as_slice);
        let has_only_entries = self.header.has_only_entries;
        let calls = ThreadCalls::new(self.file, thread, &self.processes, at, programs);
        let calls = calls.without(self.hidden.as_ref());
        Some(if has_only_entries { calls.only_entries() } else { calls })
    }

    /// The calls of those threads that `is_wanted` names, in stretches of about `size` calls that can be visited by
    /// several processors ([`Trace::visit`]).
    #[must_use]
    pub fn stretches(&self, size: u64, is_wanted: impl Fn(usize) -> bool) -> Vec<Stretch> {
        let latest = self.latest();
        let threads = self.indices.iter().enumerate().filter(|(at, _)| is_wanted(*at));
        let size = |thread: &ThreadIndex| if self.is_whole(thread) { u64::MAX } else { size };
        threads.flat_map(|(at, thread)| Stretch::all(at, thread, size(thread), latest)).collect()
    }

    /// Whether the calls of a thread are visited at once, in the order of starts.
    fn is_whole(&self, thread: &ThreadIndex) -> bool {
        self.header.has_only_entries || thread.is_disordered
    }

    /// Shows `visitor` the calls of a stretch, callers before what they call. That is quicker than
    /// [`Trace::calls`], which has to find the order of starts; here the last call comes first.
    /// Whether calls overlap, as stacks take turns ([`Stretch::tells_times`]).
    pub fn visit<V: Visitor>(&self, stretch: &Stretch, visitor: &mut V) -> bool {
        let Some(thread) = self.indices.get(stretch.thread) else { return false };
        if !self.is_whole(thread) {
            return backwards(self.file, (thread, self.hidden.as_ref()), stretch, visitor);
        }
        self.thread_calls(stretch.thread).into_iter().for_each(|calls| forwards(calls, visitor));
        false
    }

    /// How many frames of a compressed trace couldn't be read so far.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.file.bad_frames()
    }

    /// The latest time that the trace knows of: its end, or that of a call.
    #[must_use]
    pub fn latest(&self) -> u64 {
        let threads = self.indices.iter().map(ThreadIndex::latest).max();
        self.header.end.unwrap_or(0).max(threads.unwrap_or(0))
    }

    /// How many calls thread `at` of [`Trace::threads`] made.
    #[must_use]
    pub fn count(&self, at: usize) -> u64 {
        self.indices.get(at).map_or(0, |thread| thread.calls)
    }

    /// The function with this number.
    #[must_use]
    pub fn function(&self, number: u32) -> Option<&Function<'a>> {
        self.function_index(number).and_then(|at| self.functions.get(at))
    }

    /// Where in [`Trace::functions`] the function with this number is.
    #[must_use]
    #[inline]
    pub fn function_index(&self, number: u32) -> Option<usize> {
        // Writers number them from 1 on.
        let guess = (number as usize).wrapping_sub(1);
        if self.functions.get(guess).is_some_and(|function| function.number == number) {
            return Some(guess);
        }
        self.functions.binary_search_by_key(&number, |function| function.number).ok()
    }

    /// The module with this number.
    #[must_use]
    pub fn module(&self, number: u32) -> Option<&Module<'a>> {
        let at = self.modules.binary_search_by_key(&number, |module| module.number).ok()?;
        self.modules.get(at)
    }

    /// Nanoseconds from the start of the trace to this time. A tick of unknown length is taken for one.
    #[must_use]
    #[inline]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        self.scale.nanoseconds(ticks.saturating_sub(self.header.start))
    }

    /// A tick that isn't later than that many nanoseconds after the start of the trace.
    pub(crate) fn ticks(&self, nanoseconds: u64) -> u64 {
        self.header.start.saturating_add(self.scale.ticks(nanoseconds))
    }

    /// Whether times are nanoseconds, and not just an order.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.header.ticks_per_second != 0 && self.header.clock != clock::NONE
    }
}

/// Reads the header.
fn header(bytes: &[u8]) -> Result<Header, Error> {
    let rest = bytes.strip_prefix(&layout::MAGIC).ok_or(Error::NotATrace)?;
    let order = rest.first_chunk().ok_or(Error::TooShort)?;
    let big_endian = match (u32::from_le_bytes(*order), u32::from_be_bytes(*order)) {
        (layout::BYTE_ORDER, _) => false,
        (_, layout::BYTE_ORDER) => true,
        _ => return Err(Error::ByteOrder),
    };
    let file = Bytes { bytes, big_endian };
    let version = file.u32(header::VERSION).ok_or(Error::TooShort)?;
    if version != layout::VERSION {
        return Err(Error::Version(version));
    }
    let field = |offset| file.u64(offset).ok_or(Error::TooShort);
    let chunk_size = field(header::CHUNK_SIZE)?;
    let sizes = layout::CHUNK_SIZE_MIN..=layout::CHUNK_SIZE_MAX;
    if !chunk_size.is_power_of_two() || !sizes.contains(&chunk_size) {
        return Err(Error::ChunkSize(chunk_size));
    }
    Ok(Header {
        big_endian,
        chunk_size,
        ticks_per_second: field(header::TICKS_PER_SECOND)?,
        clock: field(header::CLOCK)?,
        start: field(header::START_TICKS)?,
        start_realtime: field(header::START_REALTIME)?,
        start_monotonic: field(header::START_MONOTONIC)?,
        end: Some(field(header::END_TICKS)?).filter(|end| *end != 0),
        is_finished: field(header::FLAGS)? & flags::FINISHED != 0,
        has_only_entries: field(header::FLAGS)? & flags::ENTRIES != 0,
        dropped: field(header::DROPPED)?,
        early: field(header::EARLY)?,
        is_ring: field(header::RING)? != 0,
    })
}

/// The byte order of a trace, and where its chunks of calls are: offsets and sizes.
pub(crate) fn call_chunks(bytes: &[u8]) -> Result<(bool, Vec<(usize, usize)>), Error> {
    let header = header(bytes)?;
    let file = File::plain(bytes).with_order(header.big_endian);
    let chunks = Chunks { file, size: header.chunk_size, is_ring: header.is_ring };
    let all = chunks.descriptors(&mut Damage::default());
    let of_calls = all.iter().filter(|of| of.kind == chunk::CALLS);
    Ok((header.big_endian, of_calls.filter_map(|of| chunks.place(of.number)).collect()))
}

/// Where chunks are.
struct Chunks<'a> {
    file: File<'a>,
    /// Bytes of each.
    size: u64,
    is_ring: bool,
}

impl Chunks<'_> {
    /// Where the bytes of a chunk are that has to be kept in memory, and how many they are.
    fn kept(&self, of: &Descriptor) -> Option<(usize, usize)> {
        let is_kept = matches!(of.kind, chunk::METADATA | chunk::INDEX);
        let (offset, size) = self.place(of.number).filter(|_| is_kept)?;
        Some((offset, usize::try_from(of.used).unwrap_or(size).min(size)))
    }

    /// Where chunk `number` begins in the file, and how many bytes of it there are; `None` if none are.
    fn place(&self, number: u64) -> Option<(usize, usize)> {
        let offset = number.checked_mul(self.size)?.checked_add(layout::HEADER_BLOCK)?;
        let offset = usize::try_from(offset).ok()?;
        let there = self.file.len().checked_sub(offset).filter(|there| *there > 0)?;
        Some((offset, there.min(usize::try_from(self.size).ok()?)))
    }

    /// What all directories say of chunks that are used. A directory in which nothing is used is the
    /// last: chunks are given out one after the other.
    fn descriptors(&self, damage: &mut Damage) -> Vec<Descriptor> {
        let mut found = Vec::new();
        let mut first = 0;
        while let Some((directory, size)) = self.place(first) {
            let known = found.len() as u64 + damage.missing_chunks;
            let part = self.file.load(directory, size.min(DIRECTORY));
            let all = Bytes { bytes: &part, big_endian: self.file.is_big_endian() };
            for k in 1..directory::SPAN {
                let at = usize::try_from(k).unwrap_or(usize::MAX) * directory::DESCRIPTOR_SIZE;
                if at + directory::DESCRIPTOR_SIZE > size {
                    break;
                }
                match descriptor(all, at, first + k) {
                    Some(of) if of.kind != chunk::UNUSED => match self.place(of.number) {
                        Some((_, there)) => {
                            let is_short = (there as u64) < self.size;
                            damage.missing_chunks += u64::from(is_short);
                            found.push(of);
                        }
                        None => damage.missing_chunks += 1,
                    },
                    _ => {}
                }
            }
            if found.len() as u64 + damage.missing_chunks == known {
                break;
            }
            first += directory::SPAN;
        }
        found
    }

    /// The index that the trace has, if it can be believed.
    fn stored(
        &self,
        header: &Header,
        descriptors: &[Descriptor],
        damage: &mut Damage,
    ) -> Option<Index> {
        let head = self.file.load(layout::header::INDEX, 8);
        let head = Bytes { bytes: &head, big_endian: header.big_endian };
        let size = head.u64(0).filter(|size| *size != 0)?;
        if !header.is_finished || damage.missing_chunks != 0 {
            return None;
        }
        let chunks = descriptors.iter().filter(|of| of.kind == chunk::INDEX);
        let chunks = chunks.filter_map(|of| Some((*of, self.place(of.number)?)));
        let (index, without_start) = stored::read(self.file, size, chunks)?;
        let is_unknown = |of: &&Descriptor| of.kind > chunk::WOKEN;
        damage.unknown_chunks = descriptors.iter().filter(is_unknown).count() as u64;
        damage.open_without_start = without_start;
        Some(index)
    }

    /// Goes through all calls.
    fn index(
        &self,
        descriptors: &[Descriptor],
        limits: &Limits<'_, '_>,
        damage: &mut Damage,
    ) -> Index {
        let (mut index, mut starts) = (Index::new(self.file.room()), Starts::default());
        // The chunks of a ring are used again in any order.
        let mut ordered: Vec<&Descriptor> = descriptors.iter().collect();
        if self.is_ring {
            ordered.sort_by_key(|of| (of.kind == chunk::CALLS).then_some(of.base));
        }
        for of in ordered {
            let Some((offset, size)) = self.place(of.number) else { continue };
            starts.add(of);
            match of.kind {
                chunk::CALLS => index.calls(self.file, offset, size, of),
                chunk::OPEN => {
                    let starts = starts.of(of).and_then(|number| self.place(number));
                    let starts = starts.map(|(offset, _)| offset);
                    index.open(self.file, (starts, offset), size, of, damage);
                }
                chunk::STARTS | chunk::METADATA..=chunk::WOKEN => {}
                _ => damage.unknown_chunks += 1,
            }
        }
        let place = |at| self.place(at);
        told::read(self.file, (descriptors, self.is_ring), place, limits, &mut index);
        damage.left_out = index.left_out();
        index
    }
}

/// Bytes of a directory.
const DIRECTORY: usize = 65_536;
const _: () = assert!(DIRECTORY as u64 == directory::SPAN * directory::DESCRIPTOR_SIZE as u64);

/// The programs, by start, with their ends.
fn processes<'a>(metadata: &Metadata<'a>) -> Vec<Process<'a>> {
    let mut processes: Vec<Process<'a>> = metadata
        .processes
        .iter()
        .map(|event| Process {
            pid: event.pid,
            parent: event.other,
            start: event.ticks,
            end: None,
            status: None,
            name: event.name,
        })
        .collect();
    processes.sort_by_key(|process| process.start);
    let ends = by_id(&metadata.process_ends, |event| event.pid);
    let mut next: HashMap<u32, u64> = HashMap::new();
    for process in processes.iter_mut().rev() {
        let exec = next.insert(process.pid, process.start);
        let end = first_since(ends.get(&process.pid), process.start);
        match (end, exec) {
            (Some(end), exec) if exec.is_none_or(|exec| end.ticks <= exec) => {
                (process.end, process.status) = (Some(end.ticks), known_status(end.other));
            }
            (_, exec) => process.end = exec,
        }
    }
    processes
}

/// Events of one process or thread, in the order of time.
fn by_id<'e, 'a, K: std::hash::Hash + Eq>(
    events: &'e [Event<'a>],
    id: impl Fn(&Event<'a>) -> K,
) -> HashMap<K, Vec<&'e Event<'a>>> {
    let mut found: HashMap<K, Vec<&Event<'a>>> = HashMap::new();
    for event in events {
        found.entry(id(event)).or_default().push(event);
    }
    for events in found.values_mut() {
        events.sort_by_key(|event| event.ticks);
    }
    found
}

/// The threads: those of `indices`, in their order, then those that made no calls.
fn threads<'a>(metadata: &Metadata<'a>, indices: &[ThreadIndex]) -> Vec<Thread<'a>> {
    let starts = by_id(&metadata.threads, |event| (event.pid, event.other));
    let ends = by_id(&metadata.thread_ends, |event| (event.pid, event.other));
    let names = by_id(&metadata.thread_names, |event| (event.pid, event.other));
    let mut silent = starts.clone();
    let mut threads = Vec::new();
    for index in indices {
        let id = (index.pid, index.tid);
        silent.remove(&id);
        let starts = starts.get(&id).map_or(&[][..], Vec::as_slice);
        let later = starts.partition_point(|event| event.ticks <= index.first);
        let event = starts.get(later.saturating_sub(1));
        threads.push(Thread {
            number: index.number,
            pid: index.pid,
            tid: index.tid,
            start: event.map(|event| event.ticks),
            end: end_of(&ends, id, index.first),
            name: last_name(names.get(&id), end_of(&ends, id, index.first))
                .or(event.map(|event| event.name))
                .unwrap_or_default(),
        });
    }
    let mut silent: Vec<_> = silent.into_values().flatten().collect();
    silent.sort_by_key(|event| event.ticks);
    threads.extend(silent.into_iter().map(|event| {
        Thread {
            number: 0,
            pid: event.pid,
            tid: event.other,
            start: Some(event.ticks),
            end: end_of(&ends, (event.pid, event.other), event.ticks),
            name: last_name(
                names.get(&(event.pid, event.other)),
                end_of(&ends, (event.pid, event.other), event.ticks),
            )
            .unwrap_or(event.name),
        }
    }));
    threads
}

/// When the thread with this ID ended that ran at `ticks`, if it did.
fn end_of(ends: &HashMap<(u32, u32), Vec<&Event<'_>>>, id: (u32, u32), ticks: u64) -> Option<u64> {
    first_since(ends.get(&id), ticks).map(|event| event.ticks)
}

/// The last of `names`, which are those of one thread ID in the order of time, that's not later than `end`: the ID may be
/// another thread's then.
fn last_name<'a>(names: Option<&Vec<&Event<'a>>>, end: Option<u64>) -> Option<&'a [u8]> {
    let names = names?.iter().take_while(|event| end.is_none_or(|end| event.ticks <= end));
    names.last().map(|event| event.name).filter(|name| !name.is_empty())
}
