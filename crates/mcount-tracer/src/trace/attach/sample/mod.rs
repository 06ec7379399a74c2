//! `mcount sample`: hooks are armed in short windows at random moments; between them the program runs as if nobody were there.
//!
//! All hooks have their stubs from the start on, and become idle or armed by one store each, while all threads run
//! ([`super::sites`]). A call that begins in a window is recorded when it returns, whether hooks are armed then or not. What the calls say is another one's
//! matter, the [`Observer`]'s: here it's decided when windows are, and which functions they have.

mod began;
mod callers;
mod counts;
mod groups;
mod hooks;
mod idle;
mod random;
mod steer;
mod watch;
mod window;

use self::began::Began;
pub use self::callers::Caller;
use self::callers::Callers;
use self::groups::Groups;
use self::hooks::Hooks;
pub use self::idle::IDLE_PROBE;
use self::idle::Idle;
pub use self::steer::Thinned;
use self::steer::{Drawn, Steering};
use self::watch::{FLOOD, Watch};
use self::window::{Armed, Rest, Window};
use super::block::processes_with;
use super::worker::{Worker, handle, inner_id};
use crate::files;
use crate::trace::budget::{self, Budget};
use crate::trace::modules::Module;
use crate::trace::save;
use crate::words::hex;
use mcount_trace::{Ended, Follower, Trace};
use nix::libc;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What is to be sampled, and for whom.
pub struct Sampling {
    /// The part of the program's processor time that it may cost, with what this process takes of one processor.
    pub cost: f64,
    /// What the random moments come from.
    pub seed: u64,
    /// Functions that are called seldom are armed all the time, so that none of their slow calls is missed.
    pub has_watch: bool,
    /// After so long a sample is complete, and another begins.
    pub period: Option<Duration>,
    /// Takes the calls.
    pub observer: Box<dyn Observer>,
}

/// A function, as it's called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The number that calls have.
    pub number: u32,
    /// Its name, demangled.
    pub function: Arc<str>,
    /// The path of its module.
    pub module: Arc<str>,
    /// The build ID of the module, in hexadecimal digits; empty if it has none.
    pub build: Arc<str>,
    /// The number of its group. A window has one of the groups.
    pub group: u32,
    /// It has a probe, which costs two jumps while it's idle.
    pub is_probe: bool,
}

/// What is sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The functions, in their groups.
    pub functions: Vec<Named>,
    /// The paths of all modules, as [`Caller::Module`] counts them.
    pub modules: Vec<String>,
    /// It's known of all calls who made them.
    pub has_callers: bool,
    /// What recording one call costs the program, in seconds.
    pub cost: f64,
}

/// A function that isn't armed in every window, as it's called too often for that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lot {
    /// Its number.
    pub function: u32,
    /// How likely it was to be armed in this window.
    pub chance: f64,
    /// It was.
    pub is_armed: bool,
}

/// A window that has closed. All functions of its group were armed in it, but for those whose lot says otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Opened {
    /// Ticks when its hooks were armed.
    pub armed: u64,
    /// Ticks when it began.
    pub start: u64,
    /// How many ticks it was planned to take, which it did, or more.
    pub length: u64,
    /// Ticks in a second.
    pub rate: u64,
    /// The mean of the gap before it, in seconds.
    pub gap: f64,
    /// The number of its group, which was drawn among all of them.
    pub group: u32,
    /// How likely this group was to be drawn.
    pub odds: f64,
    /// Functions of the group that aren't armed in every window of it.
    pub lots: Vec<Lot>,
    /// Only some of the functions were armed.
    pub thinned: Option<Thinned>,
    /// How likely each function was to be armed, before it was drawn whether only some are.
    pub likely: f64,
    /// Its functions are called so often that recording takes much of the program's time.
    pub is_busy: bool,
    /// What was before it, if there are witnesses.
    pub quiet: Option<Quiet>,
    /// Seconds of processor time that the program used while hooks were armed.
    pub inside: f64,
    /// Ticks from which on it was measured what the program used: its beginning, or some other time when hooks were armed.
    pub measured: u64,
    /// Seconds of processor time that the program used from then on.
    pub used: f64,
    /// Seconds that hooks were armed from then on.
    pub elapsed: f64,
}

