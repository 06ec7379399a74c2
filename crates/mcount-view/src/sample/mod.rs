//! Estimates from windows: how often functions are called and how long that takes, from calls that began in short windows at random
//! moments.
//!
//! Every moment is as likely as any other to be the start of a window, in proportion to one over the mean of the gaps at that time. A
//! window counts for that mean, so moments count alike however the gaps are steered (Horvitz and Thompson 1952). A function that's armed
//! in a part of the windows only, by lot, counts for more in these. What is counted are calls that *begin* in the window, with all
//! their time, so neither a call that began before it nor the end of the window matters. docs/sample.md has the derivation.
//!
//! Of each function only sums are kept, and for the newest windows what each had in it: a call that takes long ends long after its
//! window.

mod batch;
mod bounds;
mod calibration;
mod durations;
mod groups;
mod load;
#[cfg(test)]
mod observed;
mod own;
#[cfg(test)]
mod random;
#[cfg(test)]
mod simulation;
mod slots;
mod slow;
mod slowdown;
pub mod table;
mod threads;
mod window;

pub use self::batch::Caller;
pub use self::load::Load;
pub use self::own::Called;
pub use self::slow::Slow;
pub use self::window::{Chance, Quiet, Thinned, Window};

use self::batch::{Alike, Batches};
use self::bounds::Sums;
use self::calibration::{Calibration, Measured};
use self::groups::{Groups, Totals};
use self::own::{Corrections, Own, Pairs};
use self::slots::Slots;
use self::slowdown::{Pair, Slowdown, Told};
use self::threads::Threads;
use foldhash::HashMap;
use mcount_trace::Ended;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Fewer windows than these say too little of how windows differ.
const FEWEST: u64 = 12;

/// An estimate, and how far the truth may be from it in either direction, at 95 %; `None` if too little was seen to tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// How far the truth may be away.
    pub error: Option<f64>,
}

/// What is known of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Its number.
    pub function: u32,
    /// Calls that were seen.
    pub calls: u64,
    /// Windows in which some of them began.
    pub windows: u64,
    /// Calls in a second.
    pub per_second: Estimate,
    /// The time of a call, with what it called, in nanoseconds.
    pub mean: Estimate,
    /// The time of all calls, as a part of all time.
    pub share: Estimate,
    /// The time of all calls less that of the calls they made of other sampled functions, as a part of all time; `None` if callers aren't known.
    pub own: Option<Estimate>,
    /// What half of the calls, nine of ten, and 99 of 100 don't exceed, in nanoseconds; `None` if none has ended.
    pub percentiles: [Option<f64>; 3],
}

/// What of one function began in one window.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    calls: f64,
    /// Seconds.
    time: f64,
}

impl Cell {
    fn add(&mut self, more: Self) {
        self.calls += more.calls;
        self.time += more.time;
    }
}

/// A window whose calls may still end.
#[derive(Debug)]
struct Kept {
    /// How many there were before.
    number: u64,
    start: u64,
    end: u64,
    weight: Weight,
    group: u32,
    /// One over its odds.
    times: f64,
    chances: Vec<Chance>,
    thinned: Option<Thinned>,
    likely: f64,
    is_busy: bool,
    cells: HashMap<u32, Cell>,
    pairs: Pairs,
}

/// What a window counts for.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// The gap.
    window: f64,
    /// One call, or a second of it.
    call: f64,
}

impl Weight {
    fn times(self, times: f64) -> Self {
        Self { window: self.window * times, call: self.call * times }
    }
}

/// What is known so far.
#[derive(Debug)]
pub struct Sample {
    /// Seconds in a tick.
    tick: f64,
    /// What recording a call costs the program, in seconds.
    cost: f64,
    windows: VecDeque<Kept>,
    /// Windows and functions in `windows`.
    cells: usize,
    count: u64,
    groups: Groups,
    all: Totals,
    functions: HashMap<u32, Sums>,
    threads: Threads,
    /// Calls that have ended since then.
    batches: Batches,
    /// When it was measured in the last window what the program used, and what that was.
    measured: (u64, u64),
    used: Load,
    /// What was before it.
    quiet: Quiet,
    /// Calls that began then, those that began in the window, and those before it, by thread and function.
    newest: Slots<(u32, u32), [u64; 3]>,
    calibration: Calibration,
    slowdown: Slowdown,
    /// Own times, and who calls whom, if callers are known.
    own: Option<Own>,
    load: load::Loads,
    /// Functions that aren't sampled any longer.
    left_out: BTreeSet<u32>,
    /// Calls of windows that are no longer known.
    forgotten: u64,
}

