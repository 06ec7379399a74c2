//! Records the kernel's side of a program's threads: when they are off the processor (`--context-switches`), their system calls
//! (`--system-calls`), and which functions of the kernel these call (`--kernel`).
//!
//! The kernel writes to rings of each processor (`perf_event_open(2)`). A record says that a thread of the program leaves the
//! processor or is back (`PERF_RECORD_SWITCH`), or that it enters or leaves a system call (the tracepoints `raw_syscalls`). A thread of
//! the recorder reads the rings and writes times to the trace. The kernel's times are `CLOCK_MONOTONIC_RAW`, the trace's are those of
//! the processor's clock. The recorder reads both now and then, and converts the times in between in proportion.
//!
//! Functions of the kernel come from another ring of each processor, that of an instance of the kernel's function tracer, with times of the
//! same clock. So all that the kernel says can be put in one order, and each of these calls into the system call that made it.

mod beginnings;
mod calls;
mod chosen;
mod chunks;
mod events;
mod fields;
mod format;
mod functions;
mod guard;
mod hear;
mod instance;
mod instants;
mod lost;
mod names;
mod ours;
mod pages;
mod processes;
mod reasons;
mod rings;
mod signatures;
mod symbols;
mod tracefs;
mod tracepoints;
#[cfg(not(can_hear))]
mod unheard;
mod waits;

use self::beginnings::Beginnings;
use self::calls::{Call, Calls};
pub(super) use self::chosen::Chosen;
use self::chunks::KERNEL;
use self::events::Event;
use self::functions::{Functions, Inner};
use self::hear::Ending;
pub(super) use self::instance::Instance;
use self::instants::{Instant, Instants};
use self::lost::Lost;
use self::ours::Ours;
use self::processes::Processes;
pub(super) use self::reasons::{why_not, why_nothing};
use self::rings::Rings;
use self::waits::{PREEMPTED, SCHEDULED, Time, Waits, Waker};
use super::clock;
use super::file::TraceFile;
use super::live::Tally;
use super::room::Shared;
use super::scope::{Scope, Switches};
use crate::words::counted;
use mcount_ptrace::Tracee;
use mcount_trace::{Function, Module, Moment, Signature};
use nix::libc;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the kernel is called among the modules.
pub(super) const MODULE: &str = "[kernel]";

/// How often the rings are read at least.
const OFTEN: Duration = Duration::from_millis(20);

/// The choice of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// When threads are off the processor.
    pub(super) switches: bool,
    /// What wakes them, if that's allowed.
    pub(super) wakers: bool,
    /// System calls.
    pub(super) calls: bool,
    /// Events.
    pub(super) events: Option<Chosen>,
}

impl Wanted {
    /// What the user asked for.
    ///
    /// # Errors
    ///
    /// There are no such events. The text says what to do.
    pub(super) fn of(scope: &Scope) -> io::Result<Self> {
        let events = Chosen::find(&scope.events)?;
        let calls = scope.system_calls;
        let switches = scope.switches != Switches::No;
        let is_asked = scope.switches == Switches::Wanted || calls || events.is_some();
        Ok(Self { switches, wakers: switches && is_asked, calls, events })
    }

    /// Is there something that can't be left out, if it can't be had?
    pub(super) fn is_needed(&self) -> bool {
        self.calls || self.events.is_some()
    }

    pub(super) fn is_nothing(&self) -> bool {
        !(self.switches || self.is_needed())
    }
}

