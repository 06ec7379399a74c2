//! When windows are, how long they are, and which functions are left out: so that all of it costs what it may.
//!
//! Gaps are exponential, so that no rhythm of the program meets one of ours (Poisson arrivals see time averages). Their mean is steered by what windows have
//! cost so far, and is known before a window's moment is drawn. So the window can count for the mean, and how it's steered makes no
//! estimate wrong. It's the same with functions that are called so often that windows would slow the program down much: they're armed by lot, and
//! count for more.

mod debt;
mod glance;
mod lots;
mod pace;
mod witnesses;

use super::counts::Counts;
use super::groups::Groups;
use super::random::{Random, float};
use super::{Lot, Opened};
use debt::Debt;
use foldhash::HashMap;
use mcount_trace::Ended;
use nix::libc;
use pace::Pace;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest and the longest window, and the first one, in seconds.
const LENGTHS: [f64; 3] = [0.001, 0.02, 0.002];
/// The shortest one of functions that are called most often.
const SHORTEST: f64 = 0.000_25;
/// How long it takes until a window begins, at least, in seconds; of functions that are called most often, too.
const SETTLE: [f64; 2] = [0.001, 0.000_2];
/// The shortest and the longest mean of gaps, in seconds, and the first one.
const GAPS: [f64; 3] = [0.002, 30.0, 0.1];
/// How much a new measurement counts for.
const NEW: f64 = 0.1;
/// The part of the program's processor time that recording may take within windows. What it takes is corrected for, but not exactly: with ten
/// times as much, calls of redis that have others within seemed to take twice as long as they do.
const CROWDED: f64 = 0.02;
/// The part of the cost that calls between windows may take: usually, and if slow ones are wanted.
const WATCHING: [f64; 2] = [0.1, 0.5];
/// The part of the cost that windows may take even if idle probes take more than the rest.
const WINDOWS: f64 = 0.25;
/// The part of a program's time that recording takes where calls come one after the other, at least.
const MOST_OF: f64 = 0.5;
/// One in so many windows has only some of the functions, on average: so that they call as many functions about as often, and
/// half of them at most, and an eighth at least.
const THINNED: u64 = 4;
const LEFT: f64 = 4.0;
const HALVINGS: [u32; 2] = [1, 3];

/// A program that uses less than this part of a processor counts as if it used this part. A hundredth of what a program uses that sleeps between
/// bursts would pay for one window in seconds, and few windows would meet a burst.
const LEAST_LOAD: f64 = 0.1;

/// What is drawn for a window.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    /// Its group.
    pub(super) group: u32,
    /// Functions of the group that aren't armed in every window.
    pub(super) lots: Vec<Lot>,
    /// Only some of the others are armed, as this number says.
    pub(super) thinned: Option<Thinned>,
    /// How likely each of the others was to be armed, before `thinned` was drawn.
    pub(super) likely: f64,
    /// How long it takes at least until it begins.
    pub(super) settle: Duration,
    /// Functions that are armed, too, and alone before it.
    pub(super) witnesses: Arc<BTreeSet<u32>>,
}

/// Which functions a window has that has only some of them, drawn by lot: half of them, a quarter, or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thinned {
    /// What decides.
    pub seed: u64,
    /// How often all functions are halved.
    pub halvings: u32,
}

impl Thinned {
    /// Whether it has this function.
    #[must_use]
    pub fn has(self, function: u32) -> bool {
        Random(self.seed ^ u64::from(function) << 32).next().trailing_zeros() >= self.halvings
    }
}

/// What sampling may cost, and has cost.
#[derive(Debug)]
pub(super) struct Steering {
    cost: f64,
    /// The part of the program's processor time that idle probes take.
    idle: f64,
    random: Random,
    /// What recording a call costs, in seconds, and what it does in a loop.
    call: f64,
    usual: f64,
    gap: f64,
    /// By group.
    paces: HashMap<u32, Pace>,
    /// The program's processor time in a second, and what it was lately: seconds of it, and seconds.
    load: f64,
    lately: (f64, f64),
    pub(super) groups: Groups,
    /// What is drawn next comes last.
    drawn: Vec<u32>,
    /// Functions that are armed in all windows, and alone before them, if there are busy groups.
    pub(super) witnesses: Arc<BTreeSet<u32>>,
    /// Calls in a second, by group, then by function.
    rates: HashMap<u32, HashMap<u32, f64>>,
    /// Calls of functions in the newest window.
    seen: Counts,
    /// The newest window in ticks, and when its hooks were armed.
    newest: (u64, u64),
    armed: u64,
    /// It had functions that are called most often.
    is_busy: bool,
    /// By group.
    lots: HashMap<u32, Vec<Lot>>,
    /// Calls in the newest window.
    calls: u64,
    /// From the beginning on, and when this sample began.
    total: Total,
    then: Total,
    /// Calls when that was looked at last.
    looked: u64,
    /// This process's time when all calls of the last window had been read, and those of this one are about to be.
    own_then: f64,
    own_armed: f64,
    /// Until when it's known what all of it has cost, and what that is.
    paid: Option<(Instant, Total)>,
    debt: Debt,
    /// How many windows there were.
    windows: u64,
}

