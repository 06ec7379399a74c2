//! What is recorded although nobody has asked for it has to cost little: library calls that wait, and when threads are off the processor. The
//! program's processor time says how much that is (`budget.rs`). What happens too often isn't recorded any more, and the trace says so.
//!
//! A library call that doesn't wait for long costs the most for what one learns by it: nothing. The agent counts these, by function. So
//! locks that are always free are found here, and those for which threads really wait are cheap.

use super::budget::{Budget, Times};
use super::kernel::Kernel;
use mcount_agent::SHORT_WAITS;
use mcount_ptrace::Memory;
use mcount_trace::layout::off_cpu;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The part of the program's processor time that it may cost when threads are off the processor.
const SHARE: f64 = 0.02;

/// The part that calls may cost which turn out not to wait. It's half of the goal, since those that do wait cost something too, and
/// nobody counts them.
const SHORT_SHARE: f64 = 0.01;

/// How often it's looked at: in the beginning, for so many times each, and from then on. It's the first milliseconds of a loop around
/// a free lock that cost the most.
const OFTEN: [(u32, Duration); 2] =
    [(100, Duration::from_millis(1)), (100, Duration::from_millis(3))];
const LATER: Duration = Duration::from_millis(10);

/// What switches may cost at once, in seconds, if there were few before.
const BURST: f64 = 4e-3;

/// After so much processor time of the program at least, what was given up is recorded again: it may have been the program's beginning
/// only that took so many locks. It's also so many times of what was spent until then, and twice as long each time.
const PROBATION: Duration = Duration::from_secs(1);
const TIMES_SPENT: f64 = 100.0;

/// What it costs that a thread leaves the processor and comes back, and that there's a new one, in seconds. The kernel writes two
/// records for the one, and makes an event for each processor for the other. The first was seen in one program with a pipe; the
/// second is a guess.
const SWITCH: f64 = 1.5e-6;
const NEW_THREAD: f64 = 10e-6;

/// What is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GivenUp {
    /// Functions whose numbers have this remainder.
    Waits(u32),
    /// When threads are off the processor.
    Switches,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) given_up: BTreeSet<GivenUp>,
    /// What was given up, and isn't any more.
    pub(super) again: BTreeSet<GivenUp>,
}

/// A process, and where in its memory the agent counts.
pub(super) struct Counted<'p> {
    pub(super) process: i32,
    pub(super) memory: &'p Memory,
    pub(super) address: u64,
}

/// What it has cost so far.
pub(super) struct Thrift {
    budget: Budget,
    times: Times,
    looked: Instant,
    /// What each process had counted when it was looked at last.
    counts: HashMap<i32, Vec<u64>>,
    /// Short waits by remainder.
    all: Vec<u64>,
    /// Switches and new threads that the beginning took, which the recorder had a part in.
    first: Option<(u64, u64)>,
    given_up: BTreeSet<GivenUp>,
    /// Until how much time of the program's nothing is recorded again, and how long that is the next time at least.
    probation: (Duration, Duration),
    /// What had been spent when something was given up last, in seconds.
    spent: f64,
    switches: Switches,
    /// How often it was looked at since the beginning, or since something is recorded again.
    looks: u32,
    pace: Pace,
}

/// How long it may take until it's looked at again, for whoever wakes the one who looks.
#[derive(Debug, Clone)]
pub(super) struct Pace(Arc<AtomicU64>);