/// Watches the threads of a program.
pub(super) struct Kernel {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

/// The numbers of process and thread in their own namespace, by thread.
type InnerIds = HashMap<u32, (u32, u32)>;

struct State {
    trace: Arc<Shared>,
    rings: Rings,
    /// The processor's clock and the kernel's, at the last two times that both were read.
    reads: [Moment; 2],
    /// Of times later than that.
    early: Vec<Event>,
    /// The numbers of processes and threads in their own namespace, if that's another one.
    inner: Option<InnerIds>,
    waits: Waits,
    ours: Ours,
    calls: Option<Calls>,
    /// Events.
    instants: Option<Instants>,
    /// The threads of the program, and the one of them that is about to execute it.
    members: BTreeSet<u32>,
    before: Option<u32>,
    processes: Processes,
    beginnings: Beginnings,
    /// What tells of functions of the kernel until that is stopped, and what is known of them.
    instance: Option<Instance>,
    functions: Option<Functions>,
    /// The last time, in ticks.
    last: u64,
    lost: Lost,
    lost_functions: Lost,
    /// How many more records of functions are missing.
    lost_somewhere: u64,
    new_threads: u64,
    /// Threads that have ended, of which functions of the kernel may still be heard.
    ending: VecDeque<Ending>,
    /// When recording began and ended, in nanoseconds. The kernel tells of what was before, and of what comes after until its rings are
    /// closed.
    from: u64,
    until: Option<u64>,
}

/// What's known of the threads before the kernel tells of them.
struct Setup {
    process: i32,
    inner: Option<InnerIds>,
    /// The thread that is about to execute the program.
    before: Option<u32>,
    instance: Option<Instance>,
    /// When recording begins, in nanoseconds.
    from: u64,
}

/// Times and calls that the trace gets next.
#[derive(Default)]
struct Heard {
    times: Vec<Time>,
    calls: Vec<Call>,
    /// Functions of the kernel that no system call has to wait for.
    functions: Vec<((u32, u32), Inner)>,
    instants: Vec<Instant>,
}

impl Kernel {
    /// Watches a process that has one thread, which is about to execute a program, and all that it makes, or its threads alone.
    pub(super) fn of_new(
        trace: &TraceFile,
        process: i32,
        is_alone: bool,
        wanted: Wanted,
        instance: Option<Instance>,
    ) -> io::Result<Self> {
        if wanted.is_needed() {
            raise_limit_of_files();
        }
        let rings = Rings::new(is_alone, wanted)?;
        let before = Some(process.cast_unsigned());
        let setup = Setup { process, inner: None, before, instance, from: 0 };
        Self::begin(trace, rings, setup, |watch| watch(process).map(|()| vec![process]))
    }

    /// Watches a process, and all that it makes. Nothing is recorded before [`Self::begin_now`].
    pub(super) fn of_running(
        trace: &TraceFile,
        process: i32,
        wanted: Wanted,
        instance: Option<Instance>,
    ) -> io::Result<Self> {
        raise_limit_of_files();
        let inner = Tracee::new(process).inner_id().ok().filter(|inner| *inner != process);
        let rings = Rings::new(false, wanted)?;
        let inner = inner.map(|_| HashMap::new());
        let setup = Setup { process, inner, before: None, instance, from: u64::MAX };
        Self::begin(trace, rings, setup, |watch| {
            // One may make another one before it's watched.
            let mut known = BTreeSet::new();
            loop {
                let mut is_done = true;
                for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
                    let thread = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                    if let Some(thread) = thread.filter(|thread| known.insert(*thread)) {
                        is_done = false;
                        match watch(thread) {
                            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                            result => result?,
                        }
                    }
                }
                if is_done {
                    return Ok(known.into_iter().collect());
                }
            }
        })
    }