/// What there was.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    calls: u64,
    /// Others, that cost what they do in a loop.
    busy: u64,
    /// Seconds outside windows: processor time, and time.
    outside: (f64, f64),
    inside: f64,
    /// This process's time.
    own: f64,
}

impl Steering {
    pub(super) fn new(cost: f64, (seed, groups): (u64, Groups), call: f64) -> Self {
        Self {
            cost,
            idle: 0.0,
            random: Random(seed),
            call,
            usual: call,
            gap: GAPS[2],
            paces: HashMap::default(),
            load: 0.0,
            lately: (0.0, 0.0),
            groups,
            drawn: Vec::new(),
            witnesses: Arc::default(),
            rates: HashMap::default(),
            seen: Counts::default(),
            newest: (0, 0),
            armed: 0,
            is_busy: false,
            lots: HashMap::default(),
            calls: 0,
            total: Total::default(),
            then: Total::default(),
            looked: 0,
            own_then: 0.0,
            own_armed: 0.0,
            paid: None,
            debt: Debt::default(),
            windows: 0,
        }
    }

    /// A sample begins. What this process used before the first one is no window's.
    pub(super) fn begin(&mut self) {
        let own = own_time();
        if self.paid.is_none() {
            self.own_then = own;
            self.total = Total::default();
            self.looked = 0;
            self.paid = Some((Instant::now(), Total { own, ..self.total }));
        }
        self.then = Total { own, ..self.total };
    }

    /// Is it time to ask what recording a call costs?
    pub(super) fn is_due(&self) -> bool {
        self.windows.is_multiple_of(16)
    }

    /// Recording a call costs so many seconds.
    pub(super) fn set_call(&mut self, call: f64) {
        self.call = call;
    }

    /// What it may cost.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    /// Idle probes take this part of the program's processor time.
    pub(super) fn set_idle(&mut self, part: f64) {
        self.idle = part;
    }

    /// What windows may cost.
    fn of_windows(&self) -> f64 {
        (self.cost - self.idle).max(self.cost * WINDOWS)
    }

    /// The program's processor time in a second, lately: a service may have had nothing to do all night.
    pub(super) fn load(&self) -> f64 {
        (self.lately.0 / self.lately.1.max(1e-9)).max(LEAST_LOAD)
    }

    /// So many calls were recorded that nobody has read.
    pub(super) fn missed(&mut self, calls: u64) {
        self.total.calls += calls;
    }

    /// All calls until now were seen. Since the last time, the program used so many seconds of processor time: recording hasn't taken more. If it
    /// seems to have taken most of them, these calls came one after the other, and cost what they do in a loop.
    pub(super) fn looked(&mut self, used: f64) {
        let calls = self.total.calls.saturating_sub(self.looked);
        if float(calls) * self.call > used * MOST_OF {
            self.total.calls -= calls;
            self.total.busy += calls;
        }
        self.looked = self.total.calls;
    }

    /// Calls in a second, and whose they are.
    pub(super) fn all_rates(&self) -> impl Iterator<Item = (f64, u32)> {
        self.rates.values().flatten().map(|(function, rate)| (*rate, *function))
    }

    /// What this process has just done is no window's.
    pub(super) fn pass(&mut self) {
        self.own_then = own_time();
    }

    /// These are calls in a second.
    #[cfg(test)]
    pub(super) fn set_rates(&mut self, rates: &[(u32, f64)]) {
        self.rates = HashMap::from_iter([(0, rates.iter().copied().collect())]);
    }

    /// Calls in a second of functions of this group.
    pub(super) fn rates(&self, group: u32) -> Option<&HashMap<u32, f64>> {
        self.rates.get(&group)
    }

