//! The rings into which the kernel writes: one for each processor, for all threads that are watched, and another one for system calls.
//!
//! The kernel needs 50 ns to 100 ns for each field of a sample, and programs wait for that. So system calls have as few as possible, and
//! records of a ring are alike.

use super::Wanted;
use super::chosen::Chosen;
use super::events::{self, Event, SAMPLE, Sample, Width};
use super::tracepoints::{Tracepoints, Waking};
#[cfg(not(can_hear))]
use super::unheard::{Builder, Clock, Counter, SampleFlag, Sampler, Software, Tracepoint};
use mcount_cpu::here::outside::SYSTEM_CALLS;
use nix::libc;
#[cfg(can_hear)]
use perf_event::events::{Software, Tracepoint};
#[cfg(can_hear)]
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Bytes of a processor's ring: half of what a user may have without privileges.
const RING: usize = 256 << 10;

/// The same where system calls are recorded, if that's allowed, and how much all of them may have.
const LARGE: usize = 8 << 20;
const ALL: usize = 64 << 20;

/// Of a ring that only tells of threads and what wakes them.
const MIDDLE: usize = 2 << 20;

/// Bytes that a record begins with: kind, flags and size (`struct perf_event_header`).
const HEAD: usize = 8;

/// What a ring lacks of being full when there may have been no room for a record: more than the longest one has. A tracepoint's may have 8192
/// bytes of its own (`PERF_MAX_TRACE_SIZE`).
const NEARLY: usize = 256;
const NEARLY_WITH_EVENTS: usize = NEARLY + 8192;

/// What is to be told of threads, besides when they're off the processor.
#[derive(Default)]
struct Sources {
    waking: Option<Waking>,
    /// It's told of all threads that wake others, by these counters. Otherwise only of those that are watched.
    of_all: bool,
    counters: BTreeSet<u64>,
    chosen: Chosen,
}

impl Sources {
    /// The numbers of all tracepoints.
    fn points(&self) -> BTreeSet<u16> {
        let waking = self.waking.iter().filter(|_| !self.of_all).map(|waking| waking.id);
        waking.chain(self.chosen.points.keys().copied()).collect()
    }

    /// Are there records that need more?
    fn width(&self) -> Width {
        let is_wide = self.waking.is_some() || !self.chosen.is_empty();
        if is_wide { Width::Wide } else { Width::Narrow }
    }

    /// Is a sample from a counter of all threads?
    fn is_of_all(&self, sample: &Sample<'_>) -> bool {
        self.of_all && self.counters.contains(&sample.counter)
    }

    /// Does a sample say what the one before it on this processor didn't? Only tracepoints of the scheduler may tell of a hit twice.
    fn is_new(&self, sample: &Sample<'_>, previous: &mut Previous) -> bool {
        let is_of_scheduler = |id: &u16| {
            self.waking.is_some_and(|waking| waking.id == *id)
                || self.chosen.points.get(id).is_some_and(|point| point.name.starts_with("sched:"))
        };
        if !sample.id().is_some_and(|id| is_of_scheduler(&id)) {
            previous.forget();
            return true;
        }
        self.is_of_all(sample) || !previous.is_again(sample)
    }

    /// Appends what a sample says.
    fn hear(&self, sample: &Sample<'_>, events: &mut Vec<Event>) {
        let is_of_all = self.is_of_all(sample);
        let waking = self.waking.as_ref().filter(|_| is_of_all == self.of_all);
        let waking = waking.and_then(|waking| sample.waking(waking));
        let is_chosen = !is_of_all && sample.id().is_some_and(|id| self.chosen.has(id));
        let chosen = is_chosen.then(|| sample.chosen());
        let all = [waking, chosen].into_iter().flatten();
        events.extend(all.map(|said| Event { time: sample.time, ids: sample.ids, said }));
    }
}

/// A ring of a processor.
struct Ring {
    sampler: Sampler,
    /// Bytes that it has.
    size: usize,
    previous: Previous,
}

impl Ring {
    /// Shows `each` the kind, the flags and the contents of what is in it; the time of an event is handed back. From what time on something
    /// may be missing, if so: where it lacks at most `nearly` bytes of being full.
    fn read(
        &mut self,
        nearly: usize,
        mut each: impl FnMut(&mut Previous, (u32, u16), &[u8]) -> Option<u64>,
    ) -> Option<u64> {
        let (mut bytes, mut last) = (0, None);
        while let Some(record) = self.sampler.next_record() {
            let head = (record.ty(), record.misc());
            last = each(&mut self.previous, head, &record.to_contiguous()).or(last);
            bytes += HEAD + record.len();
            if bytes >= 2 * self.size {
                // It's filled as fast as it's read.
                break;
            }
        }
        (bytes + nearly > self.size).then(|| last.unwrap_or(0))
    }
}