/// A time right before a window, in which only some functions were armed: witnesses, which tell how much slower the program is in the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    /// Ticks when it began.
    pub start: u64,
    /// Ticks when it ended.
    pub end: u64,
    /// The witnesses.
    pub witnesses: Vec<u32>,
}

/// How far the sample has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The path of the program.
    pub program: String,
    /// Its build ID, in hexadecimal digits; empty if it has none.
    pub build: Arc<str>,
    /// The process.
    pub process: i32,
    /// When it began.
    pub began: SystemTime,
    /// For how long.
    pub running: Duration,
    /// Ticks when it began, and how many there are in a second.
    pub ticks: (u64, u64),
    /// Seconds of processor time that the program used outside windows, and how long that was.
    pub outside: (f64, f64),
    /// The part of the program's time that recording took.
    pub recording: f64,
    /// The part of one processor's time that this process took.
    pub own: f64,
    /// Calls that were written over before they were read.
    pub missed: u64,
    /// The part of the time in which its threads waited for a processor, of all in which they were ready to run.
    pub waiting: f64,
}

/// Takes what windows have.
pub trait Observer {
    /// It begins.
    fn begin(&mut self, sampled: Sampled);
    /// Functions have other groups than it was said. There has been no window yet.
    fn regroup(&mut self, group_of: &dyn Fn(u32) -> u32);
    /// Functions that are armed all the time, and have been since it began, have these groups when they no longer are.
    fn moved(&mut self, groups: &BTreeMap<u32, u32>);
    /// A window has closed.
    fn open(&mut self, window: Opened);
    /// A call has ended that may have begun in a window, and who made it, if that's known. Those of a thread come in the order of their ends.
    fn call(&mut self, call: &Ended, caller: Option<Caller>);
    /// From this time on, in ticks, these functions are armed all the time; without one, they're called too often for that.
    fn watch(&mut self, functions: &BTreeSet<u32>, since: Option<u64>);
    /// The probes of these functions cost nothing while they're idle, from now on.
    fn freed(&mut self, functions: &BTreeSet<u32>);
    /// These functions aren't sampled any more. Their probes, that of the first one most, would take this part of the program's time while they're
    /// idle.
    fn left_out(&mut self, functions: &[u32], cost: f64);
    /// What is known of processes, threads and modules. The next thing is [`Observer::complete`].
    fn describe(&mut self, trace: &Trace<'_>, progress: &Progress);
    /// A call of a function that began at this time hadn't ended at the end.
    fn unfinished(&mut self, function: u32, start: u64);
    /// What recording a call costs the program, in seconds, as far as windows have shown.
    fn cost(&self) -> f64;
    /// How often it wants to show something.
    fn interval(&self) -> Option<Duration>;
    /// That time is over.
    ///
    /// # Errors
    ///
    /// It can't be shown.
    fn show(&mut self, progress: &Progress) -> io::Result<()>;
    /// The sample is complete. What comes next belongs to another one, if there's a next.
    ///
    /// # Errors
    ///
    /// It can't be shown.
    fn complete(&mut self, progress: &Progress) -> io::Result<()>;
    /// That failed at the end of a period. Another one has begun.
    fn failed(&mut self, error: &io::Error);
}

/// How often calls are read that ended after their window, and those of functions that are armed all the time.
const STALE: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(100)];
/// Chunks that are read at once: all of a ring.
const CHUNKS: usize = 256;

/// Sampling under way.
struct Sampler {
    observer: Box<dyn Observer>,
    steering: Steering,
    watch: Watch,
    hooks: Hooks,
    idle: Idle,
    callers: Callers,
    /// The numbers of all functions.
    functions: Vec<u32>,
    follower: Follower,
    /// The number that the process has in the trace.
    process: u32,
    /// Processes that have recorded calls, and how many others there were.
    known: BTreeSet<u32>,
    others: usize,
    /// The build ID of the program.
    build: Arc<str>,
    period: Option<Duration>,
    began: Began,
    /// This process's processor time when it last slept, in seconds.
    slept: f64,
    looked: Instant,
    /// What the program had used by then, and how many chunks its calls had taken.
    used: Duration,
    turns: u64,
    shown: Instant,
    /// Of this sample, and of those before.
    missed: [u64; 2],
}