    /// How many calls in a second may be recorded besides those of windows.
    pub(super) fn room_to_watch(&self, is_wanted: bool) -> f64 {
        let [usual, wanted] = WATCHING;
        let part = if is_wanted { wanted } else { usual };
        // Recording a call costs the program that, and reading it this process.
        self.of_windows() * part / (self.call / self.load.max(LEAST_LOAD) + self.call)
    }

    /// How long the next gap is.
    pub(super) fn gap(&mut self) -> Duration {
        Duration::from_secs_f64((-self.gap * self.random.part().ln()).min(1e6))
    }

    /// How long the next window of a group is.
    pub(super) fn length(&self, group: u32) -> Duration {
        Duration::from_secs_f64(self.pace(group).length)
    }

    fn pace(&self, group: u32) -> Pace {
        let first = || if self.groups.is_busy(group) { SHORTEST } else { LENGTHS[2] };
        self.paces.get(&group).copied().unwrap_or_else(|| Pace::new(first()))
    }

    /// How long it takes at least until a window of this group begins.
    fn settle(&self, group: u32) -> Duration {
        let [usual, busy] = SETTLE;
        Duration::from_secs_f64(if self.groups.is_busy(group) { busy } else { usual })
    }

    /// Functions that are called most often have groups of their own from now on, and others have as many as they need. Nothing has been seen
    /// yet that counts.
    pub(super) fn set_apart(&mut self, is_watched: impl Fn(u32) -> bool) {
        let all: Vec<(f64, u32)> = self.all_rates().filter(|(_, one)| !is_watched(*one)).collect();
        let known: Vec<u32> = self.rates.keys().copied().collect();
        self.groups = self.groups.apart(all.clone(), self.room());
        self.choose_witnesses(&all);
        self.drawn.clear();
        self.rates.clear();
        self.lots.clear();
        self.paces.clear();
        for group in known {
            self.rates.entry(group).or_default();
        }
        for (rate, function) in all {
            self.rates.entry(self.groups.of(function)).or_default().insert(function, rate);
        }
        for group in self.rates.keys().copied().collect::<Vec<u32>>() {
            self.choose_lots(group);
        }
    }

    /// Functions that were armed all the time won't be any more, as they are called so often. Which groups they have now, if that's to be another one:
    /// `is_free` says so.
    pub(super) fn take_in(
        &mut self,
        rates: impl Iterator<Item = (u32, f64)>,
        is_free: impl Fn(u32) -> bool,
    ) -> BTreeMap<u32, u32> {
        let all: BTreeMap<u32, f64> = rates.collect();
        let free: Vec<(f64, u32)> =
            all.iter().map(|one| (*one.1, *one.0)).filter(|one| is_free(one.1)).collect();
        let before = self.groups.clone();
        self.groups.add(free.clone(), self.room());
        self.drawn.clear();
        if self.witnesses.is_empty() {
            self.choose_witnesses(&free);
        }
        let mut changed = BTreeSet::new();
        for (function, rate) in all {
            let [before, group] = [&before, &self.groups].map(|groups| groups.of(function));
            // Windows may have seen it while it was armed all the time.
            self.rates.entry(before).or_default().remove(&function);
            self.rates.entry(group).or_default().insert(function, rate);
            changed.extend([before, group]);
        }
        for group in changed {
            self.choose_lots(group);
        }
        free.into_iter().map(|(_, function)| (function, self.groups.of(function))).collect()
    }

    /// So many calls in a second are recorded in windows at most.
    fn room(&self) -> f64 {
        CROWDED * self.load.max(LEAST_LOAD) / self.call
    }

    /// Which functions are armed in the next window.
    pub(super) fn draw(&mut self) -> Drawn {
        if self.drawn.is_empty() {
            self.drawn = self.groups.shuffled(|| self.random.next());
        }
        let group = self.drawn.pop().unwrap_or(0);
        let mut lots = self.lots.get(&group).cloned().unwrap_or_default();
        for lot in &mut lots {
            lot.is_armed = self.random.part() < lot.chance;
        }
        // The first window of a group says how often each function is called.
        let is_known = self.rates.contains_key(&group);
        let is_drawn = self.random.next().is_multiple_of(THINNED);
        let halvings = self.halvings(group);
        // Where much is recorded, that costs less each time. If there are witnesses, they tell what it costs.
        let is_known = is_known && !self.groups.is_busy(group) && self.witnesses.is_empty();
        let thinned =
            (is_known && is_drawn).then(|| Thinned { seed: self.random.next(), halvings });
        let left_out = 1.0 - 0.5_f64.powi(halvings.cast_signed());
        let likely = if is_known { 1.0 - left_out / float(THINNED) } else { 1.0 };
        let witnesses = Arc::clone(&self.witnesses);
        Drawn { lots, thinned, likely, witnesses, ..self.whole(group) }
    }

