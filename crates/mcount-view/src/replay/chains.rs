//! Chains of callers: calls of the same functions by the same functions are one, with its number of calls and its time. Folded stacks,
//! call graphs and profiles are made of these.

use super::progress::Progress;
use super::select::Filter;
use super::visit::{between, visit_all};
use super::waits::{Kind, Waits};
use super::{Names, program_name};
use mcount_trace::{Call, Trace, Visitor};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::Range;

/// Deeper chains are cut off here: every chain is a line, and one of a million names serves nobody.
pub(crate) const DEEPEST: usize = 512;

/// A chain: the one without its last function, and that.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) parent: Option<usize>,
    pub(crate) last: Last,
    /// How many functions it has.
    pub(crate) length: usize,
    pub(crate) calls: u64,
    /// Calls beneath it that have no chain of their own.
    pub(crate) deeper: u64,
    /// Nanoseconds in its last function, and in nothing that has a chain of its own. It can be negative if a thread's records aren't in
    /// the order of ends.
    pub(crate) own: i64,
    /// The part of `own` that was waiting, or that its caller waited.
    idle: i64,
    /// Nanoseconds that the last function waited, with those of calls beneath it that stand for time off the processor.
    waited: i64,
    /// Functions that it called lately, and the chains with them, by the functions' numbers: most calls are like one before.
    recent: [(u32, usize); RECENT],
}

/// How many functions a chain has in mind.
const RECENT: usize = 4;

/// No function has this number: those have 24 bits.
const NOBODY: u32 = u32::MAX;

impl Chain {
    /// How often its last function was called.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls.saturating_add(self.deeper)
    }

    /// Nanoseconds in its last function alone: running, and waiting. Time off the processor is waiting of the function that was
    /// interrupted, as it is for `stats`.
    pub(crate) fn split(&self) -> [u64; 2] {
        let running = self.own.saturating_sub(self.idle.max(0));
        [running, self.waited].map(|time| u64::try_from(time).unwrap_or(0))
    }
}

/// What a chain ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Last {
    /// A process calls its outermost functions; or one of its threads, by its place in the trace, counted from 1.
    Process(Option<usize>, Option<NonZeroU32>),
    /// The function with this number.
    Function(u32),
}

/// The chains of some calls. A parent comes before what it is in.
pub(crate) struct Chains {
    /// In the order in which they came up.
    pub(crate) all: Vec<Chain>,
    numbers: HashMap<(Option<usize>, Last), usize, foldhash::fast::RandomState>,
    most: usize,
    /// The most functions of a chain.
    longest: usize,
}

impl Chains {
    /// None yet.
    fn new(scope: &Scope<'_>) -> Self {
        let longest = DEEPEST + usize::from(scope.keeps_deep);
        Self { all: Vec::new(), numbers: HashMap::default(), most: scope.most, longest }
    }

    /// The chain of a call that a call of chain `caller` makes: `caller` with a function behind it, or, if that would be too long and
    /// callees are kept, in the place of its last one.
    #[inline]
    fn call(&mut self, caller: usize, function: u32) -> usize {
        let is_full = self.longest > DEEPEST
            && self.all.get(caller).is_some_and(|chain| chain.length == self.longest);
        let parent =
            if is_full { self.all.get(caller).and_then(|chain| chain.parent) } else { None };
        let parent = parent.unwrap_or(caller);
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
            && (length > self.longest || self.all.len() >= self.most)
        {
            return parent;
        }
        let (calls, deeper, recent) = (0, 0, [(NOBODY, 0); RECENT]);
        let (own, idle, waited) = (0, 0, 0);
        self.all.push(Chain { parent, last, length, calls, deeper, own, idle, waited, recent });
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
    fn spend(&mut self, chain: usize, caller: usize, nanoseconds: i64) {
        let Some(chain) = self.all.get_mut(chain) else { return };
        chain.own = chain.own.saturating_add(nanoseconds);
        if let Some(caller) = self.function(caller) {
            caller.own = caller.own.saturating_sub(nanoseconds);
        }
    }

    /// The chain, if it ends with a function.
    fn function(&mut self, chain: usize) -> Option<&mut Chain> {
        self.all.get_mut(chain).filter(|chain| matches!(chain.last, Last::Function(_)))
    }

    /// `chain` waited so long, or did something in a function that waits.
    fn wait(&mut self, chain: usize, nanoseconds: i64) {
        if let Some(chain) = self.function(chain) {
            chain.idle = chain.idle.saturating_add(nanoseconds);
            chain.waited = chain.waited.saturating_add(nanoseconds);
        }
    }

    /// `chain` is time off the processor, in which `caller` waited.
    fn interrupt(&mut self, chain: usize, caller: usize, nanoseconds: i64) {
        let Some(caller) = self.function(caller) else { return self.wait(chain, nanoseconds) };
        caller.waited = caller.waited.saturating_add(nanoseconds);
        if let Some(chain) = self.all.get_mut(chain) {
            chain.idle = chain.idle.saturating_add(nanoseconds);
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
                chain.idle = chain.idle.saturating_add(of.idle);
                chain.waited = chain.waited.saturating_add(of.waited);
            }
            places.push(place);
        }
        self
    }

