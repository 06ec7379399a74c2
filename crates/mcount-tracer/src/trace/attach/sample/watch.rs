//! Functions that are armed between windows, too: those that are called so seldom that all their calls together cost less than arming them in
//! each window of a group does.
//!
//! A program has thousands of functions that it never calls. The first ones to be watched are those of which the glances at the start saw no call.
//! If slow calls are wanted, windows tell which others are called seldom. From then on all calls of these are known, and functions
//! that turn out to be called too often are armed in windows alone, for good.

use super::super::worker::Worker;
use super::Sampler;
use super::counts::Counts;
use super::hooks::Hooks;
use foldhash::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many windows of a group tell how often its functions are called.
const WINDOWS: u32 = 3;
/// For so long calls are counted, at least, before it's decided that they are too many.
const LONG_ENOUGH: Duration = Duration::from_millis(100);
/// How often it's looked whether calls are far too many. To wake takes up to 60 µs, which is 0.2 % of a processor: at a cost of 2 %, three
/// times as often leaves room for half as many windows.
pub(super) const FLOOD: Duration = Duration::from_millis(30);
/// Of a program that makes more processes than these, nothing is armed between windows: each of its processes would have all of it, and has to be
/// looked for.
const PROCESSES: usize = 8;

/// Which functions are watched, if any are to be.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Slow calls are wanted, of as many functions as can be.
    is_wanted: bool,
    /// Windows that each group has had.
    windows: HashMap<u32, u32>,
    watched: Arc<HashSet<u32>>,
    /// Those that have been from the start on, and so were in no window of a group.
    first: HashSet<u32>,
    /// Functions that are called too often.
    busy: BTreeSet<u32>,
    /// Calls in a second of watched functions, as far as it's known.
    rates: HashMap<u32, f64>,
    counts: Counts,
    since: Option<Instant>,
    /// There are far too many: calls were lost, or would have been soon.
    is_hurried: bool,
}

impl Watch {
    /// Nothing is watched yet, or ever.
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, ..Self::default() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    pub(super) fn has(&self, function: u32) -> bool {
        self.watched.contains(&function)
    }

    /// The functions that are watched.
    pub(super) fn all(&self) -> &Arc<HashSet<u32>> {
        &self.watched
    }

    /// These are watched from the start on.
    pub(super) fn begin_with(&mut self, functions: &BTreeSet<u32>) {
        Arc::make_mut(&mut self.watched).extend(functions);
        self.first.extend(functions);
    }

    /// Has it been watched from the start on?
    fn is_first(&self, function: u32) -> bool {
        self.first.contains(&function)
    }

    /// The process has made so many others. Is that too many?
    pub(super) fn is_given_up(&self, processes: usize) -> bool {
        !self.is_wanted && processes > PROCESSES
    }

    /// Calls come so fast that it won't wait any longer.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// A call has ended, of any function.
    #[inline]
    pub(super) fn saw(&mut self, function: u32) {
        if !self.watched.is_empty() {
            self.counts.add(function);
        }
    }

    /// A group has had a window. The functions of it that are watched from now on, and those that aren't and won't be: their calls in a
    /// second, `rates`, would make it more than `most`.
    pub(super) fn choose(
        &mut self,
        group: u32,
        functions: impl Iterator<Item = u32>,
        rates: Option<&HashMap<u32, f64>>,
        most: f64,
    ) -> [BTreeSet<u32>; 2] {
        let windows = self.windows.entry(group).or_default();
        *windows += 1;
        if !self.is_wanted || *windows < WINDOWS {
            return [BTreeSet::new(), BTreeSet::new()];
        }
        let rate = |function: u32| rates.and_then(|rates| rates.get(&function)).copied();
        let unknown = functions.filter(|one| !self.has(*one) && !self.busy.contains(one));
        let mut candidates: Vec<(f64, u32)> =
            unknown.map(|function| (rate(function).unwrap_or(0.0), function)).collect();
        candidates
            .sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let mut sum: f64 = self.rates.values().sum();
        let (mut chosen, mut busy) = (BTreeSet::new(), BTreeSet::new());
        for (rate, function) in candidates {
            if sum + rate > most {
                busy.insert(function);
                continue;
            }
            sum += rate;
            self.rates.insert(function, rate);
            chosen.insert(function);
        }
        Arc::make_mut(&mut self.watched).extend(&chosen);
        self.busy.extend(&busy);
        [chosen, busy]
    }

    /// Another period begins. Functions that were called too often may no longer be. Those that are watched go on being it.
    pub(super) fn begin(&mut self) {
        self.busy.clear();
        self.windows.clear();
        self.first.clone_from(&self.watched);
    }

