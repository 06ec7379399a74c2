//! A line for each chain of callers, with the nanoseconds that were spent in its last function and in
//! nothing that it called, or the number of its calls: what flame graph programs read.

use super::Names;
use mcount_trace::Call;
use std::collections::HashMap;
use std::io::{self, Write};

/// What the number behind a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Nanoseconds that were spent there
    Time,
    /// How many calls there were
    Calls,
}

/// Deeper chains are cut off here: every chain is a line, and one of a million names serves nobody.
const DEEPEST: usize = 512;

/// A chain: the one without its last function, and that.
struct Chain {
    parent: Option<usize>,
    last: Last,
    length: usize,
    nanoseconds: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Last {
    Process(Option<usize>),
    Function(u32),
}

#[derive(Default)]
struct Chains {
    chains: Vec<Chain>,
    numbers: HashMap<(Option<usize>, Last), usize>,
}

impl Chains {
    fn get(&mut self, parent: Option<usize>, last: Last) -> usize {
        let length = parent.and_then(|parent| self.chains.get(parent)).map_or(0, |p| p.length + 1);
        if let Some(parent) = parent
            && length > DEEPEST
        {
            return parent;
        }
        *self.numbers.entry((parent, last)).or_insert_with(|| {
            self.chains.push(Chain { parent, last, length, nanoseconds: 0 });
            self.chains.len() - 1
        })
    }

    fn count(&mut self, chain: usize) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.nanoseconds = chain.nanoseconds.saturating_add(1);
        }
    }

    /// `chain` took this time, which wasn't its caller's.
    fn spend(&mut self, chain: usize, nanoseconds: u64) {
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        let parent = self.chains.get_mut(chain).and_then(|chain| {
            chain.nanoseconds = chain.nanoseconds.saturating_add(nanoseconds);
            chain.parent
        });
        if let Some(parent) = parent.and_then(|parent| self.chains.get_mut(parent))
            && matches!(parent.last, Last::Function(_))
        {
            parent.nanoseconds = parent.nanoseconds.saturating_sub(nanoseconds);
        }
    }
}

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
    weight: Weight,
) -> io::Result<()> {
    let mut chains = Chains::default();
    // The calls that enclose the next, of each thread: depth and chain.
    let mut stacks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); names.trace.threads.len()];
    // Without durations, calls are counted.
    let has_durations = names.trace.has_times() && !names.trace.header.has_only_entries;
    let counts = weight == Weight::Calls || !has_durations;
    let mut open = Vec::new();
    let mut latest = names.trace.header.end.map_or(0, |end| names.trace.nanoseconds(end));
    for call in calls {
        let Some(stack) = stacks.get_mut(call.thread) else { continue };
        while stack.last().is_some_and(|(depth, _)| *depth >= call.depth) {
            stack.pop();
        }
        let parent = match stack.last() {
            Some((_, parent)) => *parent,
            None => chains.get(None, Last::Process(call.process)),
        };
        let chain = chains.get(Some(parent), Last::Function(call.function));
        stack.push((call.depth, chain));
        if counts {
            chains.count(chain);
            continue;
        }
        let (start, end) = names.times(&call);
        latest = latest.max(end.unwrap_or(start));
        match end {
            Some(end) if chain != parent => chains.spend(chain, end.saturating_sub(start)),
            Some(_) => {}
            None => open.push((chain, start)),
        }
    }
    for (chain, start) in open {
        chains.spend(chain, latest.saturating_sub(start));
    }
    write(out, names, &chains)
}

fn write(out: &mut impl Write, names: &Names<'_, '_>, chains: &Chains) -> io::Result<()> {
    let mut path = Vec::new();
    for (at, chain) in chains.chains.iter().enumerate().filter(|(_, chain)| chain.nanoseconds > 0) {
        path.clear();
        let mut next = Some(at);
        while let Some(chain) = next.and_then(|at| chains.chains.get(at)) {
            path.push(chain.last);
            next = chain.parent;
        }
        for (place, last) in path.iter().rev().enumerate() {
            let separator = if place == 0 { "" } else { ";" };
            write!(out, "{separator}{}", name(names, *last).replace(';', ":"))?;
        }
        writeln!(out, " {}", chain.nanoseconds)?;
    }
    Ok(())
}

fn name(names: &Names<'_, '_>, last: Last) -> String {
    match last {
        Last::Function(number) => names.function(number).text.clone(),
        Last::Process(at) => super::program_name(names.trace, at),
    }
}