/// The last record of a tracepoint of the scheduler, if nothing came since. When one thread wakes another, and both are watched, some
/// kernels give it to both (`__perf_task`). A thread may also do the same again, and the kernel may have moved its counters to another
/// thread and back meanwhile. That takes longer.
#[derive(Default)]
struct Previous {
    ids: (u32, u32),
    counter: u64,
    time: u64,
    own: Vec<u8>,
}

impl Previous {
    /// Does a record say the previous one again, from the counter of another thread?
    fn is_again(&mut self, sample: &Sample<'_>) -> bool {
        /// In nanoseconds: an interrupt may come in between.
        const CLOSE: u64 = 100_000;
        let is_again = self.ids == sample.ids
            && self.own == sample.own
            && self.counter != sample.counter
            && sample.time.saturating_sub(self.time) < CLOSE
            && !self.own.is_empty();
        self.forget();
        if !is_again {
            self.own.extend(sample.own);
            (self.ids, self.counter, self.time) = (sample.ids, sample.counter, sample.time);
        }
        is_again
    }

    /// Something else came.
    fn forget(&mut self) {
        self.own.clear();
    }
}

/// The rings, and what writes into them.
pub(super) struct Rings {
    pub(super) wanted: Wanted,
    all: Vec<Ring>,
    /// Those of system calls.
    of_calls: Vec<Ring>,
    calls: Option<Tracepoints>,
    /// What else is counted: its records go to the rings.
    others: Vec<Counter>,
    /// Other processes that the program makes aren't watched.
    is_alone: bool,
    sources: Sources,
    /// The user may not have large ones.
    is_small: bool,
}

impl Rings {
    /// No ring yet.
    pub(super) fn new(is_alone: bool, wanted: Wanted) -> io::Result<Self> {
        let calls = wanted.calls.then(Tracepoints::find).transpose()?;
        let waking = wanted.wakers.then(Waking::find).flatten();
        let (of_all, counters) = (waking.is_some(), BTreeSet::new());
        let chosen = wanted.events.clone().unwrap_or_default();
        let sources = Sources { waking, of_all, counters, chosen };
        let (all, of_calls, others) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { wanted, all, of_calls, calls, others, is_alone, sources, is_small: false })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has the kernel tell of nothing more.
    pub(super) fn close(&mut self) {
        // What was handed down to new threads ends with what it came from.
        self.all.clear();
        self.of_calls.clear();
        self.others.clear();
    }

    /// What says that there is much to read; nothing where there never is.
    pub(super) fn ears(&self) -> Vec<RawFd> {
        let all = self.all.iter().filter(|_| self.sources.width() == Width::Wide);
        all.chain(&self.of_calls).map(|one| one.sampler.as_raw_fd()).collect()
    }

    /// Bytes that a ring is to have.
    fn size(&self, is_of_calls: bool) -> usize {
        let most = match self.sources.width() {
            _ if self.is_small => RING,
            _ if is_of_calls || !self.sources.chosen.is_empty() => LARGE,
            Width::Wide => MIDDLE,
            Width::Narrow => RING,
        };
        (ALL / processors().next_power_of_two()).clamp(RING, most)
    }

    /// Are those known that wake threads: those that are watched, and all others?
    pub(super) fn has_wakers(&self) -> (bool, bool) {
        (self.sources.waking.is_some(), self.sources.of_all)
    }

    /// Watches a thread, and all that it makes, on each processor. What wakes it is left out if that isn't allowed.
    pub(super) fn open(&mut self, thread: i32) -> io::Result<()> {
        let result = self.open_all(thread);
        if result.is_err() && self.all.is_empty() && self.sources.waking.take().is_some() {
            return self.open_all(thread);
        }
        result
    }

