//! When threads are off the processor (`--context-switches`), as the kernel tells of it.
//!
//! Each processor has a ring, into which the kernel writes that a thread of the traced program has left it, or is there again
//! (`perf_event_open(2)`, `PERF_RECORD_SWITCH`). A thread of the recorder's reads those rings, and writes from when to when a thread was
//! away. The kernel's times are `CLOCK_MONOTONIC_RAW`, the trace's are the processor's clock: both are read now and then, and what lies
//! between is in proportion.

use super::clock;
use super::file::TraceFile;
use super::room::Shared;
use mcount_ptrace::Tracee;
use mcount_trace::layout::{self, chunk, off_cpu};
use mcount_trace::{Function, Module, Moment};
use nix::libc;
use perf_event::events::Software;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of a processor's ring: half of what a user may have without privileges.
const RING: usize = 256 << 10;

/// Bytes that a record begins with: kind, flags and size (`struct perf_event_header`).
const HEAD: usize = 8;

/// How often the rings are read. A ring has room for 8,192 switches or more.
const OFTEN: Duration = Duration::from_millis(20);

/// Chunks that a trace has room for: a million times.
const CHUNKS: usize = 512;

/// The functions that say why, and the module that they're in. No function with a hook has such a number.
const SCHEDULED: u32 = 0xff_fffe;
const PREEMPTED: u32 = 0xff_ffff;
const KERNEL: u32 = u32::MAX;

/// Watches the threads of a program.
pub(super) struct OffCpu {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

/// The contents of a record of the kernel's about a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It's taken off the processor.
    Off { is_preempted: bool },
    /// It's on a processor again.
    On,
    /// It's new.
    New,
    /// So many records are missing.
    Lost(u64),
}

#[derive(Debug, Clone, Copy)]
struct Event {
    /// In nanoseconds.
    time: u64,
    /// Process and thread.
    ids: (u32, u32),
    said: Said,
}

/// The numbers of process and thread in their own namespace, by thread.
type Inner = HashMap<u32, (u32, u32)>;

/// A thread that is off the processor.
#[derive(Debug, Clone, Copy)]
struct Away {
    process: u32,
    /// In ticks.
    since: u64,
    is_preempted: bool,
}

struct State {
    rings: Vec<Sampler>,
    /// What else is counted: its records go to the rings.
    others: Vec<Counter>,
    /// The processor's clock and the kernel's, at the last two times that both were read.
    reads: [Moment; 2],
    /// Of times later than that.
    early: Vec<Event>,
    /// The threads that are off the processor.
    away: HashMap<u32, Away>,
    /// The numbers of processes and threads in their own namespace, if that's another one.
    inner: Option<Inner>,
    /// Other processes that it makes aren't watched.
    is_alone: bool,
    lost: u64,
    /// How often threads came back so far, and how many are new.
    switches: u64,
    new_threads: u64,
    times: Times,
}

/// Where times go.
struct Times {
    trace: Arc<Shared>,
    /// Chunks that were taken, the newest last.
    chunks: VecDeque<u64>,
    /// Bytes of the newest that are in use.
    used: u64,
    is_full: bool,
    is_forgotten: bool,
}

impl OffCpu {
    /// Watches a process that has one thread, and all that it makes, or its threads alone.
    pub(super) fn of_new(trace: &TraceFile, process: i32, is_alone: bool) -> io::Result<Self> {
        Self::begin(trace, (None, is_alone), |open| open(process))
    }