    /// The places of all chains: callers before what they called, and what they called by name. Which processor saw what first is
    /// chance.
    pub(crate) fn in_order(&self, order: &Order) -> Vec<usize> {
        let mut inside: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        let mut rest = Vec::new();
        for (at, chain) in self.all.iter().enumerate() {
            match chain.parent.and_then(|parent| inside.get_mut(parent)) {
                Some(siblings) => siblings.push(at),
                None => rest.push(at),
            }
        }
        let key = |at: &usize| std::cmp::Reverse(self.all.get(*at).map(|one| order.key(one.last)));
        rest.sort_by_cached_key(key);
        let mut found = Vec::with_capacity(self.all.len());
        while let Some(at) = rest.pop() {
            found.push(at);
            let mut siblings = inside.get_mut(at).map(std::mem::take).unwrap_or_default();
            siblings.sort_by_cached_key(key);
            rest.extend(siblings);
        }
        found
    }
}

/// The order of functions and processes by their names.
pub(crate) struct Order {
    /// By their places in the trace.
    functions: HashMap<u32, usize>,
    processes: Vec<usize>,
}

impl Order {
    pub(crate) fn of(names: &Names<'_, '_>) -> Self {
        let mut functions: Vec<u32> = names.trace.functions.iter().map(|one| one.number).collect();
        functions.sort_by_key(|number| {
            let name = names.function(*number);
            (&name.text, &name.module, *number)
        });
        let mut by_name: Vec<usize> = (0..names.trace.processes.len()).collect();
        by_name.sort_by_cached_key(|at| (program_name(names.trace, Some(*at)), *at));
        let mut processes = vec![0; by_name.len()];
        for (rank, at) in by_name.into_iter().enumerate() {
            if let Some(of) = processes.get_mut(at) {
                *of = rank;
            }
        }
        Self { functions: functions.into_iter().zip(0..).collect(), processes }
    }

    /// What a sort goes by.
    pub(crate) fn key(&self, last: Last) -> (bool, usize, u32) {
        match last {
            Last::Process(at, thread) => {
                let rank = at.and_then(|at| self.processes.get(at)).copied();
                (false, rank.unwrap_or(usize::MAX), thread.map_or(0, NonZeroU32::get))
            }
            Last::Function(number) => {
                (true, self.functions.get(&number).copied().unwrap_or(usize::MAX), number)
            }
        }
    }
}

/// Which calls are added up.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'c> {
    pub(crate) trace: &'c Trace<'c>,
    pub(crate) filter: &'c Filter<'c>,
    /// Calls have durations.
    pub(crate) has_times: bool,
    /// How many chains there can be; calls that would need more count with their callers.
    pub(crate) most: usize,
    /// Calls that are too deep for chains of their own count with their functions, behind the first callers, instead of with the last of
    /// these.
    pub(crate) keeps_deep: bool,
    /// What tells waiting from running, if that's added up.
    pub(crate) waits: Option<&'c Waits>,
    /// Of each thread, by its place in the trace, the one that its calls count with; none if threads aren't told apart.
    pub(crate) threads: Option<&'c [u32]>,
}

impl<'c> Scope<'c> {
    /// All chains of the calls of `filter`.
    pub(crate) fn of(trace: &'c Trace<'c>, filter: &'c Filter<'c>, has_times: bool) -> Self {
        let (most, keeps_deep) = (usize::MAX, false);
        Self { trace, filter, has_times, most, keeps_deep, waits: None, threads: None }
    }

    /// The same for a profile: calls that are too deep count with their functions, and waiting is told apart if the trace knows it.
    pub(crate) fn of_profile(
        trace: &'c Trace<'c>,
        filter: &'c Filter<'c>,
        waits: &'c Waits,
        threads: &'c [u32],
    ) -> Self {
        let has_times = trace.has_times() && !trace.header.has_only_entries;
        let waits = Some(waits).filter(|waits| has_times && waits.is_known());
        let threads = Some(threads);
        Self { keeps_deep: true, waits, threads, ..Self::of(trace, filter, has_times) }
    }
}