    fn open_all(&mut self, thread: i32) -> io::Result<()> {
        let is_first = self.all.is_empty();
        let mut at = 0;
        for processor in 0..processors() {
            match self.open_on(thread, processor, at, is_first) {
                Ok(()) => at += 1,
                // It is switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => {
                    if is_first {
                        // The next thread has to find a ring of each processor.
                        self.close();
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn open_on(
        &mut self,
        thread: i32,
        processor: usize,
        at: usize,
        is_first: bool,
    ) -> io::Result<()> {
        let is_wide = self.sources.width() == Width::Wide;
        let mut builder = Builder::new(Software::DUMMY);
        builder.observe_pid(thread).one_cpu(processor).inherit(true).enabled(true);
        builder.sample_id_all(true).sample(SampleFlag::TIME).clockid(Clock::MONOTONIC_RAW);
        builder.exclude_kernel(true).exclude_hv(true);
        self.open_calls(&builder, at)?;
        builder.context_switch(self.wanted.switches).task(true).sample(SampleFlag::TID);
        if is_wide {
            builder.sample(SampleFlag::RAW | SampleFlag::REGS_USER);
            builder.sample_regs_user(1 << SYSTEM_CALLS.instruction);
            builder.sample(SampleFlag::IP | SampleFlag::ADDR | SampleFlag::STREAM_ID);
            // Where programs begin is told, too.
            builder.comm(true).comm_exec(true);
        }
        if is_first {
            let ring = self.ring(&mut builder, false)?;
            self.all.push(ring);
            self.watch_wakers(&builder, at)?;
        } else {
            let counter = self.build(&builder)?;
            self.join(counter, descriptor(&self.all, at))?;
        }
        let mut events: Vec<Builder<'_>> = Vec::new();
        for id in self.sources.points() {
            let mut builder = builder.clone();
            builder.event(Tracepoint::with_id(id.into()));
            events.push(builder);
        }
        if self.sources.chosen.has_page_faults {
            let mut builder = builder.clone();
            builder.event(Software::PAGE_FAULTS);
            events.push(builder);
        }
        for mut builder in events {
            builder.sample_period(1).context_switch(false).task(false).comm(false).include_kernel();
            let counter = self.build(&builder)?;
            self.join(counter, descriptor(&self.all, at))?;
        }
        Ok(())
    }

    /// Watches the system calls of a thread on a processor. Where they go on is only asked for at the entry.
    fn open_calls(&mut self, common: &Builder<'_>, at: usize) -> io::Result<()> {
        let Some(calls) = self.calls else { return Ok(()) };
        let mut exit = common.clone();
        exit.sample(SampleFlag::RAW).sample_period(1).include_kernel();
        if calls.has_ids {
            exit.sample(SampleFlag::TID);
        }
        let mut enter = exit.clone();
        exit.event(Tracepoint::with_id(calls.exit.id.into()));
        enter.event(Tracepoint::with_id(calls.enter.id.into()));
        enter.sample(SampleFlag::REGS_USER).sample_regs_user(1 << SYSTEM_CALLS.instruction);
        if at == self.of_calls.len() {
            let ring = self.ring(&mut enter, true)?;
            self.of_calls.push(ring);
        } else {
            let counter = self.build(&enter)?;
            self.join(counter, descriptor(&self.of_calls, at))?;
        }
        let counter = self.build(&exit)?;
        self.join(counter, descriptor(&self.of_calls, at))
    }

    /// Watches all that wake threads on a processor, if that's wanted and allowed.
    fn watch_wakers(&mut self, builder: &Builder<'_>, at: usize) -> io::Result<()> {
        let Some(waking) = self.sources.waking.filter(|_| self.sources.of_all) else {
            return Ok(());
        };
        let mut builder = builder.clone();
        builder.event(Tracepoint::with_id(waking.id.into())).any_pid().inherit(false);
        builder.sample_period(1).context_switch(false).task(false).comm(false).include_kernel();
        match builder.build() {
            Ok(counter) => {
                self.sources.counters.insert(counter.id());
                self.join(counter, descriptor(&self.all, at))
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                self.sources.of_all = false;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A ring of a processor: a small one if large ones aren't allowed.
    fn ring(&mut self, builder: &mut Builder<'_>, is_of_calls: bool) -> io::Result<Ring> {
        loop {
            let size = self.size(is_of_calls);
            builder.wakeup_watermark(size / 4);
            match self.build(builder)?.sampled(size) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && size > RING => {
                    self.is_small = true;
                }
                result => {
                    let (sampler, previous) = (result?, Previous::default());
                    return Ok(Ring { sampler, size, previous });
                }
            }
        }
    }

    fn build(&self, builder: &Builder<'_>) -> io::Result<Counter> {
        let alone = self.is_alone.then(|| builder.clone().inherit_thread(true).build());
        // Linux before 5.13 hands it down to processes as well.
        alone.and_then(Result::ok).map_or_else(|| builder.build(), Ok)
    }

    /// Sends the records of a counter to a ring of its processor.
    fn join(&mut self, counter: Counter, ring: Option<RawFd>) -> io::Result<()> {
        /// `PERF_EVENT_IOC_SET_OUTPUT`
        const SET_OUTPUT: libc::c_ulong = 0x2405;
        let Some(ring) = ring else { return Ok(()) };
        // SAFETY: both descriptors are open.
        let result = unsafe { libc::ioctl(counter.as_raw_fd(), SET_OUTPUT as _, ring) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        self.others.push(counter);
        Ok(())
    }

    /// Appends what is in the rings to `events`. From what time on something may be missing, if so.
    pub(super) fn read(&mut self, events: &mut Vec<Event>) -> Option<u64> {
        let Self { all, of_calls, sources, calls, .. } = self;
        let width = sources.width();
        let nearly = if width == Width::Wide { NEARLY_WITH_EVENTS } else { NEARLY };
        let mut doubtful: Option<u64> = None;
        let mut doubt = |time: Option<u64>| {
            doubtful = [doubtful, time].into_iter().flatten().min();
        };
        for ring in all {
            doubt(ring.read(nearly, |previous, (kind, misc), bytes| {
                let known = events.len();
                if kind == SAMPLE {
                    let sample = Sample::read(bytes);
                    if let Some(sample) = sample.filter(|one| sources.is_new(one, previous)) {
                        sources.hear(&sample, events);
                    }
                } else {
                    previous.forget();
                    events.extend(events::event(kind, misc, bytes, width));
                }
                events.get(known..)?.last().map(|one| one.time)
            }));
        }
        let Some(calls) = calls else { return doubtful };
        for ring in of_calls {
            doubt(ring.read(NEARLY, |_, (kind, _), bytes| {
                let event = events::of_calls(kind, bytes, calls)?;
                let time = event.time;
                events.push(event);
                Some(time)
            }));
        }
        doubtful
    }
}

/// The descriptor of one of these rings.
fn descriptor(rings: &[Ring], at: usize) -> Option<RawFd> {
    rings.get(at).map(|ring| ring.sampler.as_raw_fd())
}

/// How many processors there may be.
pub(super) fn processors() -> usize {
    // SAFETY: no pointer is passed.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1).max(1)
}

/// Waits until there is much to read in the rings with these descriptors, which stay open, or for so long.
pub(super) fn wait(rings: &[RawFd], most: Duration) {
    if rings.is_empty() {
        return std::thread::sleep(most);
    }
    let one = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = rings.iter().map(one).collect();
    let count = libc::nfds_t::try_from(all.len()).unwrap_or(0);
    let most = libc::c_int::try_from(most.as_millis()).unwrap_or(20);
    // SAFETY: the array has so many elements.
    let result = unsafe { libc::poll(all.as_mut_ptr(), count, most) };
    // A process that has ended counts as much to read, for ever.
    if result < 0 || all.iter().any(|one| one.revents & !libc::POLLIN != 0) {
        std::thread::sleep(Duration::from_millis(4));
    }
}

#[cfg(test)]
mod tests {
    use super::super::chosen::Point;
    use super::*;

    /// What is said twice isn't what happened twice: a thread does the same again, and its counter was another thread's meanwhile.
    #[test]
    fn records_that_are_alike() {
        let (waking, other) = (5, 6);
        let point = |name: &str| Point { name: name.to_owned(), fields: Vec::new() };
        let points = [(waking, point("sched:sched_waking")), (other, point("irq:softirq_entry"))];
        let chosen = Chosen { points: points.into_iter().collect(), ..Chosen::default() };
        let sources = Sources { chosen, ..Sources::default() };
        let mut previous = Previous::default();
        let mut are_new = |id: u16, times_and_counters: [(u64, u64); 3]| {
            previous.forget();
            times_and_counters.map(|(time, counter)| {
                let own = [&id.to_ne_bytes()[..], &[0; 22]].concat();
                // The instruction, threads, time, address, counter and size; registers are behind it.
                let words = [0, 7 | 8 << 32, time, 0, counter].map(u64::to_ne_bytes).concat();
                let size = 24_u32.to_ne_bytes();
                let bytes = [&words[..], &size, &own, &[0; 16]].concat();
                let sample = Sample::read(&bytes).unwrap();
                assert_eq!((sample.time, sample.counter, sample.own), (time, counter, &own[..]));
                sources.is_new(&sample, &mut previous)
            })
        };
        assert_eq!(are_new(other, [(10, 1), (20, 2), (30, 1)]), [true; 3]);
        // One hit of a tracepoint, for two threads.
        assert_eq!(are_new(waking, [(10, 1), (20, 2), (30, 1)]), [true, false, true]);
        assert_eq!(are_new(waking, [(10, 1), (200_000, 2), (400_000, 1)]), [true; 3]);
        assert_eq!(are_new(waking, [(10, 1), (20, 1), (30, 1)]), [true; 3]);
    }
}