/// Why it waits no longer.
#[derive(PartialEq, Eq)]
enum Woken {
    Time,
    End,
    /// The process has ended.
    Gone,
}

impl Worker {
    /// Samples until the end of `pipe`, of the process, or of the time.
    pub(super) fn sample(&mut self, pipe: &File, sampling: Sampling) -> io::Result<()> {
        let all = BTreeSet::new();
        self.session.switch(false, &all)?;
        let gone = handle(self.request.process)?;
        let now = Instant::now();
        let mut observer = sampling.observer;
        let cost = Budget::new(sampling.cost).cost_of(1);
        let functions = self.names();
        let groups = Groups::new(functions.len(), sampling.seed);
        let builds = self.builds();
        let changes = self.session.changes.iter().filter(|change| change.is_probe());
        let probes: BTreeSet<u32> = changes.map(|change| change.function).collect();
        let named = |(number, (function, module)): (u32, (Arc<str>, Arc<str>))| {
            let build = builds.get(&*module).map(Arc::clone).unwrap_or_default();
            let (group, is_probe) = (groups.of(number), probes.contains(&number));
            Named { number, function, module, build, group, is_probe }
        };
        let path = self.program.path.to_string_lossy().into_owned();
        let build = builds.get(&path).map(Arc::clone).unwrap_or_default();
        let numbers = functions.keys().copied().collect();
        let functions = functions.into_iter().map(named).collect();
        let (callers, modules) = Callers::of(&self.program);
        // What tells of its calls itself may be in the code of another function.
        let has_callers = self.program.instrumented.is_empty();
        observer.begin(Sampled { functions, modules, has_callers, cost });
        let mut sampler = Sampler {
            observer,
            steering: Steering::new(sampling.cost, (sampling.seed, groups), cost),
            watch: Watch::new(sampling.has_watch),
            hooks: Hooks::default(),
            idle: Idle::of(probes),
            callers,
            functions: numbers,
            follower: Follower::new(),
            process: inner_id(self.request.process).cast_unsigned(),
            known: BTreeSet::new(),
            others: 0,
            build,
            period: sampling.period,
            began: Began::now(self.request.process),
            slept: steer::own_time(),
            looked: now,
            used: budget::used(self.request.process),
            turns: 0,
            shown: now,
            missed: [0; 2],
        };
        let done = self.sample_by(&mut sampler, (pipe, &gone));
        // Whatever is wrong, hooks are made idle next.
        done.and(self.complete(&mut sampler))
    }

    fn complete(&self, sampler: &mut Sampler) -> io::Result<()> {
        sampler.look(self);
        let progress = self.progress(sampler);
        self.describe(sampler, &progress);
        let done = sampler.observer.complete(&progress);
        sampler.steering.begin();
        sampler.watch.begin();
        let [missed, before] = sampler.missed;
        sampler.missed = [0, missed + before];
        sampler.began = Began::now(self.request.process);
        done
    }

    /// The build IDs of modules, by their paths.
    fn builds(&self) -> HashMap<String, Arc<str>> {
        let build = |module: &Module| {
            (module.path.to_string_lossy().into_owned(), Arc::from(hex(&module.build_id)))
        };
        self.program.modules.iter().map(build).collect()
    }

