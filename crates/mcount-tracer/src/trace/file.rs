//! The trace file while it's written: the header, room for chunks ahead of those who take them, and what
//! the recorder itself writes, which is metadata.
//!
//! Programs write calls into the file through shared mappings. They never touch a chunk that the
//! recorder hasn't made room for on disk, so a full disk is an error here and not a signal there.

use super::clock;
use super::compact::{Compacted, compact};
use super::prepare;
use super::rlimit::Limit;
pub use super::room::Size;
use super::room::{AHEAD, Shared, descriptor};
use super::scope::Scope;
use crate::commit::Failure;
use crate::files::Input;
use crate::words::counted;
use mcount_cpu::here::abi::SHADOWS;
use mcount_trace::layout::{self, chunk, directory, header};
use mcount_trace::{Entry, Moment};
use memmap2::MmapOptions;
use nix::libc;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of the mapping that programs have of the trace: the most that it can grow to.
const LIMIT: u64 = if SHADOWS[0] < 1 << 40 { 1 << 33 } else { 1 << 38 };

/// Traces of that many chunks get an index: 4 MiB, which is read in a millisecond.
const INDEXED: u64 = 64;

/// A trace that is being written.
pub(super) struct TraceFile {
    shared: Arc<Shared>,
    /// Where it is, and where it's to be once it can be read.
    path: PathBuf,
    target: PathBuf,
    keeper: Option<JoinHandle<()>>,
    metadata: Mutex<Metadata>,
    begin: Moment,
    untimed: bool,
    /// Calls may have records of values besides.
    has_values: bool,
    /// When recording ended, in ticks, if that was before the trace is finished.
    ended: Option<u64>,
}

/// Where the next metadata record goes.
#[derive(Default)]
struct Metadata {
    chunk: u64,
    used: u64,
}

/// How many chunks a trace of that many bytes has room for.
fn chunks(bytes: u64) -> u64 {
    (bytes.saturating_sub(layout::HEADER_BLOCK) / layout::CHUNK_SIZE).max(4) - 2
}

/// How many bytes `process` can still map, if that is limited (`RLIMIT_AS`).
fn address_space(process: i32) -> io::Result<Option<u64>> {
    let Some(limit) = Limit::AddressSpace.of(process)? else { return Ok(None) };
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    Ok(Some(limit.saturating_sub(pages.saturating_mul(4096))))
}

impl TraceFile {
    /// Creates the trace beside `target`, only for this user; [`Self::publish`] gives it that name.
    pub(super) fn create(target: &Path, size: Size, scope: &Scope) -> io::Result<Self> {
        let target = std::path::absolute(target)?;
        match std::fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::Error::other("is a folder")),
            Ok(found) if !found.is_file() => return Err(io::Error::other("isn't a regular file")),
            _ => {}
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let path = target.with_file_name(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Self::begin(file, (path.clone(), target), size, scope).inspect_err(|_| {
            // Nothing is in it.
            let _ = std::fs::remove_file(&path);
        })
    }

    fn begin(
        file: File,
        (path, target): (PathBuf, PathBuf),
        size: Size,
        scope: &Scope,
    ) -> io::Result<Self> {
        let untimed = scope.untimed;
        let has_values = scope.has_values() || !scope.counters.is_empty() || !scope.mark.is_empty();
        file.set_len(layout::HEADER_BLOCK)?;
        // SAFETY: the file is ours; whoever shortens it ends this process and no other.
        let header = unsafe {
            MmapOptions::new()
                .len(usize::try_from(layout::HEADER_SIZE).unwrap_or(4096))
                .map_mut(&file)?
        };
        let limit = match size {
            Size::Most(bytes) => bytes.min(LIMIT),
            _ => LIMIT,
        };
        let limit = chunks(limit);
        let stop = AtomicBool::new(false);
        let error = Mutex::new(None);
        let is_prepared = prepare::is_worth_it(scope);
        let shared = Shared {
            file,
            header,
            stop,
            error,
            limit: AtomicU64::new(limit),
            is_limited: size != Size::Any,
            ring: size.ring(),
            ready: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            is_prepared,
        };
        let begin = clock::both(libc::CLOCK_MONOTONIC);
        shared.describe(scope, begin)?;
        shared.make_first_room(AHEAD.min(limit))?;
        let shared = Arc::new(shared);
        let keeper = Arc::clone(&shared);
        let keeper = thread::spawn(move || keeper.keep());
        let metadata = Mutex::default();
        let keeper = Some(keeper);
        let ended = None;
        let trace =
            Self { shared, path, target, keeper, metadata, begin, untimed, has_values, ended };
        thread::sleep(Duration::from_millis(5));
        trace.measure_clock();
        trace.shared.file.write_all_at(&layout::MAGIC, header::MAGIC as u64)?;
        Ok(trace)
    }