/// The chains of all calls.
pub(crate) fn collect(scope: &Scope<'_>, progress: &Progress<'_>) -> Chains {
    let latest = scope.trace.nanoseconds(scope.trace.latest());
    let new = || Collector { chains: Chains::new(scope), scope, latest, is_told: false };
    visit_all(scope.trace, scope.filter, progress, new, |one, other| Collector {
        chains: one.chains.merge(other.chains),
        ..one
    })
    .chains
}

/// The data of an open call.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The chain of the call, or of the nearest around it that's wanted.
    chain: Option<usize>,
    /// All of its own time is waiting.
    waits: bool,
}

/// Adds up the calls of stretches.
struct Collector<'c> {
    chains: Chains,
    scope: &'c Scope<'c>,
    /// When calls that had not ended count as ended.
    latest: u64,
    /// `spend` says how long threads were in each call itself.
    is_told: bool,
}

impl Collector<'_> {
    /// The mark of a call, and the chain that it's called by; of one that isn't wanted, the mark of what it's called by, and no chain.
    fn chain(&mut self, call: &Call, caller: Option<Mark>) -> (Mark, Option<usize>) {
        let (start, end) = self.scope.filter.times(call);
        let caller = caller.unwrap_or_default();
        if self.scope.filter.is_too_late(start) || !self.scope.filter.is_wanted(call, start, end) {
            return (caller, None);
        }
        let chain = caller.chain.unwrap_or_else(|| {
            let process = self.scope.trace.process_at(call.thread, call.start);
            let thread = self.scope.threads.and_then(|of| of.get(call.thread)).copied();
            let thread = thread.and_then(|thread| NonZeroU32::new(thread.saturating_add(1)));
            self.chains.get(None, Last::Process(process, thread))
        });
        let waits = self.scope.waits.is_some_and(|waits| self.waits(waits, call));
        (Mark { chain: Some(self.chains.call(chain, call.function)), waits }, Some(chain))
    }

    /// Whether a call waits, as long as it calls nothing. Of one that hadn't ended, nothing says until when the thread was off the
    /// processor.
    fn waits(&self, waits: &Waits, call: &Call) -> bool {
        let trace = self.scope.trace;
        waits.is_known()
            && (waits.kind(trace, call.function) == Kind::Waits
                || call.end.is_none() && waits.role(trace, call.function).is_wait())
    }

    /// Says of a call's time where it's waiting, as `stats` does.
    fn split(&mut self, call: &Call, (own, caller): (Mark, Option<Mark>), nanoseconds: i64) {
        let (Some(chain), Some(waits)) = (own.chain, self.scope.waits) else { return };
        let caller = caller.unwrap_or_default();
        let kind = waits.kind(self.scope.trace, call.function);
        match (kind, caller.chain) {
            (Kind::OffCpu | Kind::Preempted, Some(caller)) => {
                self.chains.interrupt(chain, caller, nanoseconds);
            }
            _ if own.waits || kind != Kind::Runs => self.chains.wait(chain, nanoseconds),
            _ => {}
        }
        if let Some(caller) = caller.chain.filter(|_| caller.waits) {
            // A function that is called by one that waits does something.
            self.chains.wait(caller, nanoseconds.saturating_neg());
        }
    }
}

impl Visitor for Collector<'_> {
    type Mark = Mark;

    fn enter(&mut self, call: &Call, caller: Option<Mark>) -> Mark {
        let (own, parent) = self.chain(call, caller);
        if let (Some(place), Some(parent)) = (own.chain, parent) {
            self.chains.count(place, place == parent);
            if self.scope.has_times && place != parent {
                let (start, end) = self.scope.filter.times(call);
                let nanoseconds = end.unwrap_or(self.latest).saturating_sub(start);
                let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
                if !self.is_told {
                    self.chains.spend(place, parent, nanoseconds);
                }
                self.split(call, (own, caller), nanoseconds);
            }
        }
        own
    }

    fn enclose(&mut self, call: &Call, caller: Option<Mark>) -> Mark {
        self.chain(call, caller).0
    }

    fn leave(&mut self, _: Mark, _: u64) {}

    fn begin(&mut self, told: Option<Range<u64>>) {
        self.is_told = told.is_some();
    }

    fn spend(&mut self, mark: Mark, from: u64, to: u64) {
        let nanoseconds = between(self.scope.trace, from, to);
        let chain = mark.chain.filter(|_| self.scope.has_times);
        if let Some(chain) = chain.and_then(|chain| self.chains.all.get_mut(chain)) {
            let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
            chain.own = chain.own.saturating_add(nanoseconds);
        }
    }
}