impl Sample {
    /// What is kept of windows, functions in them, and who calls these.
    const CELLS: usize = 1_000_000;

    /// There are `rate` ticks in a second, and recording a call costs the program `cost` seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "clocks have fewer ticks than 2^52 in a second")]
    pub fn new(rate: u64, cost: f64) -> Self {
        Self {
            tick: 1.0 / rate.max(1) as f64,
            cost,
            windows: VecDeque::new(),
            cells: 0,
            count: 0,
            groups: Groups::default(),
            all: Totals::default(),
            functions: HashMap::default(),
            threads: Threads::default(),
            batches: Batches::default(),
            measured: (0, 0),
            used: Load::default(),
            quiet: Quiet::default(),
            newest: Slots::default(),
            calibration: Calibration::default(),
            slowdown: Slowdown::default(),
            own: Some(Own::default()),
            load: load::Loads::default(),
            left_out: BTreeSet::new(),
            forgotten: 0,
        }
    }

    /// Forgets all but what recording a call seems to cost this program, which is taken for `cost` seconds.
    pub fn begin_again(&mut self, cost: f64) {
        let mut calibration = std::mem::take(&mut self.calibration);
        calibration.age();
        let mut slowdown = std::mem::take(&mut self.slowdown);
        slowdown.age();
        let own = self.own.as_ref().map(|_| Own::default());
        let left_out = std::mem::take(&mut self.left_out);
        *self = Self { calibration, slowdown, own, left_out, ..Self::new(1, cost) };
    }

    /// It isn't known of all calls who made them: own times aren't either.
    pub fn without_callers(&mut self) {
        self.own = None;
    }

    /// How many ticks there are in a second is known better now.
    #[expect(clippy::cast_precision_loss, reason = "clocks have fewer ticks than 2^52 in a second")]
    pub fn set_rate(&mut self, rate: u64) {
        self.tick = 1.0 / rate.max(1) as f64;
    }

    /// The groups of functions, before the first window. Each window has one group, drawn by lot: to a function there are no other windows.
    pub fn set_groups(&mut self, groups: impl IntoIterator<Item = (u32, u32)>) {
        self.groups = Groups::default();
        for (function, group) in groups {
            self.groups.add(function, group);
        }
    }

    /// From the next window on, these functions are armed all the time, or no longer. That may depend on anything that has been seen.
    pub fn set_always(&mut self, functions: &BTreeSet<u32>, is_always: bool) {
        for function in self.groups.set_always(functions, is_always, self.count) {
            self.all.change(function, &self.groups, is_always);
            if let Some(own) = &mut self.own {
                own.change(function, &self.groups, is_always);
            }
        }
    }

    /// Functions that have been armed all the time since the first window have these groups when they no longer are.
    pub fn move_always(&mut self, groups: &BTreeMap<u32, u32>) {
        self.groups.move_always(groups);
    }

    /// These functions aren't sampled any longer, and it's as if they never had been.
    pub fn leave_out(&mut self, functions: &[u32]) {
        self.settle();
        self.left_out.extend(functions);
        self.functions.retain(|function, _| !functions.contains(function));
        if let Some(own) = &mut self.own {
            own.leave_out(functions);
        }
    }