    /// Gives it its name, in the place of an older trace.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.target)?;
        self.path.clone_from(&self.target);
        Ok(())
    }

    /// Gives it its name, or that with a number: an older trace stays. The message about that, if the user
    /// would expect `chosen`.
    pub(super) fn publish_beside(&mut self, chosen: &Path) -> io::Result<Option<String>> {
        let path = give_name(&self.path, &self.target)?;
        let is_new = path != self.target;
        self.path.clone_from(&path);
        self.target = path;
        let name = chosen.with_file_name(self.target.file_name().unwrap_or_default());
        let note =
            || format!("{} exists already; the trace is {}", chosen.display(), name.display());
        Ok(is_new.then(note))
    }

    /// The name that it was given.
    pub(super) fn name(&self) -> Option<&std::ffi::OsStr> {
        self.target.file_name()
    }

    /// How many bytes of it `process` can map. If its address space is limited, a quarter of what is left there, and
    /// the trace doesn't grow beyond that. `agent`: how many bytes the agent is still to take.
    pub(super) fn length_for(&self, process: i32, agent: u64) -> io::Result<u64> {
        let Some(room) = address_space(process)? else { return Ok(LIMIT) };
        let length = (room.saturating_sub(agent) / 4).min(LIMIT) & !(layout::CHUNK_SIZE - 1);
        let most = chunks(length);
        // The keeper reads the limit before it makes room, so this may be too late.
        self.shared.limit.fetch_min(most, SeqCst);
        let was_ready = self.shared.ready.load(SeqCst);
        if was_ready > most {
            return Err(io::Error::other("its address space has too little room: raise ulimit -v"));
        }
        Ok(length)
    }

    /// Are its pages ready before they are written to, and nowhere but in memory?
    pub(super) fn is_prepared_in_memory(&self) -> bool {
        self.shared.is_prepared && prepare::is_in_memory(&self.shared.file)
    }

    /// Its absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Another name for it, should the first be gone: that of the recorder's descriptor.
    pub(super) fn descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.shared.file.as_raw_fd()))
    }

    /// Removes it, unless it has its name.
    pub(super) fn remove_unpublished(&self) {
        if self.path != self.target {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// How many calls could not be recorded, and why not.
    pub(super) fn dropped(&self) -> (u64, Option<io::Error>) {
        let dropped = self.shared.field(header::DROPPED).load(SeqCst);
        (dropped, self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// The time, as records of calls have it. Without a clock it's later than all threads so far, and not later than
    /// those to come (the agent's `COUNT_BITS`).
    pub(super) fn ticks(&self) -> u64 {
        const COUNT_BITS: u32 = 36;
        if self.untimed {
            self.shared.field(header::NEXT_THREAD).load(SeqCst).wrapping_add(1) << COUNT_BITS
        } else {
            clock::clock()
        }
    }

    /// When it began.
    pub(super) fn start(&self) -> u64 {
        self.shared.field(header::START_TICKS).load(SeqCst)
    }

    /// How many ticks there are in that many nanoseconds.
    pub(super) fn ticks_in(&self, nanoseconds: u64) -> u64 {
        let rate = self.shared.field(header::TICKS_PER_SECOND).load(SeqCst);
        let ticks = u128::from(nanoseconds) * u128::from(rate) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// How many chunks of a ring were taken, again and again.
    pub(super) fn turns(&self) -> u64 {
        self.shared.field(header::RING_NEXT).load(SeqCst)
    }

    /// Says how many ticks a second has, by all that has passed since the trace began. The first few
    /// milliseconds know it to within 2 in a million, and that's 7 ms in an hour.
    pub(super) fn measure_clock(&self) {
        if self.untimed {
            return;
        }
        let rate = clock::both(libc::CLOCK_MONOTONIC).ticks_per_second(self.begin);
        self.shared.set(header::TICKS_PER_SECOND, rate);
    }

    /// What its threads have of it.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// A process has ended: in a ring, what it wrote last may be written over.
    pub(super) fn release(&self, process: i32) -> io::Result<()> {
        let used = self.shared.field(header::RING_NEXT).load(SeqCst).min(self.shared.ring);
        for turn in 0..usize::try_from(used).unwrap_or(0) {
            let mut number = [0; 8];
            let entry = (layout::ring::TABLE + turn * layout::ring::ENTRY) as u64;
            self.shared.file.read_exact_at(&mut number, entry)?;
            let number = u64::from_ne_bytes(number);
            let mut of = [0; 8];
            if number != 0 && number < self.shared.ready.load(SeqCst) {
                let place = descriptor(number);
                self.shared.file.read_exact_at(&mut of, place + directory::PID as u64)?;
                if u64::from_ne_bytes(of) == u64::from(process.cast_unsigned()) {
                    self.shared.file.write_all_at(&[0; 8], place + directory::BUSY as u64)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a metadata record.
    pub(super) fn add<'e>(&self, entry: impl Into<Entry<'e>>) -> io::Result<()> {
        self.add_all([entry])
    }

    /// Adds several metadata records, by as few writes as possible.
    pub(super) fn add_all<'e>(
        &self,
        entries: impl IntoIterator<Item = impl Into<Entry<'e>>>,
    ) -> io::Result<()> {
        let mut at = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        for entry in entries {
            let before = bytes.len();
            entry.into().append(&mut bytes);
            if at.chunk == 0 || at.used + bytes.len() as u64 > layout::CHUNK_SIZE {
                let record = bytes.split_off(before);
                self.append(&mut at, &bytes)?;
                self.next_chunk(&mut at)?;
                bytes = record;
            }
        }
        self.append(&mut at, &bytes)
    }

    /// Takes a chunk for metadata.
    fn next_chunk(&self, at: &mut Metadata) -> io::Result<()> {
        let chunk = self.shared.take_chunk(chunk::METADATA);
        at.chunk = chunk.ok_or_else(|| self.shared.why_full())?;
        at.used = 0;
        Ok(())
    }

    /// Writes records to the chunk of metadata, which has room for them.
    fn append(&self, at: &mut Metadata, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.shared.fill(at.chunk, at.used, records)?;
        at.used += records.len() as u64;
        Ok(())
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.shared.file
    }

    /// How many chunks were given out.
    pub(super) fn chunks(&self) -> u64 {
        self.shared.given_out()
    }

    /// Are as many chunks given out as there are? Otherwise a program has written over it.
    pub(super) fn is_whole(&self) -> bool {
        self.shared.field(header::NEXT_CHUNK).load(SeqCst) <= self.shared.ready.load(SeqCst)
    }

    /// Reads from it. `false` if that much isn't there.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        self.shared.file.read_exact_at(bytes, offset).is_ok()
    }

    /// How many ticks there are in a second; 0 if they're no times.
    pub(super) fn rate(&self) -> u64 {
        self.measure_clock();
        self.shared.field(header::TICKS_PER_SECOND).load(SeqCst)
    }

    /// Takes its name away: it goes when it's closed.
    pub(super) fn hide(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// The parts that are missing from it. `is_confined`: a program couldn't do all that recording
    /// takes.
    pub(super) fn missing(&self, is_ring: bool, is_confined: bool) -> Option<String> {
        let (dropped, error) = self.dropped();
        if let Some(error) = error.filter(|_| dropped != 0) {
            let (path, why) = (self.path.display(), Failure::from(error));
            let help = if self.kept_calls() == 0 { ": let it be larger (--max-size)" } else { "" };
            return Some(format!("{path}: {why}; {}{help}", not_recorded(dropped)));
        }
        match (dropped, is_ring) {
            (0, _) => None,
            (_, true) => {
                let older = counted(dropped, "older call was", "older calls were");
                Some(format!("{older} dropped for newer ones"))
            }
            (_, false) if is_confined => {
                let why = "a program's sandbox (seccomp) forbids the system calls for that";
                Some(format!("{}: {why}", not_recorded(dropped)))
            }
            (_, false) => Some(not_recorded(dropped)),
        }
    }

    /// How many calls have ended so far, also those that the trace no longer has.
    pub(super) fn calls(&self) -> u64 {
        let all = (0..self.shared.given_out()).map(|chunk| self.calls_in(chunk, self.has_values));
        all.sum::<u64>() + self.shared.field(header::DROPPED).load(SeqCst)
    }

    /// How many calls it has, also those that haven't ended: `exit()` doesn't return to who called it.
    pub(super) fn kept_calls(&self) -> u64 {
        /// Chunks of which it takes no time to look at each record.
        const FEW: u64 = 1 << 14;
        let chunks = self.shared.given_out();
        let is_exact = self.has_values || chunks <= FEW;
        (0..chunks).map(|chunk| self.calls_in(chunk, is_exact) + self.open_in(chunk)).sum()
    }

    /// What a chunk holds: one of `layout::chunk`. `None` of a directory.
    fn kind_of(&self, chunk: u64) -> Option<u32> {
        let mut kind = [0; 4];
        let is_read = self.read(descriptor(chunk) + directory::KIND as u64, &mut kind);
        (is_read && !chunk.is_multiple_of(directory::SPAN)).then(|| u32::from_ne_bytes(kind))
    }

    /// How many calls there are in a chunk. Unless each record is looked at, all but the first are taken for calls, where no values are.
    fn calls_in(&self, chunk: u64, is_exact: bool) -> u64 {
        if self.kind_of(chunk) != Some(chunk::CALLS) {
            return 0;
        }
        let mut shared = [0; 8];
        let is_read = self.read(descriptor(chunk) + directory::SHARED as u64, &mut shared);
        let start = layout::HEADER_BLOCK + chunk * layout::CHUNK_SIZE;
        match u64::from_ne_bytes(shared) {
            shared @ 1.. if is_read => self.calls_between(start, shared.min(layout::CHUNK_SIZE)),
            _ if is_exact => self.calls_between(start, layout::CHUNK_SIZE),
            _ => self.calls_from(start),
        }
    }

    /// How many calls there are in a chunk that haven't ended: a word for each.
    fn open_in(&self, chunk: u64) -> u64 {
        if self.kind_of(chunk) != Some(chunk::OPEN) {
            return 0;
        }
        let mut bytes = vec![0; usize::try_from(layout::CHUNK_SIZE).unwrap_or(0)];
        if !self.read(layout::HEADER_BLOCK + chunk * layout::CHUNK_SIZE, &mut bytes) {
            return 0;
        }
        bytes.as_chunks::<8>().0.iter().filter(|word| **word != [0; 8]).count() as u64
    }

    /// How many calls there are in the `size` bytes at `start`, among whatever else.
    fn calls_between(&self, start: u64, size: u64) -> u64 {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        if !self.read(start, &mut bytes) {
            return 0;
        }
        let records = bytes.as_chunks::<{ layout::call::SIZE }>().0;
        let is_call = |record: &&[u8; layout::call::SIZE]| {
            let first = record.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            first & layout::call::FUNCTION_MASK != 0
        };
        records.iter().filter(is_call).count() as u64
    }

    /// How many calls there are in the chunk at `start`: one after the other, from there on.
    fn calls_from(&self, start: u64) -> u64 {
        const RECORDS: u64 = layout::CHUNK_SIZE / layout::call::SIZE as u64;
        let (mut low, mut high) = (0, RECORDS);
        while low < high {
            let middle = low.midpoint(high);
            let mut word = [0; 8];
            let at = start + middle * layout::call::SIZE as u64;
            let is_there = self.shared.file.read_exact_at(&mut word, at).is_ok() && word != [0; 8];
            if is_there { low = middle + 1 } else { high = middle }
        }
        // The first one says whose they are.
        low.saturating_sub(1)
    }

    /// The processes that have recorded calls.
    pub(super) fn processes(&self) -> BTreeSet<u32> {
        let chunks = self.shared.given_out();
        let mut found = BTreeSet::new();
        let mut directory = 0;
        while directory < chunks {
            // All of its descriptors at once: large traces have thousands, and this is asked again and again.
            let count = (chunks - directory).min(directory::SPAN);
            let mut bytes =
                vec![0; usize::try_from(count).unwrap_or(0) * directory::DESCRIPTOR_SIZE];
            let is_read = self.read(descriptor(directory), &mut bytes);
            directory += directory::SPAN;
            if !is_read {
                continue;
            }
            // The first one would be the directory's own.
            let all = bytes.as_chunks::<{ directory::DESCRIPTOR_SIZE }>().0.iter().skip(1);
            let field = |of: &[u8], offset: usize| {
                Some(u32::from_ne_bytes(*of.get(offset..)?.first_chunk::<4>()?))
            };
            let calls = all.filter(|one| field(*one, directory::KIND) == Some(chunk::CALLS));
            found.extend(calls.filter_map(|one| field(one, directory::PID)));
        }
        found
    }

    /// The same as [`Self::finish`], where programs may still write into it: room that isn't used stays, and no
    /// thread gets more.
    pub(super) fn finish_mapped(mut self) {
        self.shared.set_full();
        self.end();
    }

    /// No program writes from here on: puts the end into the header and gives unused room back.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.end();
        let chunks = self.shared.given_out();
        let compacted = compact(&self.shared.file, &self.path, chunks);
        let (file, chunks) = match &compacted {
            Some(Compacted { file, chunks }) => (file, *chunks),
            None => (&self.shared.file, chunks),
        };
        let size = layout::HEADER_BLOCK + chunks * layout::CHUNK_SIZE;
        file.set_len(size)?;
        if chunks >= INDEXED && add_index(file, size).is_err() {
            // There's no room for it. Readers can do without.
            file.write_all_at(&chunks.to_ne_bytes(), header::NEXT_CHUNK as u64)?;
            return file.set_len(size);
        }
        Ok(())
    }

    /// Recording has ended, though it takes a while until the trace is finished.
    pub(super) fn set_ended(&mut self) {
        self.ended = Some(self.ticks());
    }

    fn end(&mut self) {
        self.shared.stop.store(true, SeqCst);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            let _ = keeper.join();
        }
        self.measure_clock();
        self.shared.set(header::END_TICKS, self.ended.unwrap_or_else(|| self.ticks()));
        self.shared.field(header::FLAGS).fetch_or(layout::flags::FINISHED, SeqCst);
    }
}

/// Adds an index to a trace of that many bytes, so that reading a part of it doesn't begin with reading all.
fn add_index(file: &File, size: u64) -> io::Result<()> {
    let input = Input::new(file, size)?;
    let patches = mcount_trace::index(input.bytes()).map_err(io::Error::other)?;
    drop(input);
    for patch in patches {
        file.write_all_at(&patch.bytes, patch.offset)?;
    }
    Ok(())
}

/// Says that this many calls are missing from the trace.
fn not_recorded(calls: u64) -> String {
    counted(calls, "call was not recorded", "calls were not recorded")
}

/// Gives the file at `path` the name `target`, or that with a number, if it's another file's.
pub(super) fn give_name(path: &Path, target: &Path) -> io::Result<PathBuf> {
    const MOST: u32 = 1000;
    let (stem, extension) = (target.file_stem().unwrap_or_default(), target.extension());
    for number in 1..MOST {
        let mut name = stem.to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        let target = target.with_file_name(name);
        match std::fs::hard_link(path, &target) {
            Ok(()) => return std::fs::remove_file(path).map(|()| target),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The file system has no links.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
                ) && !target.exists() =>
            {
                return std::fs::rename(path, &target).map(|()| target);
            }
            Err(error) => return Err(crate::commit::about(&target, error)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
