//! Chains of callers: calls of the same functions by the same functions are one, with its number of calls and its time. Folded stacks
//! and call graphs are made of these.

use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Call, Trace, Visitor};
use rayon::prelude::*;
use std::collections::HashMap;

/// Deeper chains are cut off here: every chain is a line, and one of a million names serves nobody.
pub(crate) const DEEPEST: usize = 512;

/// Calls that a processor takes at a time.
const STRETCH: u64 = 500_000;

/// A chain: the one without its last function, and that.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) parent: Option<usize>,
    pub(crate) last: Last,
    length: usize,
    pub(crate) calls: u64,
    /// Calls beneath it that have no chain of their own.
    pub(crate) deeper: u64,
    /// Nanoseconds in its last function, and in nothing that has a chain of its own. It's negative if calls overlap.
    pub(crate) own: i64,
    /// Functions that it called lately, and the chains with them, by the functions' numbers: most calls are like one before.
    recent: [(u32, usize); RECENT],
}

/// How many functions a chain has in mind.
const RECENT: usize = 4;

/// No function has this number: those have 24 bits.
const NOBODY: u32 = u32::MAX;

/// What a chain ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Last {
    /// A process calls its outermost functions.
    Process(Option<usize>),
    /// The function with this number.
    Function(u32),
}

/// The chains of some calls. A parent comes before what it is in.
pub(crate) struct Chains {
    /// In the order in which they came up.
    pub(crate) all: Vec<Chain>,
    numbers: HashMap<(Option<usize>, Last), usize, foldhash::fast::RandomState>,
    most: usize,
}

impl Chains {
    /// None yet; there can be so many.
    fn new(most: usize) -> Self {
        Self { all: Vec::new(), numbers: HashMap::default(), most }
    }

    /// The chain `parent` with a function behind it.
    #[inline]
    fn call(&mut self, parent: usize, function: u32) -> usize {
        let place = function as usize % RECENT;
        let found = self.all.get(parent).and_then(|chain| chain.recent.get(place)).copied();
        if let Some((_, chain)) = found.filter(|(of, _)| *of == function) {
            return chain;
        }
        let chain = self.get(Some(parent), Last::Function(function));
        let room = self.all.get_mut(parent).and_then(|chain| chain.recent.get_mut(place));
        if let Some(room) = room {
            *room = (function, chain);
        }
        chain
    }

    fn get(&mut self, parent: Option<usize>, last: Last) -> usize {
        if let Some(known) = self.numbers.get(&(parent, last)) {
            return *known;
        }
        let length = parent.and_then(|parent| self.all.get(parent)).map_or(0, |p| p.length + 1);
        if let Some(parent) = parent
            && (length > DEEPEST || self.all.len() >= self.most)
        {
            return parent;
        }
        let (calls, deeper, own, recent) = (0, 0, 0, [(NOBODY, 0); RECENT]);
        self.all.push(Chain { parent, last, length, calls, deeper, own, recent });
        self.numbers.insert((parent, last), self.all.len() - 1);
        self.all.len() - 1
    }

    /// A call of `chain`; one that `is_deeper` has no chain of its own.
    fn count(&mut self, chain: usize, is_deeper: bool) {
        if let Some(chain) = self.all.get_mut(chain) {
            let count = if is_deeper { &mut chain.deeper } else { &mut chain.calls };
            *count += 1;
        }
    }

    /// `chain` took this time, which wasn't its caller's.
    fn spend(&mut self, chain: usize, nanoseconds: u64) {
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        let Some(chain) = self.all.get_mut(chain) else { return };
        chain.own = chain.own.saturating_add(nanoseconds);
        let parent = chain.parent;
        if let Some(parent) = parent.and_then(|parent| self.all.get_mut(parent))
            && matches!(parent.last, Last::Function(_))
        {
            parent.own = parent.own.saturating_sub(nanoseconds);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        let mut places: Vec<usize> = Vec::with_capacity(other.all.len());
        for of in other.all {
            let parent = of.parent.and_then(|parent| places.get(parent)).copied();
            let place = self.get(parent, of.last);
            if let Some(chain) = self.all.get_mut(place) {
                let is_deeper = parent == Some(place);
                let (calls, deeper) = if is_deeper { (0, of.calls) } else { (of.calls, 0) };
                chain.calls += calls;
                chain.deeper += deeper + of.deeper;
                chain.own = chain.own.saturating_add(of.own);
            }
            places.push(place);
        }
        self
    }
}

/// Which calls are added up.
pub(crate) struct Scope<'c> {
    pub(crate) trace: &'c Trace<'c>,
    pub(crate) filter: &'c Filter<'c>,
    /// Calls have durations.
    pub(crate) has_times: bool,
    /// How many chains there can be; calls that would need more count with their callers.
    pub(crate) most: usize,
}

/// The chains of all calls. Stretches of threads are looked at by all processors.
pub(crate) fn collect(scope: &Scope<'_>, progress: &Progress<'_>) -> Chains {
    let latest = scope.trace.nanoseconds(scope.trace.latest());
    let new = || Collector { chains: Chains::new(scope.most), scope, latest };
    let stretches = scope.trace.stretches(STRETCH, |thread| scope.filter.has_thread(thread));
    let collectors = stretches.par_iter().fold(new, |mut collector, stretch| {
        if !progress.is_stopped() {
            scope.trace.visit(stretch, &mut collector);
            progress.add(stretch.calls);
        }
        collector
    });
    let chains = collectors.map(|collector| collector.chains);
    chains.reduce(|| Chains::new(scope.most), Chains::merge)
}

/// Where a chain is, if there is one.
#[derive(Clone, Copy, Default)]
struct ChainIndex(Option<usize>);

/// Adds up the calls of stretches.
struct Collector<'c> {
    chains: Chains,
    scope: &'c Scope<'c>,
    /// When calls that had not ended count as ended.
    latest: u64,
}

impl Collector<'_> {
    /// The chain of a call and its parent; of one that isn't wanted, that of what it's called by, and no parent.
    fn chain(&mut self, call: &Call, caller: Option<ChainIndex>) -> (ChainIndex, Option<usize>) {
        let (start, end) = self.scope.filter.times(call);
        let caller = caller.unwrap_or_default();
        if self.scope.filter.is_too_late(start) || !self.scope.filter.is_wanted(call, start, end) {
            return (caller, None);
        }
        let parent = caller.0.unwrap_or_else(|| {
            let process = self.scope.trace.process_at(call.thread, call.start);
            self.chains.get(None, Last::Process(process))
        });
        (ChainIndex(Some(self.chains.call(parent, call.function))), Some(parent))
    }
}

impl Visitor for Collector<'_> {
    /// The chain of the call, or of the nearest around it that's wanted.
    type Mark = ChainIndex;

    fn enter(&mut self, call: &Call, caller: Option<ChainIndex>) -> ChainIndex {
        let (chain, parent) = self.chain(call, caller);
        if let (Some(place), Some(parent)) = (chain.0, parent) {
            self.chains.count(place, place == parent);
            if self.scope.has_times && place != parent {
                let (start, end) = self.scope.filter.times(call);
                self.chains.spend(place, end.unwrap_or(self.latest).saturating_sub(start));
            }
        }
        chain
    }

    fn enclose(&mut self, call: &Call, caller: Option<ChainIndex>) -> ChainIndex {
        self.chain(call, caller).0
    }

    fn leave(&mut self, _: ChainIndex) {}
}
