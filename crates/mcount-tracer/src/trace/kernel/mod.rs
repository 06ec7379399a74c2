//! Records the kernel's side of a program's threads: when they are off the processor (`--context-switches`), their system calls
//! (`--system-calls`), and which functions of the kernel these call (`--kernel`).
//!
//! The kernel writes to one ring for each processor (`perf_event_open(2)`). A record says that a thread of the program leaves the
//! processor or is back (`PERF_RECORD_SWITCH`), or that it enters or leaves a system call (the tracepoints `raw_syscalls`). A thread of
//! the recorder reads the rings and writes times to the trace. The kernel's times are `CLOCK_MONOTONIC_RAW`, the trace's are those of
//! the processor's clock. The recorder reads both now and then, and converts the times in between in proportion.
//!
//! Functions of the kernel come from another ring of each processor, that of an instance of the kernel's function tracer, with times of the
//! same clock. So all that the kernel says can be put in one order, and each of these calls into the system call that made it.

mod beginnings;
mod calls;
mod chunks;
mod events;
mod format;
mod functions;
mod guard;
mod instance;
mod lost;
mod names;
mod ours;
mod pages;
mod reasons;
mod rings;
mod signatures;
mod symbols;
mod tracefs;
mod tracepoints;
mod waits;

use self::beginnings::Beginnings;
use self::calls::{Call, Calls, KERNEL};
use self::events::{Event, Said};
use self::functions::{Functions, Inner};
pub(super) use self::instance::Instance;
use self::lost::Lost;
pub(super) use self::reasons::{why_no_calls, why_not};
use self::rings::Rings;
use self::waits::{PREEMPTED, SCHEDULED, Time, Waits};
use super::clock;
use super::file::TraceFile;
use super::room::Shared;
use mcount_ptrace::Tracee;
use mcount_trace::layout::header;
use mcount_trace::{Function, Module, Moment};
use nix::libc;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the rings are read at least.
const OFTEN: Duration = Duration::from_millis(20);

/// The choice of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// When threads are off the processor.
    pub(super) switches: bool,
    /// System calls.
    pub(super) calls: bool,
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
    calls: Option<Calls>,
    beginnings: Beginnings,
    /// What tells of functions of the kernel until that is stopped, and what is known of them.
    instance: Option<Instance>,
    functions: Option<Functions>,
    /// The last time, in ticks.
    last: u64,
    lost: Lost,
    lost_functions: Lost,
    new_threads: u64,
}

/// What's known of the threads before the kernel tells of them.
struct Setup {
    process: i32,
    inner: Option<InnerIds>,
    /// The thread that is about to execute the program.
    before: Option<u32>,
    instance: Option<Instance>,
}

