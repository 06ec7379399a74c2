//! A line for each chain of callers, with the nanoseconds that were spent in its last function and in
//! nothing that it called, or the number of its calls: what flame graph programs read.

use super::Names;
use super::chains::{Chain, Chains, Last, Scope, collect};
use super::progress::Progress;
use super::select::Filter;
use std::io::{self, Write};

/// The meaning of the number after a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Nanoseconds that were spent there
    Time,
    /// How many calls there were
    Calls,
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
    let scope = Scope { trace, filter, has_times: !counts, most: usize::MAX };
    let weight = |chain: &Chain| {
        // Deeper calls have no line: they're counted with the deepest that has one.
        let calls = chain.calls.saturating_add(chain.deeper);
        if counts { i64::try_from(calls).unwrap_or(i64::MAX) } else { chain.own }
    };
    write(out, names, &collect(&scope, progress), weight)
}

/// Writes the chains in the order of their names: which processor saw what first is chance.
fn write(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    chains: &Chains,
    weight: impl Fn(&Chain) -> i64,
) -> io::Result<()> {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); chains.all.len()];
    let mut rest = Vec::new();
    for (at, chain) in chains.all.iter().enumerate() {
        match chain.parent.and_then(|parent| inside.get_mut(parent)) {
            Some(siblings) => siblings.push(at),
            None => rest.push((at, 0)),
        }
    }
    let name_at = |at: usize| chains.all.get(at).map(|chain| name(names, chain.last));
    rest.sort_by_cached_key(|(at, _)| std::cmp::Reverse(name_at(*at)));
    let mut path = String::new();
    while let Some((at, length)) = rest.pop() {
        path.truncate(length);
        if length > 0 {
            path.push(';');
        }
        path.push_str(&name_at(at).unwrap_or_default().replace(';', ":"));
        let weight = chains.all.get(at).map_or(0, &weight);
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