    /// What recording a call costs the program, in seconds, as far as windows have shown.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.cost * self.calibration.cost(self.cost).part
    }

    /// How many windows there were.
    #[must_use]
    pub fn windows(&self) -> u64 {
        self.count
    }

    /// Calls that took so long that their window was no longer known.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// A window has closed. Windows come in their order.
    pub fn open(&mut self, window: Window) {
        self.settle();
        let seconds = self.seconds(window.length).max(f64::MIN_POSITIVE);
        let weight = Weight { window: window.gap, call: window.gap / seconds };
        let number = self.count;
        self.count += 1;
        let times = window.times();
        self.all.add(window.group, window.gap, times);
        if let Some(own) = self.own.as_mut().filter(|_| window.thinned.is_none()) {
            own.open(window.group, window.gap, times);
        }
        self.adjust(&window);
        self.load.begin(window.load, window.gap);
        self.used = window.load;
        let end = window.measured.saturating_add(self.ticks(window.load.elapsed));
        self.measured = (window.measured, end);
        self.quiet = window.quiet.unwrap_or_default();
        self.windows.push_back(Kept {
            number,
            start: window.start,
            end: window.start.saturating_add(window.length),
            weight,
            group: window.group,
            times,
            chances: window.chances,
            thinned: window.thinned,
            likely: window.likely,
            is_busy: window.is_busy,
            cells: HashMap::default(),
            pairs: Pairs::default(),
        });
        self.cells += 1;
        while self.cells > Self::CELLS
            && let Some(oldest) = self.windows.pop_front()
        {
            self.cells -= 1 + oldest.len();
        }
    }

    /// Notes which functions aren't armed in every window like this one.
    fn adjust(&mut self, window: &Window) {
        let weight = window.gap * window.times();
        let by_lot = |chance: &&Chance| self.groups.is_in(chance.function, window.group);
        for chance in window.chances.iter().filter(by_lot) {
            let is_armed =
                chance.is_armed && window.thinned.is_none_or(|one| one.has(chance.function));
            let whole = Chance { chance: chance.chance * window.likely, is_armed, ..*chance };
            self.functions.entry(chance.function).or_default().lots.add(whole, weight);
            if let Some(own) = self.own.as_mut().filter(|_| window.thinned.is_none()) {
                own.adjust(*chance, weight);
            }
        }
        if window.likely >= 1.0 {
            return;
        }
        for function in self.groups.members(window.group) {
            if !self.groups.is_always(function)
                && window.chances.iter().all(|chance| chance.function != function)
            {
                let is_armed = window.thinned.is_none_or(|thinned| thinned.has(function));
                let chance = Chance { function, chance: window.likely, is_armed };
                self.functions.entry(function).or_default().lots.add(chance, weight);
            }
        }
    }

    /// A call has ended, and `caller` made it, if that's known. Those of a thread come in the order of their ends.
    pub fn add(&mut self, ended: &Ended, caller: Option<Caller>) {
        if ended.tid == 0 {
            // Its thread ended in it, and another one found that out when it had the same stack: when is unknown.
            self.add_open(ended.function, ended.start);
            return;
        }
        let inside = self.threads.of(ended.thread).add(ended.start);
        let found = self.window_of(ended.start);
        let is_recorded = (self.measured.0..self.measured.1).contains(&ended.start);
        let is_newest = found.is_some_and(|(is_newest, _)| is_newest);
        let is_before = (self.quiet.start..self.quiet.end).contains(&ended.start);
        if (is_recorded || is_newest || is_before) && self.newest.len_of_others() < Self::CELLS {
            let Ended { thread, function, .. } = *ended;
            let number = u64::from(function) << 32 ^ u64::from(thread);
            let [recorded, newest, before] = self.newest.of((thread, function), number);
            *recorded += u64::from(is_recorded);
            *newest += u64::from(is_newest);
            *before += u64::from(is_before);
        }
        let Some((_, window)) = found else { return };
        let took = self.seconds(ended.end.saturating_sub(ended.start));
        // Half of what its own recording costs is within the two readings of the clock.
        let recording = (to_float(inside) + 0.5) * self.cost;
        let alike = Alike { window, caller, function: ended.function };
        let batch = self.batches.of(alike, alike.number());
        batch.add((took - recording).max(0.0), recording);
        if self.batches.len_of_others() > Self::CELLS {
            self.take_in();
        }
    }

    /// Takes in what has been added up.
    fn take_in(&mut self) {
        for (mut alike, more) in self.batches.take() {
            alike.caller = alike.caller.filter(|caller| !self.left_out.contains(caller));
            let Some(kept) = self.windows.get_mut(alike.window) else { continue };
            let Some(weight) = kept.weight_of(alike.function, &self.groups) else { continue };
            let count = kept.len();
            let cell = kept.cells.entry(alike.function).or_default();
            let before = *cell;
            self.functions.entry(alike.function).or_default().add(before, &more, weight);
            cell.add(more.cell());
            if let Some(own) = self.own.as_mut().filter(|_| kept.thinned.is_none()) {
                let before = Some(before).filter(|before| before.calls != 0.0);
                // To own times there are no windows that have only some of the functions.
                let is_always = self.groups.was_always(alike.function, kept.number);
                let weight = weight.times(if is_always { 1.0 } else { kept.likely });
                let whole = kept.weight.window * kept.times;
                own.add(&mut kept.pairs, (alike, &more), (kept.group, whole, before), weight);
            }
            self.cells += kept.len() - count;
        }
    }

    /// A call of `function` that began at `start` hasn't ended: it counts, but its time isn't known. `false` if it began in no window.
    pub fn add_open(&mut self, function: u32, start: u64) -> bool {
        let Some((_, at)) = self.window_of(start) else { return false };
        let Some(kept) = self.windows.get_mut(at) else { return false };
        let Some(weight) = kept.weight_of(function, &self.groups) else { return false };
        let cell = kept.cells.entry(function).or_default();
        self.functions.entry(function).or_default().add_open(*cell, weight);
        cell.calls += 1.0;
        true
    }

    /// The window in which a call began at `start`, and whether it's the newest.
    #[inline]
    fn window_of(&mut self, start: u64) -> Option<(bool, usize)> {
        let last = self.windows.len().checked_sub(1);
        let is_newest = self.windows.back().is_some_and(|kept| kept.start <= start);
        // Most others began while hooks were armed, but not the window.
        let last_but_one = last.and_then(|last| self.windows.get(last.checked_sub(1)?));
        if !is_newest && last_but_one.is_some_and(|kept| kept.end <= start) {
            return None;
        }
        let before = || self.windows.partition_point(|kept| kept.start <= start).checked_sub(1);
        let Some(at) = last.filter(|_| is_newest).or_else(before) else {
            self.forgotten += u64::from(self.count > self.windows.len() as u64);
            return None;
        };
        let is_in = self.windows.get(at).is_some_and(|kept| start < kept.end);
        is_in.then_some((at + 1 == self.windows.len(), at))
    }

    /// All calls of the newest window that ended in time are known: how much slower did recording them make their threads?
    fn settle(&mut self) {
        self.take_in();
        let seconds = self.seconds(self.measured.1.saturating_sub(self.measured.0));
        let newest = self.newest.take();
        self.witness(&newest);
        let Some(kept) = self.windows.back() else { return };
        let (mut by_thread, mut by_function) = (HashMap::default(), HashMap::default());
        for ((thread, function), [calls, ..]) in
            newest.iter().filter(|(_, [calls, ..])| *calls != 0)
        {
            let (thread, function, calls) = (*thread, *function, *calls);
            *by_thread.entry(thread).or_insert(0) += calls;
            *by_function.entry(function).or_insert(0) += calls;
        }
        let part = |calls: u64| to_float(calls) * self.cost / seconds.max(f64::MIN_POSITIVE);
        for ((thread, function), [_, calls, _]) in
            newest.into_iter().filter(|(_, [_, calls, _])| *calls != 0)
        {
            let recorded = by_thread.get(&thread).copied().unwrap_or(0);
            if let Some(weight) = kept.weight_of(function, &self.groups) {
                let sums = self.functions.entry(function).or_default();
                sums.add_slower(to_float(calls), part(recorded), weight);
            }
        }
        let all: u64 = by_thread.values().sum();
        self.load.end(by_thread.into_values().map(part));
        self.calibrate(all, &by_function);
    }

    /// There were these calls in the newest window, and before it: how much slower was the program in it?
    fn witness(&mut self, calls: &[((u32, u32), [u64; 3])]) {
        let Quiet { start, end, witnesses } = std::mem::take(&mut self.quiet);
        let before = self.seconds(end.saturating_sub(start));
        let Some(kept) = self.windows.back().filter(|_| before > 0.0) else { return };
        let seconds = self.seconds(kept.end.saturating_sub(kept.start)).max(f64::MIN_POSITIVE);
        // Recording takes the time of the thread whose calls it records.
        let mut threads: HashMap<u32, Pair> = HashMap::default();
        for ((thread, function), [_, calls, calls_before]) in calls {
            let (within, before) = (to_float(*calls) / seconds, to_float(*calls_before) / before);
            let pair = threads.entry(*thread).or_default();
            pair.many += within;
            pair.few += before;
            if witnesses.contains(function) {
                pair.within += within;
                pair.before += before;
            }
        }
        let group = (kept.group, kept.is_busy);
        self.slowdown.add(group, kept.weight.window, threads.into_values());
    }

    /// The newest window had so many calls while its load was measured, and these of each function.
    fn calibrate(&mut self, all: u64, by_function: &HashMap<u32, u64>) {
        let Load { used, elapsed } = std::mem::take(&mut self.used);
        let Some(kept) = self.windows.back().filter(|_| elapsed > 0.0) else { return };
        let window = Measured {
            weight: kept.weight.window,
            used: used / elapsed,
            calls: to_float(all) / elapsed,
            elapsed,
            is_thinned: kept.thinned.is_some(),
        };
        let members = self.groups.members(kept.group);
        let of_group = members.filter(|one| !self.groups.was_always(*one, kept.number));
        let armed = of_group.filter(|one| kept.weight_of(*one, &self.groups).is_some());
        let calls = |function: u32| by_function.get(&function).copied().unwrap_or(0);
        self.calibration.add(&window, armed, calls);
    }

    /// What is known now. `outside` is what the program used when nothing was armed.
    pub fn rows(&mut self, outside: Load) -> Vec<Row> {
        let slowed = self.slowed(outside);
        let recording = self.recording();
        let by = Corrections { slowed, groups: &self.groups, recording: &recording };
        let own = self.own.as_ref().map(|own| own.of_callers(&by));
        let seen = self.functions.iter().filter(|(_, sums)| sums.calls() != 0);
        let row = |(function, sums): (&u32, &Sums)| {
            let all = self.all.of(*function, &self.groups);
            let recording = recording.get(function).copied().unwrap_or_default();
            let row = sums.row(*function, &all, (slowed, recording), self.cost);
            // All time of what calls nothing is its own.
            let time = |own: &HashMap<u32, Estimate>| {
                let own = own.get(function).copied().unwrap_or(row.share);
                Estimate { error: own.error.filter(|_| row.share.error.is_some()), ..own }
            };
            Row { own: own.as_ref().map(time), ..row }
        };
        let mut rows: Vec<Row> = seen.map(row).collect();
        rows.sort_unstable_by_key(|row| row.function);
        rows
    }

    /// Who calls whom, as far as it's known. `outside` is what the program used when nothing was armed.
    pub fn called(&mut self, outside: Load) -> Vec<Called> {
        let slowed = self.slowed(outside);
        let recording = self.recording();
        let by = Corrections { slowed, groups: &self.groups, recording: &recording };
        self.own.as_ref().map(|own| own.called(&by)).unwrap_or_default()
    }

    fn slowed(&mut self, outside: Load) -> load::Slowed {
        self.settle();
        self.load.slowed(outside, self.calibration.cost(self.cost))
    }

    /// The part of their threads' time that recording took when each function was called, at its usual cost.
    fn recording(&self) -> HashMap<u32, load::Recording> {
        let seen = self.functions.iter().filter(|(_, sums)| sums.calls() != 0);
        seen.map(|(function, sums)| (*function, sums.slower(self.told(*function)))).collect()
    }

    /// What witnesses tell of recording in windows of a function.
    fn told(&self, function: u32) -> Option<Told> {
        let is_always = self.groups.is_always(function);
        let told =
            self.slowdown.of(self.groups.of(function)).filter(|_| !is_always && self.cost > 0.0)?;
        Some(told.per(self.cost))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it's positive")]
    fn ticks(&self, seconds: f64) -> u64 {
        (seconds.max(0.0) / self.tick) as u64
    }

    fn seconds(&self, ticks: u64) -> f64 {
        to_float(ticks) * self.tick
    }
}

