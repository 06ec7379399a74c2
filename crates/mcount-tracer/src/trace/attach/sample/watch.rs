//! Functions that are armed between windows, too, so that none of their slow calls is missed.
//!
//! That's for functions that are called so seldom that all their calls together cost little. Which ones these are, windows tell first. From
//! then on all their calls are known, and those that turn out to be called too often are armed in windows alone, for good.

use super::super::sites::{Switch, flip};
use super::super::worker::Worker;
use super::groups::Groups;
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// So many windows of a group tell how often its functions are called.
const WINDOWS: u32 = 3;
/// For so long calls are counted, at least, before it's decided that they are too many.
const LONG_ENOUGH: Duration = Duration::from_millis(100);

/// Which functions are watched, if any are to be.
#[derive(Debug, Default)]
pub(super) struct Watch {
    is_wanted: bool,
    /// Windows that each group has had.
    windows: HashMap<u32, u32>,
    watched: BTreeSet<u32>,
    /// Functions that are called too often.
    busy: BTreeSet<u32>,
    /// Calls in a second of watched functions, as far as it's known.
    rates: HashMap<u32, f64>,
    counts: HashMap<u32, u64>,
    since: Option<Instant>,
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
    pub(super) fn all(&self) -> &BTreeSet<u32> {
        &self.watched
    }

    /// A call has ended.
    pub(super) fn saw(&mut self, function: u32) {
        if !self.watched.is_empty() && self.has(function) {
            *self.counts.entry(function).or_default() += 1;
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
        self.watched.extend(&chosen);
        self.busy.extend(&busy);
        [chosen, busy]
    }

    /// Another period begins. Functions that were called too often may no longer be. Those that are watched go on being it.
    pub(super) fn begin(&mut self) {
        self.busy.clear();
        self.windows.clear();
    }

    /// All calls until now were seen. The functions that are watched no longer, so that there are at most so many calls in a second.
    pub(super) fn shed(&mut self, most: f64) -> BTreeSet<u32> {
        let mut shed = BTreeSet::new();
        let elapsed = self.since.get_or_insert_with(Instant::now).elapsed();
        if elapsed < LONG_ENOUGH {
            return shed;
        }
        for (function, rate) in &mut self.rates {
            let calls = self.counts.get(function).copied().unwrap_or(0);
            *rate = super::random::float(calls) / elapsed.as_secs_f64();
        }
        self.counts.clear();
        self.since = Some(Instant::now());
        let mut sum: f64 = self.rates.values().sum();
        while sum > most
            && let Some((function, rate)) = self.busiest()
        {
            sum -= rate;
            self.rates.remove(&function);
            self.watched.remove(&function);
            self.busy.insert(function);
            shed.insert(function);
        }
        shed
    }

    fn busiest(&self) -> Option<(u32, f64)> {
        let rates = self.rates.iter().map(|(function, rate)| (*function, *rate));
        rates.max_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)))
    }
}

/// Switches the hooks of these functions on or off, wherever they are.
pub(super) fn switch(
    worker: &Worker,
    (groups, switches): (&Groups, &BTreeMap<u32, Vec<Switch>>),
    functions: &BTreeSet<u32>,
    is_on: bool,
) -> io::Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let session = &worker.session;
    let done = session.switch_instrumented(is_on, |function| functions.contains(&function));
    let of: BTreeSet<u32> = functions.iter().map(|function| groups.of(*function)).collect();
    let all = of.iter().filter_map(|group| switches.get(group)).flatten();
    let chosen = all.filter(|one| functions.contains(&one.function));
    let done = done.and_then(|()| flip(&session.memory, chosen, is_on));
    if session.is_there() { done } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rates: &[(u32, f64)]) -> HashMap<u32, f64> {
        rates.iter().copied().collect()
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
    fn what_is_called_too_often_is_not() {
        let mut watch = Watch::new(true);
        for _ in 0..WINDOWS {
            watch.choose(0, 1..=3, None, 1000.0);
        }
        watch.since = Instant::now().checked_sub(Duration::from_secs(1));
        for function in [1, 2, 2, 3, 3, 3, 3] {
            watch.saw(function);
        }
        assert_eq!(watch.shed(5.0), BTreeSet::from([3]));
        // Not again before it's known how often they are called.
        watch.saw(1);
        assert_eq!(watch.shed(0.5), BTreeSet::new());
        assert_eq!(watch.all(), &BTreeSet::from([1, 2]));
        // It may be another time in the next period.
        let last = |watch: &mut Watch| {
            (0..WINDOWS).map(|_| watch.choose(0, 1..=3, None, 1000.0)).last().unwrap()
        };
        let none = [BTreeSet::new(), BTreeSet::new()];
        assert_eq!(last(&mut watch), none);
        watch.begin();
        assert_eq!(last(&mut watch), [BTreeSet::from([3]), BTreeSet::new()]);
        assert_eq!(watch.all(), &BTreeSet::from([1, 2, 3]));
    }
}