    /// All calls until now were seen. The functions that are watched no longer, so that there are at most so many calls in a second; and how
    /// many they have.
    pub(super) fn shed(&mut self, most: f64) -> BTreeMap<u32, f64> {
        let mut shed = BTreeMap::new();
        let elapsed = self.since.get_or_insert_with(Instant::now).elapsed();
        let is_hurried = std::mem::take(&mut self.is_hurried);
        if elapsed < LONG_ENOUGH && !is_hurried {
            return shed;
        }
        // In a flood, all came since it was looked at last. A moment later, a single call would be a million in a second.
        let elapsed = if is_hurried { FLOOD } else { elapsed };
        let mut rates = HashMap::default();
        for (function, calls) in self.counts.iter().filter(|(one, _)| self.has(*one)) {
            rates.insert(function, f64::from(calls) / elapsed.as_secs_f64());
        }
        self.rates = rates;
        self.counts.clear();
        self.since = Some(Instant::now());
        let mut sum: f64 = self.rates.values().sum();
        if sum <= most {
            return shed;
        }
        let mut rates: Vec<(f64, u32)> = self.rates.iter().map(|one| (*one.1, *one.0)).collect();
        rates.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(other.1.cmp(&one.1)));
        for (rate, function) in rates {
            if sum <= most {
                break;
            }
            sum -= rate;
            self.rates.remove(&function);
            Arc::make_mut(&mut self.watched).remove(&function);
            self.busy.insert(function);
            shed.insert(function, rate);
        }
        shed
    }

    /// Nothing is watched any longer. What was, and calls in a second.
    pub(super) fn end(&mut self) -> BTreeMap<u32, f64> {
        let rates = std::mem::take(&mut self.rates);
        let watched = std::mem::take(&mut *Arc::make_mut(&mut self.watched));
        let rate = |function: &u32| rates.get(function).copied().unwrap_or(0.0);
        watched.iter().map(|function| (*function, rate(function))).collect()
    }
}

impl Sampler {
    /// Where hooks are switched now.
    pub(super) fn find_hooks(&self, worker: &Worker) -> io::Result<Hooks> {
        Hooks::of(worker, &self.steering.groups, (self.watch.all(), &self.steering.witnesses))
    }

    /// Glances, or the windows of a period that is over, have told how often functions are called: chooses their groups.
    pub(super) fn set_apart(&mut self, worker: &Worker) -> io::Result<()> {
        self.steering.set_apart(|function| self.watch.has(function));
        let groups = self.steering.groups.clone();
        self.observer.regroup(&|function| groups.of(function));
        self.hooks = self.find_hooks(worker)?;
        Ok(())
    }

    /// Has functions armed all the time of which no glance saw a call.
    pub(super) fn watch_first(&mut self, worker: &Worker) -> io::Result<()> {
        let rates = self.steering.all_rates();
        let called: BTreeSet<u32> = rates.map(|(_, function)| function).collect();
        let all = self.functions.iter().copied();
        let seldom: BTreeSet<u32> = all.filter(|one| !called.contains(one)).collect();
        self.watch.begin_with(&seldom);
        self.set_watched(worker, &seldom, true)
    }

    /// Has these functions armed all the time, or in windows alone.
    fn set_watched(
        &mut self,
        worker: &Worker,
        functions: &BTreeSet<u32>,
        is_on: bool,
    ) -> io::Result<()> {
        if !functions.is_empty() {
            self.hooks.watch(worker, (&self.steering.groups, functions), is_on)?;
            self.observer.watch(functions, is_on.then(|| worker.trace.ticks()));
        }
        Ok(())
    }

    /// Chooses which functions are armed until the next window, too, and has them so. A window of this group was the last one.
    pub(super) fn choose_watched(&mut self, worker: &Worker, group: u32) -> io::Result<()> {
        self.shed(worker)?;
        if !self.watch.is_wanted() {
            return Ok(());
        }
        let most = self.steering.room_to_watch(true);
        let groups = self.steering.groups.clone();
        let functions = self.functions.iter().copied().filter(|one| groups.of(*one) == group);
        let rates = self.steering.rates(group);
        let [chosen, busy] = self.watch.choose(group, functions, rates, most);
        if !busy.is_empty() {
            self.observer.watch(&busy, None);
        }
        self.set_watched(worker, &chosen, true)
    }

    /// Has functions armed in windows alone that are called too often for more.
    pub(super) fn shed(&mut self, worker: &Worker) -> io::Result<()> {
        let most = self.steering.room_to_watch(self.watch.is_wanted());
        let is_given_up = self.watch.is_given_up(self.others);
        let shed = if is_given_up { self.watch.end() } else { self.watch.shed(most) };
        if shed.is_empty() {
            return Ok(());
        }
        // The program has begun to do something else.
        let rates = shed.iter().map(|(function, rate)| (*function, *rate));
        let witnesses = Arc::clone(&self.steering.witnesses);
        let moved = self.steering.take_in(rates, |function| self.watch.is_first(function));
        self.observer.moved(&moved);
        self.idle.hurry();
        self.set_watched(worker, &shed.into_keys().collect(), false)?;
        if witnesses != self.steering.witnesses {
            self.hooks = self.find_hooks(worker)?;
        }
        Ok(())
    }