    /// Watches a process, and all that it makes.
    pub(super) fn of_running(trace: &TraceFile, process: i32) -> io::Result<Self> {
        raise_limit_of_files();
        let inner = Tracee::new(process).inner_id().ok().filter(|inner| *inner != process);
        Self::begin(trace, (inner.map(|_| HashMap::new()), false), |open| {
            // One may make another one before it's watched.
            let mut known = BTreeSet::new();
            loop {
                let mut is_done = true;
                for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
                    let thread = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                    if let Some(thread) = thread.filter(|thread| known.insert(*thread)) {
                        is_done = false;
                        match open(thread) {
                            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                            result => result?,
                        }
                    }
                }
                if is_done {
                    return Ok(());
                }
            }
        })
    }

    fn begin(
        trace: &TraceFile,
        (inner, is_alone): (Option<Inner>, bool),
        open: impl FnOnce(&mut dyn FnMut(i32) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let times = Times {
            trace: trace.shared(),
            chunks: VecDeque::new(),
            used: 0,
            is_full: false,
            is_forgotten: false,
        };
        let mut state = State {
            rings: Vec::new(),
            others: Vec::new(),
            reads: [clock::both(libc::CLOCK_MONOTONIC_RAW); 2],
            early: Vec::new(),
            away: HashMap::new(),
            inner,
            is_alone,
            lost: 0,
            switches: 0,
            new_threads: 0,
            times,
        };
        open(&mut |thread| state.open(thread))?;
        if state.rings.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        describe(trace)?;
        let state = Arc::new(Mutex::new(state));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_reader, told) = (Arc::clone(&state), Arc::clone(&stop));
        let reader = thread::spawn(move || {
            while !told.load(SeqCst) {
                lock(&of_reader).drain(false);
                thread::sleep(OFTEN);
            }
        });
        Ok(Self { state, stop, reader: Some(reader) })
    }

    /// Writes what is known until now.
    pub(super) fn write(&self) {
        lock(&self.state).drain(false);
    }

    /// How often threads left the processor and came back so far, and how many are new.
    pub(super) fn counts(&self) -> (u64, u64) {
        let mut state = lock(&self.state);
        state.drain(false);
        (state.switches, state.new_threads)
    }

    /// Has the kernel tell of nothing more, and forgets what it told: half of it would make waits look like work.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.times.forget();
        // What was handed down to new threads ends with what it came from.
        state.rings.clear();
        state.others.clear();
    }

    /// Writes the last ones; what is missing, a line each.
    pub(super) fn end(mut self) -> Vec<String> {
        self.stop.store(true, SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let mut state = lock(&self.state);
        state.drain(true);
        state.end();
        let lost = (state.lost > 0).then(|| {
            format!("{} context switches came too fast, and aren't in the trace", state.lost)
        });
        let full = (state.times.is_full && !state.times.is_forgotten).then(|| {
            let why = if state.times.chunks.len() < CHUNKS { "no room" } else { "a million" };
            format!("later context switches aren't in the trace: it has {why}")
        });
        lost.into_iter().chain(full).collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why threads can't be watched.
pub(super) fn why_not(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => " (allow it: sysctl kernel.perf_event_paranoid=2)",
        Some(libc::EMFILE) => " (RLIMIT_NOFILE: one for each thread and processor)",
        _ => "",
    };
    let why = crate::commit::Failure::from(io::Error::from(error.kind()));
    format!("no context switches are recorded: {why}{hint}")
}

/// Each thread takes a descriptor for each processor.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it can't be had, opening fails, and that's reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Writes into the trace what the functions are called.
fn describe(trace: &TraceFile) -> io::Result<()> {
    const PATH: &[u8] = b"[kernel]";
    trace.add(Module { number: KERNEL, build_id: b"", path: PATH })?;
    let functions = [(SCHEDULED, "linux:schedule"), (PREEMPTED, "linux:schedule (preempted)")];
    trace.add_all(functions.map(|(number, name)| Function {
        number,
        module: KERNEL,
        // They have no address, but each its own.
        address: number.into(),
        size: 1,
        name: name.as_bytes(),
    }))
}

impl State {
    /// Watches a thread, and all that it makes, on each processor.
    fn open(&mut self, thread: i32) -> io::Result<()> {
        // SAFETY: no pointer is passed.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let is_first = self.rings.is_empty();
        let mut at = 0;
        for processor in 0..usize::try_from(count).unwrap_or(1) {
            let mut builder = Builder::new(Software::DUMMY);
            builder.observe_pid(thread).one_cpu(processor).inherit(true).enabled(true);
            builder.context_switch(true).task(true).sample_id_all(true);
            builder.sample(SampleFlag::TID | SampleFlag::TIME).clockid(Clock::MONOTONIC_RAW);
            builder.exclude_kernel(true).exclude_hv(true);
            let alone = self.is_alone.then(|| builder.clone().inherit_thread(true).build());
            // Linux before 5.13 hands it down to processes as well.
            let counter = match alone.and_then(Result::ok).map_or_else(|| builder.build(), Ok) {
                Ok(counter) => counter,
                // It is switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => {
                    if is_first {
                        // The next thread has to find a ring of each processor.
                        self.rings.clear();
                    }
                    return Err(error);
                }
            };
            if is_first {
                self.rings.push(counter.sampled(RING)?);
            } else if let Some(ring) = self.rings.get(at) {
                // SAFETY: both descriptors are open.
                let result = unsafe {
                    // `PERF_EVENT_IOC_SET_OUTPUT`
                    const SET_OUTPUT: libc::c_ulong = 0x2405;
                    libc::ioctl(counter.as_raw_fd(), SET_OUTPUT as _, ring.as_raw_fd())
                };
                if result != 0 {
                    return Err(io::Error::last_os_error());
                }
                self.others.push(counter);
            }
            at += 1;
        }
        Ok(())
    }

    /// Reads the rings, and writes the times that have ended; all of them, or those of which nothing can come any more.
    fn drain(&mut self, is_last: bool) {
        // What a ring lacks of being full when there may have been no room for a record: more than the longest one has.
        const NEARLY: usize = 128;
        let now = clock::both(libc::CLOCK_MONOTONIC_RAW);
        // Since when something may be missing.
        let mut doubtful = u64::MAX;
        for ring in &mut self.rings {
            let (mut bytes, mut last) = (0, None);
            while let Some(record) = ring.next_record() {
                let found = event(record.ty(), record.misc(), &record.to_contiguous());
                bytes += HEAD + record.len();
                last = found.map(|event| event.time).or(last);
                match found.map(|event| event.said) {
                    Some(Said::On) => self.switches += 1,
                    Some(Said::New) => self.new_threads += 1,
                    _ => {}
                }
                self.early.extend(found);
            }
            if bytes + NEARLY > RING {
                doubtful = doubtful.min(last.unwrap_or(0));
            }
        }
        self.early.sort_by_key(|event| event.time);
        if doubtful != u64::MAX {
            self.early.retain(|event| event.time <= doubtful);
        }
        // The kernel takes the time before it writes a record, so one of the last moments may come yet.
        let end =
            if is_last || doubtful != u64::MAX { u64::MAX } else { self.reads[1].nanoseconds };
        let later = self.early.partition_point(|event| event.time <= end);
        let known: Vec<Event> = self.early.drain(..later).collect();
        let ended: Vec<Time> =
            known.into_iter().filter_map(|event| self.hear(event, now)).collect();
        self.times.write(&ended);
        if doubtful != u64::MAX {
            self.away.clear();
        }
        self.reads = [self.reads[1], now];
    }

    /// A thread that is away now won't be seen coming back: to the trace, that's when it ends.
    fn end(&mut self) {
        let away = std::mem::take(&mut self.away);
        let end = self.reads[1].ticks;
        let time = |(thread, away): (u32, Away)| {
            let ids = self.inner_ids((away.process, thread));
            Time { start: away.since, end, ids, is_preempted: away.is_preempted }
        };
        let times: Vec<Time> = away.into_iter().map(time).collect();
        self.times.write(&times);
    }

    /// Takes in what the kernel said: a time that has ended, if it's the end of one.
    fn hear(&mut self, event: Event, now: Moment) -> Option<Time> {
        let Event { time, ids, said } = event;
        let ticks = ticks_at(time, self.reads[0], now);
        match said {
            Said::Off { is_preempted } => {
                self.away.insert(ids.1, Away { process: ids.0, since: ticks, is_preempted });
            }
            Said::On => {
                let Away { since, is_preempted, .. } = self.away.remove(&ids.1)?;
                let ids = self.inner_ids(ids);
                return Some(Time { start: since, end: ticks, ids, is_preempted });
            }
            Said::New => {
                self.away.remove(&ids.1);
                if let Some(inner) = &mut self.inner {
                    inner.remove(&ids.1);
                }
            }
            Said::Lost(count) => {
                self.lost += count;
                self.away.clear();
            }
        }
        None
    }

    /// The numbers that a process and a thread have in their own namespace.
    fn inner_ids(&mut self, ids: (u32, u32)) -> (u32, u32) {
        let Some(inner) = &mut self.inner else { return ids };
        *inner.entry(ids.1).or_insert_with(|| {
            // It may have ended; then nobody can tell.
            let of =
                |id: u32| Tracee::new(id.cast_signed()).inner_id().map_or(0, i32::cast_unsigned);
            (of(ids.0), of(ids.1))
        })
    }
}