    /// `open` watches threads, and hands out their numbers.
    fn begin(
        trace: &TraceFile,
        mut rings: Rings,
        setup: Setup,
        open: impl FnOnce(&mut dyn FnMut(i32) -> io::Result<()>) -> io::Result<Vec<i32>>,
    ) -> io::Result<Self> {
        let Setup { process, inner, before, mut instance, from } = setup;
        let shared = trace.shared();
        let reads = [clock::both(libc::CLOCK_MONOTONIC_RAW); 2];
        let threads = open(&mut |thread| {
            rings.open(thread)?;
            instance.as_ref().map_or(Ok(()), |instance| instance.follow(thread))
        })?;
        if rings.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        describe(trace, rings.wanted.switches)?;
        let members: BTreeSet<u32> = threads.into_iter().map(i32::cast_unsigned).collect();
        let functions = instance.as_ref().map(|instance| Functions::new(instance.depth));
        instance.as_mut().map_or(Ok(()), Instance::begin)?;
        let symbols = instance.as_mut().map(Instance::take_symbols);
        let calls = rings.wanted.calls.then(|| Calls::new(&shared, shared.ring, before, symbols));
        let events = rings.wanted.events.clone();
        let instants = events.map(|chosen| Instants::new(&shared, shared.ring, chosen));
        let state = State {
            rings,
            reads,
            early: Vec::new(),
            inner,
            waits: Waits::new(&shared),
            ours: Ours::default(),
            calls,
            instants,
            processes: Processes::new(process.cast_unsigned(), &members),
            members,
            before,
            beginnings: Beginnings::default(),
            instance,
            functions,
            last: 0,
            lost: Lost::default(),
            lost_functions: Lost::default(),
            lost_somewhere: 0,
            new_threads: 0,
            ending: VecDeque::new(),
            from,
            until: None,
            trace: shared,
        };
        Ok(Self::read_on(state))
    }

    /// Reads what the kernel tells until it's stopped.
    fn read_on(state: State) -> Self {
        let ears = state.rings.ears();
        let state = Arc::new(Mutex::new(state));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_reader, told) = (Arc::clone(&state), Arc::clone(&stop));
        let reader = thread::spawn(move || {
            while !told.load(SeqCst) {
                lock(&of_reader).drain(false);
                rings::wait(&ears, OFTEN);
            }
        });
        Self { state, stop, reader: Some(reader) }
    }

    /// Writes what is known until now.
    pub(super) fn write(&self) {
        lock(&self.state).drain(false);
    }

    /// How often threads left the processor and came back so far, and how many are new.
    pub(super) fn counts(&self) -> (u64, u64) {
        let mut state = lock(&self.state);
        state.drain(false);
        (state.waits.switches, state.new_threads)
    }

    /// System calls that have ended: by name, how many since the last time, in ticks, and how many in all.
    pub(super) fn take_calls(&self) -> Vec<(Arc<str>, Tally, u64)> {
        let mut state = lock(&self.state);
        state.drain(false);
        state.calls.as_mut().map(Calls::take).unwrap_or_default()
    }

    /// Forgets when threads were off the processor, and doesn't record it any more.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.waits.forget();
        if state.calls.is_none() && state.instants.is_none() {
            state.rings.close();
        }
    }

    /// From now on, system calls from this code of a process aren't the program's, and all others are.
    pub(super) fn know(&self, process: i32, ranges: Vec<Range<u64>>) {
        self.with_ours(|ours, now| ours.know(process.cast_unsigned(), now, ranges));
    }

    /// A program begins in this process: its dynamic linker is to load the agent, or has loaded it there.
    pub(super) fn begins(&self, process: i32, agent: Option<Range<u64>>) {
        let now = clock::both(libc::CLOCK_MONOTONIC_RAW).nanoseconds;
        let (mut state, process) = (lock(&self.state), process.cast_unsigned());
        match agent {
            None if state.calls.is_some() => state.beginnings.begin(process),
            None => {}
            Some(agent) => state.beginnings.loaded(process, now, agent),
        }
    }

    /// The recorder has a thread make system calls, or all threads if it's 0; or not any more.
    pub(super) fn borrow(&self, thread: i32, is_begin: bool) {
        let thread = thread.cast_unsigned();
        self.with_ours(
            |ours, now| {
                if is_begin { ours.begin(thread, now) } else { ours.end(thread, now) }
            },
        );
    }

    fn with_ours(&self, act: impl FnOnce(&mut Ours, u64)) {
        let mut state = lock(&self.state);
        if state.calls.is_some() || state.instants.is_some() {
            act(&mut state.ours, clock::both(libc::CLOCK_MONOTONIC_RAW).nanoseconds);
        }
    }

    /// What happens from now on is recorded.
    pub(super) fn begin_now(&self) {
        let mut state = lock(&self.state);
        state.from = clock::both(libc::CLOCK_MONOTONIC_RAW).nanoseconds;
    }

    /// What happens from now on isn't recorded.
    pub(super) fn end_now(&self) {
        // The reader may have it for a while.
        let mut state = lock(&self.state);
        let now = clock::both(libc::CLOCK_MONOTONIC_RAW).nanoseconds;
        state.until.get_or_insert(now);
    }

    /// Reads what there still is.
    fn stop(&mut self) {
        self.end_now();
        self.stop.store(true, SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
            let mut state = lock(&self.state);
            state.instance.iter().for_each(Instance::pause);
            state.drain(true);
        }
    }

    /// Writes the last ones; how many system calls there are, and what is missing, a line each.
    pub(super) fn end(mut self) -> (u64, Vec<String>) {
        self.stop();
        let mut state = lock(&self.state);
        // That takes a while.
        state.rings.close();
        if let Some(instance) = state.instance.take() {
            state.lost_somewhere = instance.missed_else();
        }
        state.end();
        let lost = state.lost_lines();
        let crossing = state.functions.as_ref().and_then(Functions::note);
        let no_waits = state
            .waits
            .missing()
            .map(|why| format!("later context switches aren't in the trace: it has {why}"));
        let calls = state.calls.as_ref();
        let no_calls = calls
            .and_then(Calls::missing)
            .map(|why| format!("later system calls aren't in the trace: it has {why}"));
        let instants = state.instants.as_ref();
        let no_events = instants
            .and_then(Instants::missing)
            .map(|why| format!("later events aren't in the trace: it has {why}"));
        let more = no_waits.into_iter().chain(no_calls).chain(no_events).chain(crossing);
        let counts =
            [calls.map_or((0, 0), Calls::counts), instants.map_or((0, 0), Instants::counts)];
        let older = older(counts.map(|(_, dropped)| dropped));
        let notes = lost.into_iter().chain(more).chain(older).chain(state.no_wakers()).collect();
        (counts.iter().map(|(count, _)| count).sum(), notes)
    }
}

