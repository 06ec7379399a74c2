//! One window: hooks are armed one after the other, then it begins; it ends before the first of them becomes idle.
//!
//! It doesn't begin at once. While this process arms hooks, threads of the program may have to wait for its processor. They all
//! run when it has done so, and a window that began then would have more calls than any other time. Until it begins, the program finds
//! less in its caches, too. So what it uses is measured from the beginning on.

use super::super::session::Session;
use super::super::sites::{Change, Switch, flip};
use super::super::worker::Worker;
use super::Opened;
use super::groups::Groups;
use super::steer::{self, Drawn, Thinned};
use super::watch::Watch;
use crate::trace::budget;
use foldhash::HashSet;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The functions that are armed in a window: those of a group but for some.
pub(super) struct Armed {
    groups: Groups,
    group: u32,
    left_out: BTreeSet<u32>,
    thinned: Option<Thinned>,
    likely: f64,
    /// How long it takes at least until it begins.
    settle: Duration,
    /// These are armed all the time.
    watched: Arc<HashSet<u32>>,
    witnesses: Arc<BTreeSet<u32>>,
}

impl Armed {
    /// Those that were drawn.
    pub(super) fn of(groups: &Groups, drawn: &Drawn, watch: &Watch) -> Self {
        let blanks = drawn.lots.iter().filter(|lot| !lot.is_armed);
        let left_out = blanks.map(|lot| lot.function).collect();
        let Drawn { group, thinned, likely, settle, .. } = *drawn;
        let (groups, watched) = (groups.clone(), Arc::clone(watch.all()));
        let witnesses = Arc::clone(&drawn.witnesses);
        Self { groups, group, left_out, thinned, likely, settle, watched, witnesses }
    }

    fn has(&self, function: u32) -> bool {
        self.has_of_group(function) || self.has_witness(function)
    }

    /// Those that are armed.
    fn witnesses(&self) -> Vec<u32> {
        self.witnesses.iter().copied().filter(|one| self.has_witness(*one)).collect()
    }

    fn has_witness(&self, function: u32) -> bool {
        self.witnesses.contains(&function) && !self.watched.contains(&function)
    }

    fn has_of_group(&self, function: u32) -> bool {
        self.groups.of(function) == self.group
            && self.thinned.is_none_or(|thinned| thinned.has(function))
            && !self.left_out.contains(&function)
            && !self.watched.contains(&function)
    }

    /// Switches the hooks on or off. A process that has ended has none.
    fn switch(&self, worker: &Worker, switches: [&[Switch]; 2], is_on: bool) -> io::Result<()> {
        let session = &worker.session;
        let done = session.switch_instrumented(is_on, |function| self.has(function));
        let [of_group, witnesses] = switches;
        let of_group = of_group.iter().filter(|switch| self.has(switch.function));
        let witnesses = witnesses.iter().filter(|switch| self.has(switch.function));
        // Witnesses of this group are in both lists.
        let is_other = |switch: &&Switch| !self.has_of_group(switch.function);
        let chosen = of_group.chain(witnesses.filter(is_other));
        let done = done.and_then(|()| flip(&session.memory, chosen, is_on));
        if session.is_there() { done } else { Ok(()) }
    }

    /// Arms witnesses alone.
    fn arm_witnesses(&self, worker: &Worker, witnesses: &[Switch]) -> io::Result<()> {
        let session = &worker.session;
        let done = session.switch_instrumented(true, |function| self.has_witness(function));
        let chosen = witnesses.iter().filter(|switch| self.has_witness(switch.function));
        let done = done.and_then(|()| flip(&session.memory, chosen, true));
        if session.is_there() { done } else { Ok(()) }
    }
}

/// The longest time between arming hooks and the beginning of a window.
const SETTLE: Duration = Duration::from_millis(4);

/// What is before a window if there are witnesses: only these are armed.
pub(super) struct Quiet {
    /// Ticks when they were armed.
    armed_at: u64,
    /// Ticks from which on their calls count.
    start: u64,
    /// What the program had used when they were armed.
    used: Duration,
    end: Instant,
}

impl Quiet {
    /// How long it takes until calls count, and for how long they do then.
    const TIMES: [Duration; 2] = [Duration::from_micros(300), Duration::from_micros(700)];

    pub(super) fn open(
        worker: &Worker,
        [_, witnesses]: [&[Switch]; 2],
        armed: &Armed,
    ) -> io::Result<Option<Self>> {
        if armed.witnesses.is_empty() {
            return Ok(None);
        }
        armed.arm_witnesses(worker, witnesses)?;
        let [settle, length] = Self::TIMES;
        let (began, armed_at) = (Instant::now(), worker.trace.ticks());
        let start = armed_at.saturating_add(ticks_of(worker, settle));
        let used = budget::used(worker.request.process);
        Ok(Some(Self { armed_at, start, used, end: began + settle + length }))
    }

