//! When threads are off the processor, on its way into the trace.

use super::chunks::Chunks;
use super::chunks::record;
use super::fields::FIELD;
use crate::files;
use crate::trace::room::Shared;
use foldhash::HashMap;
use mcount_trace::layout::{chunk, header, kind, off_cpu};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Chunks that a trace has room for: a million times.
const CHUNKS: usize = 512;

/// The functions that say why. No function with a hook has such a number.
pub(super) const SCHEDULED: u32 = 0xff_fffe;
pub(super) const PREEMPTED: u32 = 0xff_ffff;

/// What waits for the processor again has been woken by this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waker {
    /// Process and thread; none if it was an interrupt.
    pub(super) ids: Option<(u32, u32)>,
    /// It's a thread of the program.
    pub(super) is_member: bool,
    /// Its name up to a zero.
    pub(super) name: [u8; 16],
    /// In ticks.
    pub(super) ticks: u64,
}

/// A thread that is off the processor.
#[derive(Debug, Clone, Copy)]
struct Away {
    process: u32,
    /// In ticks.
    since: u64,
    is_preempted: bool,
}

/// A time that a thread was off the processor, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    start: u64,
    end: u64,
    /// Process and thread.
    pub(super) ids: (u32, u32),
    is_preempted: bool,
    pub(super) waker: Option<Waker>,
}

impl Time {
    /// The same with what woke the thread.
    fn woken(&self, waker: &Waker, rate: u64) -> Vec<u8> {
        let nanoseconds = |ticks: u64| u128::from(ticks) * 1_000_000_000 / u128::from(rate.max(1));
        let late = nanoseconds(self.end.saturating_sub(waker.ticks));
        let end = waker.name.iter().position(|byte| *byte == 0).unwrap_or(waker.name.len());
        let name = waker.name.get(..end).unwrap_or_default();
        let mut values = Vec::with_capacity(64);
        let ids = waker.ids.unwrap_or_default();
        values.extend(ids.0.to_ne_bytes());
        values.extend(ids.1.to_ne_bytes());
        values.extend(u64::try_from(late).unwrap_or(u64::MAX).to_ne_bytes());
        values.extend(u16::try_from(name.len()).unwrap_or(0).to_ne_bytes());
        values.extend(name);
        record((self.start, self.end), self.ids, SCHEDULED, &values)
    }

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

/// The threads that are off the processor.
pub(super) struct Waits {
    away: HashMap<u32, Away>,
    records: Chunks,
    /// What woke threads since they were on the processor.
    wakers: HashMap<u32, Waker>,
    /// Times with what ended them.
    woken: Chunks,
    names: Names,
    trace: Arc<Shared>,
    /// How often threads came back so far.
    pub(super) switches: u64,
}

impl Waits {
    pub(super) fn new(trace: &Arc<Shared>) -> Self {
        let records = Chunks::new(trace, chunk::OFF_CPU, CHUNKS, trace.is_ring());
        let woken = Chunks::new(trace, chunk::WOKEN, CHUNKS, trace.is_ring());
        let (names, trace) = (Names::default(), Arc::clone(trace));
        let (away, wakers) = (HashMap::default(), HashMap::default());
        Self { away, records, wakers, woken, names, trace, switches: 0 }
    }

    /// A thread is taken off at that time, in ticks.
    pub(super) fn off(&mut self, ids: (u32, u32), ticks: u64, is_preempted: bool) {
        self.away.insert(ids.1, Away { process: ids.0, since: ticks, is_preempted });
    }

    /// It's put on again.
    pub(super) fn on(&mut self, ids: (u32, u32), ticks: u64) -> Option<Time> {
        let waker = self.wakers.remove(&ids.1);
        let Away { since, is_preempted, .. } = self.away.remove(&ids.1)?;
        let waker = waker.filter(|_| !is_preempted);
        Some(Time { start: since, end: ticks, ids, is_preempted, waker })
    }

    /// A thread is woken. It may be on its way off the processor. Of several, the last one counts: the others came too early.
    pub(super) fn woken(&mut self, thread: u32, mut waker: Waker) {
        waker.name = self.names.of(&waker);
        self.wakers.insert(thread, waker);
    }

    /// A thread has this name.
    pub(super) fn called(&mut self, thread: u32, name: [u8; 16]) {
        self.names.called(thread, name);
    }