/// A time that a thread was off the processor, in ticks.
#[derive(Debug, Clone, Copy)]
struct Time {
    start: u64,
    end: u64,
    /// Process and thread.
    ids: (u32, u32),
    is_preempted: bool,
}

impl Time {
    fn record(&self) -> [u8; off_cpu::SIZE] {
        let function = if self.is_preempted { PREEMPTED } else { SCHEDULED };
        let mut record = [0; off_cpu::SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = record.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(off_cpu::START, &self.start.to_ne_bytes());
        put(off_cpu::END, &self.end.to_ne_bytes());
        put(off_cpu::PID, &self.ids.0.to_ne_bytes());
        put(off_cpu::TID, &self.ids.1.to_ne_bytes());
        put(off_cpu::FUNCTION, &function.to_ne_bytes());
        record
    }
}

impl Times {
    /// Writes some more. In a ring, the oldest make room for them.
    fn write(&mut self, times: &[Time]) {
        let mut rest = times;
        while !rest.is_empty() && !self.is_full {
            let room = layout::CHUNK_SIZE - self.used;
            let room = usize::try_from(room).unwrap_or(0) / off_cpu::SIZE;
            let Some(chunk) = self.chunks.back().copied().filter(|_| room > 0) else {
                self.is_full = self.next_chunk().is_none();
                continue;
            };
            let (now, later) = rest.split_at(room.min(rest.len()));
            let bytes: Vec<u8> = now.iter().flat_map(Time::record).collect();
            self.is_full = self.trace.fill(chunk, self.used, &bytes).is_err();
            self.used += bytes.len() as u64;
            rest = later;
        }
    }