    /// Looks, and has functions armed in windows alone that are called too often for more. If there's a flood of their calls, none is armed while
    /// it's looked: it takes longer to read them than to make them. If slow calls are wanted, some may begin at that time, so all stay armed.
    pub(super) fn stem(&mut self, worker: &Worker) -> io::Result<()> {
        let is_flooded = self.is_flooded(worker) && !self.watch.is_wanted();
        if is_flooded {
            self.hooks.pause(worker, true)?;
            self.watch.hurry();
        }
        self.look(worker);
        self.shed(worker)?;
        if is_flooded {
            self.hooks.pause(worker, false)?;
            self.steering.pass();
        }
        Ok(())
    }

    /// Has much been recorded since it was looked at last, while functions are armed all the time? If a program that was idle begins
    /// to work, all of it is.
    pub(super) fn is_flooded(&self, worker: &Worker) -> bool {
        /// Chunks of a few thousand calls: more than may be recorded in so short a time.
        const MANY: u64 = 8;
        self.may_flood() && worker.trace.turns().saturating_sub(self.turns) >= MANY
    }

    /// Is anything armed all the time?
    pub(super) fn may_flood(&self) -> bool {
        !self.watch.all().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rates: &[(u32, f64)]) -> HashMap<u32, f64> {
        rates.iter().copied().collect()
    }

    fn watched(watch: &Watch) -> Vec<u32> {
        let all: BTreeSet<u32> = watch.all().iter().copied().collect();
        all.into_iter().collect()
    }

    #[test]
    fn what_is_called_seldom_is_watched() {
        let mut watch = Watch::new(true);
        let seen = rates(&[(1, 50.0), (2, 1e6), (3, 0.0)]);
        let mut choose = |most| watch.choose(0, 1..=4, Some(&seen), most);
        let none = [BTreeSet::new(), BTreeSet::new()];
        assert_eq!([choose(100.0), choose(100.0)], [none.clone(), none.clone()]);
        assert_eq!(choose(100.0), [BTreeSet::from([1, 3, 4]), BTreeSet::from([2])]);
        assert_eq!(choose(1e9), none);
        assert!(!watch.has(2) && watch.has(4));
        let mut never = Watch::new(false);
        assert!((0..9).all(|_| never.choose(0, 1..=4, None, 1e9) == none));
    }

    #[test]
    fn in_a_flood_it_does_not_wait() {
        let mut watch = Watch::new(false);
        watch.begin_with(&BTreeSet::from([1, 2]));
        assert!(watch.shed(1000.0).is_empty());
        (0..50).for_each(|_| watch.saw(1));
        watch.saw(2);
        // It's too early, unless there are far too many.
        assert!(watch.shed(1000.0).is_empty());
        watch.hurry();
        assert_eq!(watch.shed(1000.0), BTreeMap::from([(1, 50.0 / FLOOD.as_secs_f64())]));
        // That was one time.
        (0..50).for_each(|_| watch.saw(2));
        assert!(watch.shed(1000.0).is_empty());
        watch.since = Instant::now().checked_sub(LONG_ENOUGH);
        assert!(watch.shed(1000.0).is_empty());
    }

    /// Of nine other processes, each would have all hooks armed.
    #[test]
    fn nothing_is_watched_in_a_program_that_makes_processes() {
        let given_up = |is_wanted, others| Watch::new(is_wanted).is_given_up(others);
        assert_eq!(
            [given_up(false, 8), given_up(false, 9), given_up(true, 9)],
            [false, true, false]
        );
        let mut watch = Watch::new(false);
        watch.begin_with(&BTreeSet::from([1, 2]));
        assert_eq!(watch.end(), BTreeMap::from([(1, 0.0), (2, 0.0)]));
        assert!(watch.all().is_empty() && watch.end().is_empty());
    }

    #[test]
    fn what_is_called_too_often_is_not() {
        let mut watch = Watch::new(true);
        for _ in 0..WINDOWS {
            watch.choose(0, 1..=3, None, 1000.0);
        }
        watch.since = Instant::now().checked_sub(Duration::from_secs(1));
        for function in [1, 2, 2, 3, 3, 3, 3] {
            watch.saw(function);
        }
        assert!(watch.shed(5.0).into_keys().eq([3]));
        // Not again before it's known how often they are called.
        watch.saw(1);
        assert!(watch.shed(0.5).is_empty());
        assert_eq!(watched(&watch), [1, 2]);
        // It may be another time in the next period.
        let last = |watch: &mut Watch| {
            (0..WINDOWS).map(|_| watch.choose(0, 1..=3, None, 1000.0)).last().unwrap()
        };
        let none = [BTreeSet::new(), BTreeSet::new()];
        assert_eq!(last(&mut watch), none);
        watch.begin();
        assert_eq!(last(&mut watch), [BTreeSet::from([3]), BTreeSet::new()]);
        assert_eq!(watched(&watch), [1, 2, 3]);
    }
}