impl Kept {
    /// What is kept of it.
    fn len(&self) -> usize {
        self.cells.len() + self.pairs.len()
    }

    /// What a call of `function` counts for; nothing if it wasn't armed.
    fn weight_of(&self, function: u32, groups: &Groups) -> Option<Weight> {
        if groups.was_always(function, self.number) {
            return Some(self.weight);
        }
        if groups.of(function) != self.group {
            return None;
        }
        if self.thinned.is_some_and(|thinned| !thinned.has(function)) {
            return None;
        }
        let mut all = self.likely;
        if let Some(chance) = self.chances.iter().find(|chance| chance.function == function) {
            if !chance.is_armed {
                return None;
            }
            all *= chance.chance;
        }
        Some(self.weight.times(self.times / all))
    }
}

/// The standard deviation of a ratio: `sum` is the sum of squares over `count` windows, and `denominator` what they're divided by.
fn deviation(sum: f64, denominator: f64, count: u64) -> f64 {
    if count < 2 || denominator <= 0.0 {
        return f64::INFINITY;
    }
    let count = to_float(count);
    (sum.max(0.0) * count / (count - 1.0)).sqrt() / denominator
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts are far below 2^52, or needn't be exact"
)]
fn to_float(number: u64) -> f64 {
    number as f64
}