    /// A window with all functions of a group.
    pub(super) fn whole(&self, group: u32) -> Drawn {
        let settle = self.settle(group);
        Drawn {
            group,
            lots: Vec::new(),
            thinned: None,
            likely: 1.0,
            settle,
            witnesses: Arc::default(),
        }
    }

    /// How often the functions of a group are halved if a window has only some of them.
    fn halvings(&self, group: u32) -> u32 {
        let rates = self.rates.get(&group).into_iter().flat_map(HashMap::values);
        let (sum, squares) =
            rates.fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        // So many functions would have as many calls, if they all had the same.
        let effective = sum * sum / f64::max(squares, f64::MIN_POSITIVE);
        let [least, most] = HALVINGS;
        let is_enough = |halvings: &u32| effective * 0.5_f64.powi(halvings.cast_signed()) >= LEFT;
        (least..=most).rev().find(is_enough).unwrap_or(least)
    }

    /// The program used so many seconds of processor time in a gap of so many.
    pub(super) fn outside(&mut self, (used, elapsed): (f64, f64)) {
        let Total { outside, .. } = &mut self.total;
        outside.0 += used;
        outside.1 += elapsed;
        self.load = outside.0 / outside.1.max(1e-9);
        // As rates are: the newest tenth counts for as much as all before.
        let (before, of) = self.lately;
        self.lately = (before * (1.0 - NEW) + used, of * (1.0 - NEW) + elapsed);
    }

    /// Seconds of processor time outside windows of this sample, and how long that was.
    pub(super) fn load_outside(&self) -> (f64, f64) {
        let (used, elapsed) = self.total.outside;
        (used - self.then.outside.0, elapsed - self.then.outside.1)
    }

    /// The parts of the program's time and of one processor's that this sample took, which is so old.
    pub(super) fn spent(&self, running: Duration) -> (f64, f64) {
        let recording = self.recording(self.total) - self.recording(self.then);
        let inside = self.total.inside - self.then.inside;
        let running = running.as_secs_f64().max(1e-6);
        let used = self.load_outside().0 + inside - recording;
        (recording / used.max(running * LEAST_LOAD), (own_time() - self.then.own) / running)
    }

    /// Seconds that recording took.
    fn recording(&self, of: Total) -> f64 {
        float(of.calls) * self.call + float(of.busy) * self.usual
    }

    /// A window has closed. Its gap is noted.
    pub(super) fn closed(&mut self, window: &mut Opened) {
        window.gap = self.gap;
        self.newest = (window.start, window.start.saturating_add(window.length));
        self.armed = window.armed;
        self.is_busy = self.groups.is_busy(window.group);
        self.total.inside += window.inside;
        self.calls = 0;
        self.seen.clear();
        self.own_armed = own_time();
    }

    /// A call has ended.
    #[inline]
    pub(super) fn saw(&mut self, call: &Ended) {
        // Those of functions that are armed all the time are no window's.
        self.calls += u64::from(call.start >= self.armed);
        // What is armed all the time finds as little of what it needs in the caches as ever.
        let is_busy = self.is_busy && self.groups.is_busy(self.groups.of(call.function));
        let calls = if is_busy { &mut self.total.busy } else { &mut self.total.calls };
        *calls += 1;
        if (self.newest.0..self.newest.1).contains(&call.start) {
            self.seen.add(call.function);
        }
    }

    /// Whether a call that has ended began in no window. It may have, unless it's one of those that began just before or after the newest.
    #[inline]
    pub(super) fn is_in_none(&self, call: &Ended) -> bool {
        call.start >= self.armed && !(self.newest.0..self.newest.1).contains(&call.start)
    }