    /// When it's over.
    pub(super) fn end(&self) -> Instant {
        self.end
    }
}

/// A window that is open.
pub(super) struct Window {
    armed_at: u64,
    start: u64,
    used: Duration,
    began: Instant,
    settle: Duration,
    measured: Measured,
    armed: Armed,
    quiet: Option<super::Quiet>,
}

/// When something is measured from.
#[derive(Clone, Copy)]
struct Measured {
    ticks: u64,
    began: Instant,
    used: Duration,
}

impl Measured {
    fn begin(worker: &Worker) -> Self {
        let used = budget::used(worker.request.process);
        Self { ticks: worker.trace.ticks(), began: Instant::now(), used }
    }
}

/// A time in which nothing is armed.
pub(super) struct Rest {
    began: Instant,
    used: Duration,
}

impl Rest {
    pub(super) fn begin(worker: &Worker) -> Self {
        Self { began: Instant::now(), used: budget::used(worker.request.process) }
    }

    /// Seconds of processor time that the program used, and how long it took.
    pub(super) fn end(&self, worker: &Worker) -> (f64, f64) {
        let used = budget::used(worker.request.process).saturating_sub(self.used);
        (used.as_secs_f64(), self.began.elapsed().as_secs_f64())
    }
}

impl Session {
    /// Where armed hooks are switched.
    pub(super) fn switches(&self) -> io::Result<Vec<Switch>> {
        let puns = self.puns.switches(&self.memory);
        let has_none = |function| self.puns.has(function) || self.puns.left_out.contains(&function);
        let is_other = |change: &&Change| change.function != 0 && !has_none(change.function);
        let armed = self.changes.iter().filter(is_other);
        let switches = armed.filter_map(|change| Switch::of(&self.memory, change).transpose());
        puns.into_iter().map(Ok).chain(switches).collect()
    }
}

impl Window {
    /// Arms the hooks; `switches` are those of the group, and of witnesses, which may be armed already. This process has slept last when it had used
    /// `slept` seconds of processor time.
    pub(super) fn open(
        worker: &Worker,
        switches: [&[Switch]; 2],
        (armed, quiet): (Armed, Option<Quiet>),
        slept: f64,
    ) -> io::Result<Self> {
        let quiet = quiet.map(|quiet| (quiet, worker.trace.ticks()));
        armed.switch(worker, switches, true)?;
        // From here on every call is recorded.
        let (began, armed_at) = (Instant::now(), worker.trace.ticks());
        let busy = Duration::try_from_secs_f64(steer::own_time() - slept).unwrap_or(SETTLE);
        let settle = (busy * 2).clamp(armed.settle, SETTLE);
        let start = armed_at.saturating_add(ticks_of(worker, settle));
        let measured = Measured::begin(worker);
        let (armed_at, used) = match &quiet {
            Some((quiet, _)) => (quiet.armed_at, quiet.used),
            None => (armed_at, measured.used),
        };
        let quiet = quiet.map(|(quiet, end)| super::Quiet {
            start: quiet.start,
            end: end.max(quiet.start),
            witnesses: armed.witnesses(),
        });
        Ok(Self { armed_at, start, used, began, settle, measured, armed, quiet })
    }

    /// When it begins.
    pub(super) fn settled(&self) -> Instant {
        self.began + self.settle
    }

    /// It has begun: what the program uses is measured from now on. If it's late for that, it's measured since hooks were armed.
    pub(super) fn measure(&mut self, worker: &Worker, length: Duration) {
        let late = self.settled().elapsed();
        if late < length / 2 {
            self.measured = Measured::begin(worker);
        }
    }

    /// When it's long enough.
    pub(super) fn end(&self, length: Duration) -> Instant {
        self.began + self.settle + length
    }

    /// Makes its hooks idle. It should have taken so long.
    pub(super) fn close(
        self,
        worker: &Worker,
        switches: [&[Switch]; 2],
        length: Duration,
    ) -> io::Result<Opened> {
        let used = budget::used(worker.request.process);
        let (elapsed, end) = (self.measured.began.elapsed(), worker.trace.ticks());
        self.armed.switch(worker, switches, false)?;
        Ok(Opened {
            armed: self.armed_at,
            start: self.start,
            length: ticks_of(worker, length).min(end.saturating_sub(self.start)),
            rate: worker.trace.rate(),
            gap: 0.0,
            group: self.armed.group,
            odds: 1.0,
            lots: Vec::new(),
            thinned: self.armed.thinned,
            likely: self.armed.likely,
            is_busy: self.armed.groups.is_busy(self.armed.group),
            quiet: self.quiet,
            inside: used.saturating_sub(self.used).as_secs_f64(),
            measured: self.measured.ticks,
            used: used.saturating_sub(self.measured.used).as_secs_f64(),
            elapsed: elapsed.as_secs_f64(),
        })
    }
}

fn ticks_of(worker: &Worker, duration: Duration) -> u64 {
    worker.trace.ticks_in(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
