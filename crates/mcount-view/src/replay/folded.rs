//! A line for each chain of callers, with the nanoseconds that were spent in its last function and in
//! nothing that it called, or the number of its calls: what flame graph programs read.

use super::Names;
use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Call, Trace, Visitor};
use rayon::prelude::*;
use std::collections::HashMap;
use std::io::{self, Write};

/// The meaning of the number after a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Nanoseconds that were spent there
    Time,
    /// How many calls there were
    Calls,
}

/// Deeper chains are cut off here: every chain is a line, and one of a million names is useless.
const DEEPEST: usize = 512;

/// Calls that a processor takes at a time.
const STRETCH: u64 = 500_000;

/// A chain: the one without its last function, and that.
struct Chain {
    parent: Option<usize>,
    last: Last,
    length: usize,
    weight: i64,
    /// Functions that it called lately, and the chains with them, by the functions' numbers: most calls are like one before.
    recent: [(u32, usize); RECENT],
}

/// How many functions a chain has in mind.
const RECENT: usize = 4;

/// No function has this number: those have 24 bits.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Last {
    Process(Option<usize>),
    Function(u32),
}

/// The chains of some calls. A parent comes before what it is in.
#[derive(Default)]
struct Chains {
    chains: Vec<Chain>,
    numbers: HashMap<(Option<usize>, Last), usize, foldhash::fast::RandomState>,
}

impl Chains {
    /// The chain `parent` with a function after it.
    #[inline]
    fn call(&mut self, parent: usize, function: u32) -> usize {
        let place = function as usize % RECENT;
        let found = self.chains.get(parent).and_then(|chain| chain.recent.get(place)).copied();
        if let Some((_, chain)) = found.filter(|(of, _)| *of == function) {
            return chain;
        }
        let chain = self.get(Some(parent), Last::Function(function));
        let room = self.chains.get_mut(parent).and_then(|chain| chain.recent.get_mut(place));
        if let Some(room) = room {
            *room = (function, chain);
        }
        chain
    }

    fn get(&mut self, parent: Option<usize>, last: Last) -> usize {
        let length = parent.and_then(|parent| self.chains.get(parent)).map_or(0, |p| p.length + 1);
        if let Some(parent) = parent
            && length > DEEPEST
        {
            return parent;
        }
        *self.numbers.entry((parent, last)).or_insert_with(|| {
            self.chains.push(Chain {
                parent,
                last,
                length,
                weight: 0,
                recent: [(NOBODY, 0); RECENT],
            });
            self.chains.len() - 1
        })
    }

    fn add(&mut self, chain: usize, weight: i64) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.weight = chain.weight.saturating_add(weight);
        }
    }

    /// `chain` took this time, which wasn't its caller's.
    fn spend(&mut self, chain: usize, nanoseconds: u64) {
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        self.add(chain, nanoseconds);
        let parent = self.chains.get(chain).and_then(|chain| chain.parent);
        if let Some(parent) = parent.and_then(|parent| self.chains.get_mut(parent))
            && matches!(parent.last, Last::Function(_))
        {
            parent.weight = parent.weight.saturating_sub(nanoseconds);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        let mut places = Vec::with_capacity(other.chains.len());
        for chain in other.chains {
            let parent = chain.parent.and_then(|parent| places.get(parent)).copied();
            let place = self.get(parent, chain.last);
            self.add(place, chain.weight);
            places.push(place);
        }
        self
    }
}

/// Where a chain is, if there is one.
#[derive(Clone, Copy, Default)]
struct ChainIndex(Option<usize>);

/// Adds up the calls of stretches.
struct Collector<'c> {
    chains: Chains,
    trace: &'c Trace<'c>,
    filter: &'c Filter<'c>,
    counts: bool,
    /// When calls that had not ended count as ended.
    latest: u64,
}

impl Collector<'_> {
    /// The chain of a call; of one that isn't wanted, that of what it's called by. Also whether it is wanted.
    fn chain(&mut self, call: &Call, caller: Option<ChainIndex>) -> (ChainIndex, bool) {
        let (start, end) = self.filter.times(call);
        let caller = caller.unwrap_or_default();
        if self.filter.is_too_late(start) || !self.filter.is_wanted(call, start, end) {
            return (caller, false);
        }
        let parent = caller.0.unwrap_or_else(|| {
            let process = self.trace.process_at(call.thread, call.start);
            self.chains.get(None, Last::Process(process))
        });
        let chain = self.chains.call(parent, call.function);
        // Deeper ones are counted with the deepest that has a line.
        (ChainIndex(Some(chain)), self.counts || chain != parent)
    }
}

impl Visitor for Collector<'_> {
    /// The chain of the call, or of the nearest around it that's wanted.
    type Mark = ChainIndex;

    fn enter(&mut self, call: &Call, caller: Option<ChainIndex>) -> ChainIndex {
        let (chain, is_counted) = self.chain(call, caller);
        if let Some(place) = chain.0.filter(|_| is_counted) {
            if self.counts {
                self.chains.add(place, 1);
            } else {
                let (start, end) = self.filter.times(call);
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

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    filter: &Filter<'_>,
    weight: Weight,
    progress: &Progress<'_>,
) -> io::Result<()> {
    let trace = names.trace;
    // Without durations, calls are counted.
    let has_durations = trace.has_times() && !trace.header.has_only_entries;
    let counts = weight == Weight::Calls || !has_durations;
    let latest = trace.nanoseconds(trace.latest());
    let new = || Collector { chains: Chains::default(), trace, filter, counts, latest };
    let stretches = trace.stretches(STRETCH, |thread| filter.has_thread(thread));
    let collectors = stretches.par_iter().fold(new, |mut collector, stretch| {
        trace.visit(stretch, &mut collector);
        progress.add(stretch.calls);
        collector
    });
    let chains = collectors.map(|collector| collector.chains);
    write(out, names, &chains.reduce(Chains::default, Chains::merge))
}

/// Writes the chains in the order of their names: which processor saw what first is chance.
fn write(out: &mut impl Write, names: &Names<'_, '_>, chains: &Chains) -> io::Result<()> {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); chains.chains.len()];
    let mut rest = Vec::new();
    for (at, chain) in chains.chains.iter().enumerate() {
        match chain.parent.and_then(|parent| inside.get_mut(parent)) {
            Some(siblings) => siblings.push(at),
            None => rest.push((at, 0)),
        }
    }
    let name_at = |at: usize| chains.chains.get(at).map(|chain| name(names, chain.last));
    rest.sort_by_cached_key(|(at, _)| std::cmp::Reverse(name_at(*at)));
    let mut path = String::new();
    while let Some((at, length)) = rest.pop() {
        path.truncate(length);
        if length > 0 {
            path.push(';');
        }
        path.push_str(&name_at(at).unwrap_or_default().replace(';', ":"));
        let weight = chains.chains.get(at).map_or(0, |chain| chain.weight);
        if weight > 0 {
            writeln!(out, "{path} {weight}")?;
        }
        let mut siblings = inside.get_mut(at).map(std::mem::take).unwrap_or_default();
        siblings.sort_by_cached_key(|at| std::cmp::Reverse(name_at(*at)));
        rest.extend(siblings.into_iter().map(|at| (at, path.len())));
    }
    Ok(())
}

fn name(names: &Names<'_, '_>, last: Last) -> String {
    match last {
        Last::Function(number) => names.function(number).text.clone(),
        Last::Process(at) => super::program_name(names.trace, at),
    }
}