    fn sample_by(&mut self, sampler: &mut Sampler, ends: (&File, &OwnedFd)) -> io::Result<()> {
        let deadline = self.request.duration.map(|duration| Instant::now() + duration);
        // What was called until all were idle is in no window.
        sampler.look(self);
        sampler.hooks = sampler.find_hooks(self)?;
        sampler.glance(self, (0..sampler.steering.groups.count(), 1.0))?;
        sampler.free_first(self)?;
        sampler.set_apart(self)?;
        sampler.watch_first(self)?;
        sampler.steering.begin();
        let mut end = Instant::now();
        let mut rest = Rest::begin(self);
        loop {
            // From when the last window should have ended: how late this process woke says something of the program.
            let next = end + sampler.steering.gap();
            if self.rest(sampler, ends, deadline.map_or(next, |end| end.min(next)))? != Woken::Time
            {
                return Ok(());
            }
            let drawn = sampler.steering.draw();
            let group = drawn.group;
            let length = sampler.steering.length(group);
            if let Some(deadline) = deadline.filter(|end| Instant::now() + length >= *end) {
                return self.rest(sampler, ends, deadline).map(|_| ());
            }
            sampler.steering.outside(rest.end(self));
            let armed = Armed::of(&sampler.steering.groups, &drawn, &sampler.watch);
            let of_group = sampler.hooks.of_group(group);
            let quiet = window::Quiet::open(self, of_group, &armed)?;
            let (mut woken, mut slept) = (Woken::Time, sampler.slept);
            if let Some(quiet) = &quiet {
                woken = self.wait_until(ends, quiet.end());
                slept = steer::own_time();
            }
            let mut window = Window::open(self, of_group, (armed, quiet), slept)?;
            end = window.end(length);
            // Of a window as short as those of busy groups, waking would take a part.
            if woken == Woken::Time && !sampler.steering.groups.is_busy(group) {
                woken = self.wait_until(ends, window.settled());
                window.measure(self, length);
            }
            if woken == Woken::Time {
                woken = self.wait_until(ends, end);
            }
            let closed = window.close(self, of_group, length)?;
            let odds = sampler.steering.groups.odds(group);
            let closed = Opened { lots: drawn.lots.clone(), odds, ..closed };
            rest = Rest::begin(self);
            if woken != Woken::Time || !self.session.is_there() {
                return Ok(());
            }
            sampler.take(self, closed, &drawn);
            sampler.choose_watched(self, group)?;
            if sampler.free_idle(self)? {
                sampler.hooks = sampler.find_hooks(self)?;
            }
        }
    }

    /// Waits until it's time for the next window, and does what is to be done meanwhile.
    fn rest(
        &self,
        sampler: &mut Sampler,
        ends: (&File, &OwnedFd),
        until: Instant,
    ) -> io::Result<Woken> {
        loop {
            let interval = sampler.observer.interval();
            let show = interval.map_or(until, |interval| sampler.shown + interval);
            let complete = sampler.period.map_or(until, |period| sampler.began.instant + period);
            let next = until.min(show).min(complete).min(sampler.looked + sampler.stale());
            let next = if sampler.may_flood() { next.min(Instant::now() + FLOOD) } else { next };
            let is_early = next > Instant::now();
            let woken = self.wait_until(ends, next);
            if is_early {
                sampler.slept = steer::own_time();
            }
            if woken != Woken::Time {
                return Ok(woken);
            }
            let now = Instant::now();
            if now >= sampler.looked + sampler.stale() || sampler.is_flooded(self) {
                sampler.stem(self)?;
            }
            if interval.is_some() && now >= show {
                sampler.shown = now;
                let progress = self.progress(sampler);
                if sampler.observer.show(&progress).is_err() {
                    return Ok(Woken::End);
                }
            }
            if sampler.period.is_some() && now >= complete {
                // A folder that is full today may have room tomorrow.
                if let Err(error) = self.complete(sampler) {
                    sampler.observer.failed(&error);
                }
                sampler.set_apart(self)?;
            }
            if Instant::now() >= until {
                return Ok(if self.session.is_there() { Woken::Time } else { Woken::Gone });
            }
        }
    }