/// Times and calls that the trace gets next.
#[derive(Default)]
struct Heard {
    times: Vec<Time>,
    calls: Vec<Call>,
    /// Functions of the kernel that no system call has to wait for.
    functions: Vec<((u32, u32), Inner)>,
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
        if wanted.calls {
            raise_limit_of_files();
        }
        let rings = Rings::new(is_alone, wanted)?;
        let before = Some(process.cast_unsigned());
        let setup = Setup { process, inner: None, before, instance };
        Self::begin(trace, rings, setup, |watch| watch(process).map(|()| vec![process]))
    }

    /// Watches a process, and all that it makes.
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
        let setup = Setup { process, inner, before: None, instance };
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
        let Setup { process, inner, before, mut instance } = setup;
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
        let functions = instance.as_ref().map(|instance| {
            let threads = threads.into_iter().map(i32::cast_unsigned);
            Functions::new(instance.depth, process.cast_unsigned(), threads)
        });
        instance.as_mut().map_or(Ok(()), Instance::begin)?;
        let symbols = instance.as_mut().map(Instance::take_symbols);
        let calls = rings.wanted.calls.then(|| Calls::new(&shared, shared.ring, before, symbols));
        let ears = rings.ears();
        let state = State {
            rings,
            reads,
            early: Vec::new(),
            inner,
            waits: Waits::new(&shared),
            calls,
            beginnings: Beginnings::default(),
            instance,
            functions,
            last: 0,
            lost: Lost::default(),
            lost_functions: Lost::default(),
            new_threads: 0,
            trace: shared,
        };
        let state = Arc::new(Mutex::new(state));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_reader, told) = (Arc::clone(&state), Arc::clone(&stop));
        let reader = thread::spawn(move || {
            while !told.load(SeqCst) {
                lock(&of_reader).drain(false);
                rings::wait(&ears, OFTEN);
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
        (state.waits.switches, state.new_threads)
    }

    /// Forgets when threads were off the processor, and doesn't record it any more.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.waits.forget();
        if state.calls.is_none() {
            state.rings.close();
        }
    }

    /// From now on, system calls from this code of a process aren't the program's, and all others are.
    pub(super) fn know(&self, process: i32, ranges: Vec<Range<u64>>) {
        self.with_calls(|calls, now| calls.ours.know(process.cast_unsigned(), now, ranges));
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
        self.with_calls(|calls, now| {
            if is_begin { calls.ours.begin(thread, now) } else { calls.ours.end(thread, now) }
        });
    }

    fn with_calls(&self, act: impl FnOnce(&mut Calls, u64)) {
        if let Some(calls) = &mut lock(&self.state).calls {
            act(calls, clock::both(libc::CLOCK_MONOTONIC_RAW).nanoseconds);
        }
    }

    /// Has the kernel tell of nothing more.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
            let mut state = lock(&self.state);
            state.instance.iter().for_each(Instance::pause);
            state.drain(true);
            state.rings.close();
            if let Some(instance) = state.instance.take() {
                state.lost_functions.add(instance.missed_else(), clock::clock());
            }
        }
    }

    /// Writes the last ones; how many system calls there are, and what is missing, a line each.
    pub(super) fn end(mut self) -> (u64, Vec<String>) {
        self.stop();
        let mut state = lock(&self.state);
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
        let notes = lost.into_iter().chain(no_waits).chain(no_calls).chain(crossing).collect();
        (calls.map_or(0, Calls::count), notes)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Can system calls of this process be recorded? If they can't, the error says why, and what to do.
pub(super) fn check_calls(process: i32) -> io::Result<()> {
    let wanted = Wanted { switches: false, calls: true };
    let opened = Rings::new(false, wanted).and_then(|mut rings| rings.open(process));
    opened.map_err(|error| io::Error::other(why_no_calls(&error)))
}

/// Each thread takes a descriptor for each processor, or three.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it can't be had, opening fails, and that's reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Writes into the trace what the functions are called.
fn describe(trace: &TraceFile, has_switches: bool) -> io::Result<()> {
    const PATH: &[u8] = b"[kernel]";
    trace.add(Module { number: KERNEL, build_id: b"", path: PATH })?;
    if !has_switches {
        return Ok(());
    }
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
        let known: Vec<Event> = self.early.drain(..later).collect();
        let mut heard = Heard::default();
        for event in known {
            self.hear(event, now, &mut heard);
        }
        self.record(heard, end);
        if doubtful.is_some() {
            self.forget_open();
        }
        if let Some(calls) = &mut self.calls {
            calls.ours.forget(self.reads[0].nanoseconds);
        }
        self.reads = [self.reads[1], now];
    }

    /// What threads do isn't known any more.
    fn forget_open(&mut self) {
        self.waits.lose();
        if let Some(calls) = &mut self.calls {
            calls.lose();
        }
        if let Some(functions) = &mut self.functions {
            functions.lose();
        }
    }

    /// What hasn't ended.
    fn end(&mut self) {
        let mut heard = Heard::default();
        let rest = self.functions.as_mut().map(Functions::rest).unwrap_or_default();
        for (thread, inner) in rest {
            self.called(thread, inner, &mut heard);
        }
        heard.times = self.waits.rest(clock::clock());
        heard.calls = self.calls.as_mut().map(Calls::rest).unwrap_or_default();
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
        }
        for call in &mut heard.calls {
            call.ids = self.inner_ids(call.ids);
        }
        self.waits.write(&heard.times);
        if let Some(calls) = &mut self.calls {
            let held = heard.calls.into_iter().filter_map(|call| self.beginnings.hold(call));
            let ready: Vec<Call> = held.collect();
            calls.write(&self.beginnings.take(known));
            calls.write(&ready);
        }
        for (ids, _) in &mut heard.functions {
            *ids = self.inner_ids(*ids);
        }
        if let Some(calls) = &mut self.calls {
            calls.write_functions(heard.functions.iter().map(|(ids, inner)| (*ids, inner)));
        }
    }

    /// When that was, in ticks: not before what came earlier.
    fn ticks_of(&mut self, time: u64, now: Moment) -> u64 {
        /// Two readings of both clocks differ by less.
        const CLOSE: u64 = 100_000;
        let ticks = ticks_at(time, self.reads[0], now);
        let is_close = ticks < self.last && self.last - ticks < CLOSE;
        self.last = if is_close { self.last } else { ticks };
        self.last
    }

    /// A thread has called functions of the kernel. Where its system call isn't known to be the program's yet, they wait for that.
    fn called(&mut self, thread: u32, all: impl IntoIterator<Item = Inner>, heard: &mut Heard) {
        let Some(calls) = &mut self.calls else { return };
        // Threads that aren't known aren't followed.
        let process = self.functions.as_ref().and_then(|functions| functions.process(thread));
        let Some(process) = process else { return };
        let ready = all.into_iter().filter_map(|inner| calls.inside(thread, inner));
        heard.functions.extend(ready.map(|inner| ((process, thread), inner)));
    }

    /// Takes in what the kernel said of one of its functions.
    fn hear_function(&mut self, thread: u32, ticks: u64, said: Said, heard: &mut Heard) {
        let is_away = self.waits.has(thread);
        let Some(functions) = &mut self.functions else { return };
        let call = match said {
            Said::Into(address) => {
                functions.enter(thread, address, ticks, is_away);
                None
            }
            Said::OutOf(address) => functions.leave(thread, address, ticks, is_away),
            Said::Through(address) => Some(Functions::through(address, ticks)),
            _ => None,
        };
        self.called(thread, call, heard);
    }

    /// Takes in what threads of the program do that matters for functions of the kernel.
    fn follow_functions(&mut self, ids: (u32, u32), ticks: u64, said: Said, heard: &mut Heard) {
        let Some(functions) = &mut self.functions else { return };
        match said {
            Said::New { .. } => functions.begun(ids),
            Said::Enter(_) | Said::Exit { .. } => functions.cross(ids.1),
            Said::Ended => {
                let inner = functions.ended(ids.1, ticks);
                self.called(ids.1, inner, heard);
                if let Some(functions) = &mut self.functions {
                    functions.forget(ids.1);
                }
            }
            _ => {}
        }
    }

    /// Takes in what the kernel said.
    fn hear(&mut self, event: Event, now: Moment, heard: &mut Heard) {
        let Event { time, ids, said } = event;
        let ticks = self.ticks_of(time, now);
        self.follow_functions(ids, ticks, said, heard);
        match said {
            Said::Off { is_preempted } => self.waits.off(ids, ticks, is_preempted),
            Said::On => {
                self.waits.switches += 1;
                heard.times.extend(self.waits.on(ids, ticks));
            }
            Said::New { maker } => {
                self.new_threads += 1;
                self.waits.begun(ids.1);
                if let Some(calls) = &mut self.calls {
                    calls.begun(ids, maker, time);
                }
                if let Some(inner) = &mut self.inner {
                    inner.remove(&ids.1);
                }
            }
            Said::Lost(count) => {
                self.lost.add(count, ticks);
                self.forget_open();
            }
            Said::Missed(count) => {
                self.lost_functions.add(count, ticks);
                self.functions.iter_mut().for_each(Functions::lose);
            }
            Said::Into(_) | Said::OutOf(_) | Said::Through(_) => {
                self.hear_function(ids.1, ticks, said, heard);
            }
            said => {
                if let Some(calls) = &mut self.calls {
                    heard.calls.extend(call(calls, ids, (time, ticks), said));
                }
            }
        }
    }

    /// What is said of lost records.
    fn lost_lines(&self) -> Vec<String> {
        let field = |offset: usize| self.trace.field(offset).load(SeqCst);
        let (start, rate) = (field(header::START_TICKS), field(header::TICKS_PER_SECOND).max(1));
        let when = |lost: &Lost| lost.when(start, rate);
        let of_functions = when(&self.lost_functions).map(|(count, when)| {
            format!("kernel functions came too fast: the trace lacks {count} of the kernel's records {when}; choose fewer functions with --kernel")
        });
        let others = when(&self.lost).map(|(count, when)| match &self.calls {
            None => format!("{count} context switches came too fast, and aren't in the trace"),
            Some(_) => format!(
                "system calls came too fast: the trace lacks {count} of the kernel's records {when}"
            ),
        });
        others.into_iter().chain(of_functions).collect()
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

/// Takes in what the kernel said of a system call, or of the end of a thread: the call that has ended, if one has.
fn call(calls: &mut Calls, ids: (u32, u32), (time, ticks): (u64, u64), said: Said) -> Option<Call> {
    match said {
        Said::Enter(entry) => {
            calls.enter(ids, (time, ticks), entry);
            None
        }
        Said::Exit { number, result } => calls.exit(ids, ticks, (number, result)),
        Said::Ended => calls.ended(ids, ticks),
        _ => None,
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