impl Pace {
    pub(super) fn new(pause: Duration) -> Self {
        let this = Self(Arc::default());
        this.set(pause);
        this
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    fn set(&self, pause: Duration) {
        self.0.store(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// Whether switches may go on: they're paid from what is saved up.
struct Switches {
    /// Seconds that they may cost now.
    left: f64,
    /// What they had cost when that was looked at last, when, and how much time the program had used.
    last: (f64, Instant, Duration),
}

impl Thrift {
    /// Nothing has been counted so far in `process`, which begins, or goes on.
    pub(super) fn new(begins: i32) -> Self {
        let counts = HashMap::from([(begins, vec![0; SHORT_WAITS])]);
        Self::with(counts, Times::default())
    }

    /// What was counted so far in a process that runs is none of this trace's.
    pub(super) fn of_running(of: &Counted<'_>) -> Self {
        let counts = of.read().map(|counts| (of.process, counts));
        let mut times = Times::default();
        times.begin(of.process);
        Self::with(counts.into_iter().collect(), times)
    }

    fn with(counts: HashMap<i32, Vec<u64>>, times: Times) -> Self {
        let (budget, looked, first) = (Budget::hasty(SHORT_SHARE), Instant::now(), None);
        let (given_up, probation) = (BTreeSet::new(), (Duration::ZERO, PROBATION));
        let all = vec![0; SHORT_WAITS];
        let switches = Switches { left: BURST, last: (0.0, Instant::now(), Duration::ZERO) };
        Self {
            budget,
            times,
            looked,
            counts,
            all,
            first,
            given_up,
            probation,
            spent: 0.0,
            switches,
            looks: 0,
            pace: Pace::new(OFTEN[0].1),
        }
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    fn set_pace(&self) {
        let mut looks = self.looks;
        for (count, pause) in OFTEN {
            match looks.checked_sub(count) {
                Some(left) => looks = left,
                None => return self.pace.set(pause),
            }
        }
        self.pace.set(LATER);
    }

    /// Looks at what these processes have counted, if it's time. What is to be given up now.
    pub(super) fn look<'p>(
        &mut self,
        processes: impl Iterator<Item = Counted<'p>>,
        kernel: Option<&Kernel>,
    ) -> Verdict {
        if self.looked.elapsed() < self.pace.get() * 3 / 4 {
            return Verdict::default();
        }
        self.looked = Instant::now();
        self.looks = self.looks.saturating_add(1);
        self.set_pace();
        let mut known = Vec::new();
        for one in processes {
            known.push(one.process);
            self.count(&one);
        }
        let (switches, threads) = kernel.map_or((0, 0), Kernel::counts);
        let first = *self.first.get_or_insert((switches, threads));
        let (switches, threads) =
            (switches.saturating_sub(first.0), threads.saturating_sub(first.1));
        let used = self.times.count(known.into_iter());
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let cost = switches as f64 * SWITCH + threads as f64 * NEW_THREAD;
        let has_switches = kernel.is_some() && self.switches.are_too_many(cost, used);
        if !self.given_up.is_empty() && used >= self.probation.0 {
            self.budget.forgive();
            self.looks = 0;
            self.set_pace();
            return Verdict { again: std::mem::take(&mut self.given_up), ..Verdict::default() };
        }
        let given_up = self.budget.decide(used, (&self.all, 0));
        let mut given_up: BTreeSet<GivenUp> = given_up.into_iter().map(GivenUp::Waits).collect();
        if !given_up.is_empty() {
            self.given_up.extend(&given_up);
            let spent = self.budget.cost_of(self.all.iter().sum());
            let times = Duration::from_secs_f64((spent - self.spent).max(0.0) * TIMES_SPENT);
            let pause = times.max(self.probation.1);
            (self.spent, self.probation) = (spent, (used + pause, 2 * pause));
        }
        given_up.extend(has_switches.then_some(GivenUp::Switches));
        Verdict { given_up, ..Verdict::default() }
    }

    fn count(&mut self, one: &Counted<'_>) {
        let Some(now) = one.read() else { return };
        // One that was forked begins with what its parent has counted.
        let before = self.counts.entry(one.process).or_insert_with(|| now.clone());
        for ((sum, now), before) in self.all.iter_mut().zip(&now).zip(&*before) {
            // It may have executed another program.
            *sum += now.checked_sub(*before).unwrap_or(*now);
        }
        *before = now;
    }
}

impl Switches {
    /// Do switches, which have cost so much so far, cost too much? `used` is the program's time. One that waits for most of the time
    /// doesn't notice what a little more costs.
    fn are_too_many(&mut self, cost: f64, used: Duration) -> bool {
        let (before, at, used_before) =
            std::mem::replace(&mut self.last, (cost, Instant::now(), used));
        let time = at.elapsed().max(used.saturating_sub(used_before)).as_secs_f64();
        self.left = (self.left + SHARE * time - (cost - before)).min(BURST);
        let are_too_many = self.left < 0.0;
        if are_too_many {
            // They end now, which isn't said again.
            self.left = BURST;
        }
        are_too_many
    }
}

impl Counted<'_> {
    fn read(&self) -> Option<Vec<u64>> {
        self.memory.words(self.address, SHORT_WAITS).ok()
    }
}

/// Does the function with this number have this remainder?
pub(super) fn is_one(given_up: &BTreeSet<GivenUp>, number: u32) -> bool {
    let remainder = u32::try_from(SHORT_WAITS).map_or(0, |count| number % count);
    given_up.contains(&GivenUp::Waits(remainder))
}

/// What the trace says of functions that are given up, `seconds` after it began.
pub(super) fn note_of_waits(names: &[&str], seconds: f64) -> String {
    let names = names.join(", ");
    format!(
        "called so often without waiting that waits aren't recorded from {seconds:.3} s on: {names}"
    )
}

/// What the trace says of those that are recorded again.
pub(super) fn note_of_return(names: &[String], seconds: f64) -> String {
    format!("waits are recorded again from {seconds:.3} s on: {}", names.join(", "))
}

/// What the trace says if switches are given up.
pub(super) fn note_of_switches() -> String {
    format!("{}: use --context-switches", off_cpu::GIVEN_UP)
}