    /// Nothing is in the trace any more, nor will be.
    fn forget(&mut self) {
        let nothing = vec![0; usize::try_from(layout::CHUNK_SIZE).unwrap_or(0)];
        for chunk in &self.chunks {
            // If it can't be written, that's said anyway.
            let _ = self.trace.fill(*chunk, 0, &nothing);
        }
        (self.is_full, self.is_forgotten) = (true, true);
    }

    /// Takes a chunk, or the oldest one again.
    fn next_chunk(&mut self) -> Option<()> {
        let has_room = self.chunks.len() < CHUNKS;
        let new = has_room.then(|| self.trace.take_chunk(chunk::OFF_CPU)).flatten();
        let chunk = if let Some(new) = new {
            new
        } else if self.trace.is_ring() {
            let oldest = self.chunks.pop_front()?;
            let nothing = vec![0; usize::try_from(layout::CHUNK_SIZE).ok()?];
            self.trace.fill(oldest, 0, &nothing).ok()?;
            oldest
        } else {
            return None;
        };
        self.chunks.push_back(chunk);
        self.used = 0;
        Some(())
    }
}

/// When a time of the kernel's is by the processor's clock, of which two readings are known.
fn ticks_at(time: u64, before: Moment, now: Moment) -> u64 {
    let ticks = i128::from(now.ticks) - i128::from(before.ticks);
    let nanoseconds = (i128::from(now.nanoseconds) - i128::from(before.nanoseconds)).max(1);
    let since = i128::from(time) - i128::from(before.nanoseconds);
    u64::try_from(i128::from(before.ticks) + since * ticks / nanoseconds).unwrap_or(0)
}

/// The contents of a record of the kernel's (`perf_event_open(2)`): after its own fields are process, thread
/// and time.
fn event(kind: u32, misc: u16, bytes: &[u8]) -> Option<Event> {
    const LOST: u32 = 2;
    const FORK: u32 = 7;
    const SWITCH: u32 = 14;
    const OUT: u16 = 1 << 13;
    const PREEMPT: u16 = 1 << 14;
    const LAST: usize = 16;
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let last = bytes.len().checked_sub(LAST)?;
    let (time, mut ids) = (long(last + 8)?, (word(last)?, word(last + 4)?));
    let said = match kind {
        SWITCH if misc & OUT != 0 => Said::Off { is_preempted: misc & PREEMPT != 0 },
        SWITCH => Said::On,
        FORK => {
            ids = (word(0)?, word(8)?);
            Said::New
        }
        LOST => Said::Lost(long(8)?),
        _ => return None,
    };
    Some(Event { time, ids, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_kernel_lie_between_what_was_read() {
        let at = |ticks, nanoseconds| Moment { ticks, nanoseconds };
        let (before, now) = (at(1_000, 50), at(4_000, 1_050));
        let table = [(50, 1_000), (1_050, 4_000), (550, 2_500), (40, 970), (1_060, 4_030)];
        for (time, ticks) in table {
            assert_eq!(ticks_at(time, before, now), ticks, "{time}");
        }
        // Read twice at one time, or with a clock that went back.
        assert_eq!(ticks_at(50, before, before), 1_000);
        assert_eq!(ticks_at(0, at(10, 50), at(20, 40)), 0);
    }

    #[test]
    fn readers_know_what_a_note_means() {
        use crate::trace::thrift::note_of_waits;
        use mcount_trace::layout::note;
        assert!(note_of_waits(&["read"], 1.0).starts_with(note::WAITS_GIVEN_UP));
    }

    #[test]
    fn records_of_the_kernel() {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let id = [7, 8, 9, 0];
        let at = |said| Some((9_u64, (7, 8), said));
        let table = [
            (14, 0, words(&id), at(Said::On)),
            (14, 1 << 13, words(&id), at(Said::Off { is_preempted: false })),
            (14, 3 << 13, words(&id), at(Said::Off { is_preempted: true })),
            (2, 0, words(&[&[1, 0, 5, 0], &id[..]].concat()), at(Said::Lost(5))),
            (
                7,
                0,
                words(&[&[21, 1, 22, 1, 3, 0], &id[..]].concat()),
                Some((9, (21, 22), Said::New)),
            ),
            (4, 0, words(&[&[21, 1, 22, 1, 3, 0], &id[..]].concat()), None),
            (14, 0, words(&id[..3]), None),
            (14, 0, Vec::new(), None),
        ];
        for (kind, misc, bytes, expected) in table {
            let found = event(kind, misc, &bytes);
            let found = found.map(|Event { time, ids, said }| (time, ids, said));
            assert_eq!(found, expected, "kind {kind}");
        }
    }
}