/// What is said of so many system calls and events that newer ones have taken the place of.
fn older(dropped: [u64; 2]) -> impl Iterator<Item = String> {
    let what = [
        ["older system call was", "older system calls were"],
        ["older event was", "older events were"],
    ];
    let all = dropped.into_iter().zip(what).filter(|(count, _)| *count > 0);
    all.map(|(count, [one, many])| format!("{} dropped for newer ones", counted(count, one, many)))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Can this be recorded of this process? If it can't, the error says why, and what to do.
pub(super) fn check(process: i32, wanted: &Wanted) -> io::Result<()> {
    if !wanted.is_needed() {
        return Ok(());
    }
    raise_limit_of_files();
    let opened = Rings::new(false, wanted.clone()).and_then(|mut rings| rings.open(process));
    opened.map_err(|error| io::Error::other(why_nothing(&error, wanted)))
}

/// Each thread takes a descriptor for each processor, and one more for each event.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it can't be had, opening fails, and that's reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Writes into the trace what the functions are called.
fn describe(trace: &TraceFile, has_switches: bool) -> io::Result<()> {
    trace.add(Module { number: KERNEL, build_id: b"", path: MODULE.as_bytes() })?;
    if !has_switches {
        return Ok(());
    }
    trace.add(Signature { function: SCHEDULED, values: &waits::description() })?;
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
    /// Reads the rings, and writes what has ended; all of it, or that of which nothing can come any more.
    fn drain(&mut self, is_last: bool) {
        let now = clock::both(libc::CLOCK_MONOTONIC_RAW);
        // Since when something may be missing.
        let doubtful = self.rings.read(&mut self.early);
        if let Some(instance) = &mut self.instance {
            instance.read(&mut self.early);
        }
        let (from, until) = (self.from, self.until.unwrap_or(u64::MAX));
        self.early.retain(|event| event.is_in(from, until));
        self.early.sort_by_key(Event::place);
        if let Some(doubtful) = doubtful {
            let all = self.early.len();
            self.early.retain(|event| event.time <= doubtful);
            let ticks = ticks_at(doubtful, self.reads[0], now);
            self.lost.add((all - self.early.len()) as u64, ticks);
        }
        // The kernel takes the time before it writes a record, so one of the last moments may come yet.
        let end = if is_last || doubtful.is_some() { u64::MAX } else { self.reads[1].nanoseconds };
        let later = self.early.partition_point(|event| event.time <= end);
        let mut early = std::mem::take(&mut self.early);
        let mut heard = Heard::default();
        for event in early.drain(..later) {
            self.hear(event, now, &mut heard);
        }
        self.early = early;
        self.record(heard, end);
        if let Some(doubtful) = doubtful {
            let forgotten = self.forget_open();
            self.lost.add(forgotten, ticks_at(doubtful, self.reads[0], now));
        }
        self.ours.forget(self.reads[0].nanoseconds);
        self.reads = [self.reads[1], now];
    }

    /// What threads do isn't known any more; how many records that were read are of no use.
    fn forget_open(&mut self) -> u64 {
        self.waits.lose();
        if let Some(functions) = &mut self.functions {
            functions.lose();
        }
        self.calls.as_mut().map_or(0, Calls::lose)
    }

    /// What hasn't ended.
    fn end(&mut self) {
        let mut heard = Heard::default();
        self.end_before(u64::MAX, &mut heard);
        let rest = self.functions.as_mut().map(Functions::rest).unwrap_or_default();
        for (thread, inner) in rest {
            self.called(thread, inner, &mut heard);
        }
        let [before, now] = self.reads;
        let end = self.until.map_or_else(clock::clock, |until| ticks_at(until, before, now));
        heard.times = self.waits.rest(end);
        heard.calls.extend(self.calls.as_mut().map(Calls::rest).unwrap_or_default());
        self.record(heard, u64::MAX);
        let rest = self.beginnings.rest();
        if let Some(calls) = &mut self.calls {
            calls.write(&rest);
        }
    }

    /// Writes it, with the numbers that threads have where they are. All that ended until `known`, in nanoseconds, is known.
    fn record(&mut self, mut heard: Heard, known: u64) {
        for time in &mut heard.times {
            time.ids = self.inner_ids(time.ids);
            if let Some(Waker { ids: Some(ids), is_member: true, .. }) = &mut time.waker {
                *ids = self.inner_ids(*ids);
            }
        }
        for call in &mut heard.calls {
            call.ids = self.inner_ids(call.ids);
        }
        self.waits.write(&heard.times);
        if let Some(calls) = &mut self.calls {
            let ready = self.beginnings.hold_all(heard.calls);
            calls.write(&self.beginnings.take(known));
            calls.write(&ready);
        }
        for (ids, _) in &mut heard.functions {
            *ids = self.inner_ids(*ids);
        }
        if let Some(calls) = &mut self.calls {
            calls.write_functions(heard.functions.iter().map(|(ids, inner)| (*ids, inner)));
        }
        for instant in &mut heard.instants {
            instant.ids = self.inner_ids(instant.ids);
        }
        if let Some(instants) = &mut self.instants {
            instants.write(&heard.instants);
        }
    }
}

/// When a time of the kernel's is by the processor's clock, of which two readings are known.
fn ticks_at(time: u64, before: Moment, now: Moment) -> u64 {
    let ticks = i128::from(now.ticks) - i128::from(before.ticks);
    let nanoseconds = (i128::from(now.nanoseconds) - i128::from(before.nanoseconds)).max(1);
    let since = i128::from(time) - i128::from(before.nanoseconds);
    u64::try_from(i128::from(before.ticks) + since * ticks / nanoseconds).unwrap_or(0)
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
}