    /// All calls of the newest window were seen that ended in time. `has_missed`: others were lost.
    pub(super) fn counted(&mut self, drawn: &Drawn, has_missed: bool) {
        let Drawn { group, lots, thinned, .. } = drawn;
        let group = *group;
        let own = own_time();
        self.windows += 1;
        let mut pace = self.pace(group);
        let call = if self.groups.is_busy(group) { self.usual } else { self.call };
        let recording = float(self.calls) * call;
        let within: u64 = self.seen.iter().map(|(_, calls)| u64::from(calls)).sum();
        let within = float(within) / float(self.calls.max(1));
        pace.mix([recording, self.own_armed - self.own_then, own - self.own_armed, within]);
        self.own_then = own;
        let length = pace.length;
        self.paces.insert(group, pace);
        let rates = self.rates.entry(group).or_default();
        // What is watched is armed in windows of other groups as well.
        for (function, _) in self.seen.iter().filter(|(one, _)| self.groups.of(*one) == group) {
            rates.entry(function).or_insert(0.0);
        }
        for (function, rate) in rates {
            let is_armed = |lot: &Lot| lot.function != *function || lot.is_armed;
            if thinned.is_none_or(|thinned| thinned.has(*function)) && lots.iter().all(is_armed) {
                let calls = self.seen.of(*function);
                let new = f64::from(calls) / length;
                *rate += if *rate == 0.0 { new } else { NEW * (new - *rate) };
            }
        }
        self.choose_lots(group);
        self.choose_times(group, has_missed);
    }

    /// Chooses how long windows of a group are, and gaps.
    fn choose_times(&mut self, group: u32, has_missed: bool) {
        let load = self.load.max(LEAST_LOAD);
        let mut pace = self.pace(group);
        let [shortest, longest, _] = LENGTHS;
        let is_busy = self.groups.is_busy(group);
        let shortest = if is_busy { SHORTEST } else { shortest };
        let balance = pace.balance(load, is_busy);
        if has_missed {
            pace.length /= 2.0;
        } else if balance == Ordering::Less {
            pace.length *= 1.1;
        } else if balance == Ordering::Greater {
            pace.length /= 1.1;
        }
        pace.length = pace.length.clamp(shortest, longest);
        self.paces.insert(group, pace);
        if self.paid.is_none() {
            return;
        }
        self.pay();
        // What a window takes, and how long it is, on average over the groups.
        let (mut takes, mut length, mut odds) = (0.0, 0.0, 0.0);
        for (group, pace) in &self.paces {
            let part = self.groups.odds(*group);
            takes += part * (pace.of_calls(load) + pace.arming);
            length += part * pace.length;
            odds += part;
        }
        let (takes, length) = (takes / odds.max(1e-9), length / odds.max(1e-9));
        // What it may cost until now isn't quite what it has cost. The next few windows make up for that.
        let steady = takes / self.of_windows();
        let debt = self.debt.seconds(self.of_windows(), self.load());
        let gap = (steady + debt / 4.0).max(steady / 2.0).max(length * 2.0);
        // One window that was dear by chance doesn't end the sample.
        let most = self.gap * 2.0;
        let [shortest, longest, _] = GAPS;
        self.gap = gap.min(most).clamp(shortest, longest);
    }

    /// Notes what it has cost since the last time.
    fn pay(&mut self) {
        let now = (Instant::now(), Total { own: own_time(), ..self.total });
        let Some((then, paid)) = self.paid.replace(now) else { return };
        let (now, total) = now;
        let recording = float(total.calls - paid.calls) * self.call
            + float(total.busy - paid.busy) * self.usual;
        let (elapsed, cost) = ((now - then).as_secs_f64(), self.of_windows());
        self.debt.pay((total.own - paid.own, recording), elapsed, cost, self.load());
    }
}

/// Seconds of processor time that this process has used.
pub(super) fn own_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time goes to a value of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::new(part(time.tv_sec), 0).as_secs_f64() + float(part(time.tv_nsec)) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_before_the_first_window_is_no_debt() {
        let mut steering = Steering::new(0.01, (1, Groups::new(1, 1)), 50e-9);
        steering.total.calls = 1000;
        steering.outside((0.5, 1.0));
        steering.begin();
        assert_eq!((steering.total.calls, steering.total.outside), (0, (0.0, 0.0)));
        assert!((steering.load() - 0.5).abs() < 1e-9);
        steering.total.calls = 1000;
        steering.begin();
        assert_eq!(steering.total.calls, 1000);
    }

    #[test]
    fn what_takes_long_once_is_not_what_arming_takes() {
        let mut steering = Steering::new(0.01, (1, Groups::new(1, 1)), 50e-9);
        let drawn = steering.whole(0);
        let mut arm = |seconds: f64| {
            steering.own_armed = steering.own_then + seconds;
            steering.counted(&drawn, false);
            steering.pace(0).arming
        };
        assert!((arm(0.001) - 0.001).abs() < 1e-9);
        assert!((arm(1.0) - 0.0015).abs() < 1e-9);
    }
}