    /// Is this thread off the processor?
    pub(super) fn has(&self, thread: u32) -> bool {
        self.away.contains_key(&thread)
    }

    /// A thread is new. It may have the number of one that has ended.
    pub(super) fn begun(&mut self, thread: u32) {
        self.away.remove(&thread);
        self.wakers.remove(&thread);
    }

    /// Which threads are off isn't known any more.
    pub(super) fn lose(&mut self) {
        self.away.clear();
        self.wakers.clear();
    }

    /// A thread that is away now won't be seen coming back: to the trace, that's at its end.
    pub(super) fn rest(&mut self, end: u64) -> Vec<Time> {
        let away = std::mem::take(&mut self.away).into_iter();
        let time = |(thread, away): (u32, Away)| Time {
            start: away.since,
            end,
            ids: (away.process, thread),
            is_preempted: away.is_preempted,
            waker: None,
        };
        away.map(time).collect()
    }

    pub(super) fn write(&mut self, times: &[Time]) {
        let rate = self.trace.field(header::TICKS_PER_SECOND).load(SeqCst);
        self.records.write(times.iter().filter(|time| time.waker.is_none()).map(Time::record));
        let woken = times.iter().filter_map(|time| Some(time.woken(&time.waker?, rate)));
        self.woken.write(woken);
    }

    /// Nothing is in the trace any more, nor will be: half of it would make waits look like work.
    pub(super) fn forget(&mut self) {
        self.records.forget();
        self.woken.forget();
    }

    /// Why later ones aren't in the trace, if there was no room.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.records.missing("a million").or_else(|| self.woken.missing("half a million"))
    }
}

/// The names of threads that wake others. Those of the program are known from when they were woken themselves.
#[derive(Default)]
struct Names {
    own: HashMap<u32, [u8; 16]>,
    others: HashMap<u32, (Instant, [u8; 16])>,
}

impl Names {
    /// More names aren't kept.
    const MOST: usize = 4096;

    /// A thread of the program has this name.
    fn called(&mut self, thread: u32, name: [u8; 16]) {
        if self.own.len() >= Self::MOST {
            self.own.clear();
        }
        self.own.insert(thread, name);
    }

    /// That of this one, as it was lately. It may have ended; then it has none.
    fn of(&mut self, waker: &Waker) -> [u8; 16] {
        /// How long a name is believed in.
        const LATELY: Duration = Duration::from_secs(1);
        let Some((_, thread)) = waker.ids else { return named(b"interrupt") };
        if let Some(name) = self.own.get(&thread).filter(|_| waker.is_member) {
            return *name;
        }
        if self.others.len() >= Self::MOST {
            self.others.clear();
        }
        let now = Instant::now();
        let read = || {
            let name = files::read_to_end(Path::new(&format!("/proc/{thread}/comm")));
            let name = name.unwrap_or_default();
            named(name.trim_ascii_end())
        };
        let (since, name) = self.others.entry(thread).or_insert_with(|| (now, read()));
        if now.duration_since(*since) > LATELY {
            (*since, *name) = (now, read());
        }
        *name
    }
}

/// A name, as the kernel has it: at most 15 bytes, and zeros.
fn named(text: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(text).for_each(|(to, from)| *to = *from);
    name
}

/// The values of a time that a thread was off the processor, as the metadata of a trace describes them.
pub(super) fn description() -> Vec<u8> {
    const NAME: &str = "woken";
    /// Bytes of the numbers.
    const SIZE: u16 = 16;
    let fields: [(u16, &str, &[u8]); 4] = [
        (0, "process", &[kind::UNSIGNED, 4]),
        (4, "thread", &[kind::UNSIGNED, 4]),
        (8, "late_ns", &[kind::UNSIGNED, 8]),
        (SIZE, "by", &[kind::WORDS]),
    ];
    let length = |text: &str| u8::try_from(text.len()).unwrap_or(0);
    let mut bytes = vec![FIELD, length(NAME)];
    bytes.extend(NAME.bytes());
    bytes.push(kind::STRUCTURE);
    bytes.extend(SIZE.to_ne_bytes());
    bytes.push(u8::try_from(fields.len()).unwrap_or(0));
    for (offset, name, kind) in fields {
        bytes.extend(offset.to_ne_bytes());
        bytes.push(length(name));
        bytes.extend(name.bytes());
        bytes.extend(kind);
    }
    bytes
}