    /// Waits until then, or for the end of something.
    fn wait_until(&self, (pipe, gone): (&File, &OwnedFd), until: Instant) -> Woken {
        loop {
            if self.pauses.told.to_end() {
                return Woken::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Time;
            }
            let seconds = libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX);
            let time = libc::timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
            let mut polled = [pipe.as_raw_fd(), gone.as_raw_fd()].map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two entries, a time, and no signals.
            unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const time, std::ptr::null()) };
            match polled.map(|one| one.revents != 0) {
                [_, true] => return Woken::Gone,
                [true, _] => return Woken::End,
                _ => {}
            }
        }
    }

    fn progress(&self, sampler: &Sampler) -> Progress {
        let began = &sampler.began;
        let running = began.instant.elapsed();
        let (recording, own) = sampler.steering.spent(running);
        Progress {
            program: self.program.path.to_string_lossy().into_owned(),
            build: Arc::clone(&sampler.build),
            process: self.request.process,
            began: began.time,
            running,
            ticks: (began.ticks, self.trace.rate()),
            outside: sampler.steering.load_outside(),
            recording,
            own,
            missed: sampler.missed[0],
            waiting: began.waiting(self.request.process),
        }
    }

    /// Tells the observer of calls that haven't ended, and of whose they are.
    fn describe(&self, sampler: &mut Sampler, progress: &Progress) {
        let Ok(folder) = tempfile::tempdir() else { return };
        let stand = || Ok::<_, io::Error>(());
        let saved = save::save(&self.trace, &folder.path().join("sample.mcount"), stand);
        let Some(bytes) = saved.ok().and_then(|path| files::read_to_end(&path).ok()) else {
            return;
        };
        let Ok(trace) = Trace::parse(&bytes) else { return };
        for call in trace.calls() {
            let process = call.process.and_then(|at| trace.processes.get(at));
            let is_own = process.is_none_or(|process| process.pid == sampler.process);
            // Records of calls that ended have been read.
            if call.is_open() && is_own {
                sampler.observer.unfinished(call.function, call.start);
            }
        }
        sampler.observer.describe(&trace, progress);
    }

    /// Makes the hooks idle of processes that were made by `fork` in a window.
    fn leave_alone(&self, sampler: &mut Sampler) {
        let found = self.trace.processes();
        let is_new =
            |process: &&u32| !sampler.known.contains(process) && **process != sampler.process;
        let count = found.iter().filter(is_new).count();
        let Some(file) = self.trace.file().metadata().ok().filter(|_| count != 0) else { return };
        sampler.others += count;
        for process in processes_with(&file).unwrap_or_default() {
            if process != self.request.process
                && let Ok(Some(session)) = self.session.forked(process)
            {
                // It may have ended meanwhile. At the end they're all looked at once more.
                let _ = session.switch(false, &BTreeSet::new());
            }
        }
        sampler.known = found;
    }
}

impl Sampler {
    /// Takes in a window.
    fn take(&mut self, worker: &Worker, mut closed: Opened, drawn: &Drawn) {
        self.steering.closed(&mut closed);
        self.observer.open(closed);
        let seen = self.missed;
        self.look(worker);
        self.steering.counted(drawn, self.missed > seen);
        if self.steering.is_due() {
            self.steering.set_call(self.observer.cost());
        }
    }

    /// After so long it's time to look.
    fn stale(&self) -> Duration {
        let [usual, watching] = STALE;
        if self.watch.all().is_empty() { usual } else { watching }
    }

    /// Reads what is new.
    fn look(&mut self, worker: &Worker) {
        const MOST: u32 = 1000;
        self.looked = Instant::now();
        self.turns = worker.trace.turns();
        let used = budget::used(worker.request.process);
        let used = used.saturating_sub(std::mem::replace(&mut self.used, used));
        worker.leave_alone(self);
        let Self { follower, observer, steering, watch, callers, process, .. } = self;
        let mut read = |offset: u64, bytes: &mut [u8]| worker.trace.read(offset, bytes);
        for _ in 0..MOST {
            let look = follower.look(&mut read, CHUNKS, |call| {
                if call.process == *process {
                    steering.saw(call);
                    watch.saw(call.function);
                    let address = call.caller.filter(|_| !steering.is_in_none(call));
                    let caller = address.and_then(|address| callers.find(address));
                    observer.call(call, caller);
                }
            });
            let [missed, before] = &mut self.missed;
            let more = (look.missed - *before).saturating_sub(*missed);
            *missed = look.missed - *before;
            steering.missed(more);
            if more != 0 {
                watch.hurry();
            }
            if look.left == 0 {
                break;
            }
        }
        self.steering.looked(used.as_secs_f64());
    }
}
