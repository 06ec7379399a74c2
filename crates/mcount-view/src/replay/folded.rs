//! A line for each chain of callers, with the nanoseconds that were spent in its last function and in
//! nothing that it called, or the number of its calls: what flame graph programs read.

use super::Names;
use super::chains::{Chain, Chains, Last, Order, Scope, collect};
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
    let scope = Scope::of(trace, filter, !counts);
    let weight = |chain: &Chain| {
        // Deeper calls have no line: they're counted with the deepest that has one.
        if counts { i64::try_from(chain.all_calls()).unwrap_or(i64::MAX) } else { chain.own }
    };
    write(out, names, &collect(&scope, progress), weight)
}

fn write(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    chains: &Chains,
    weight: impl Fn(&Chain) -> i64,
) -> io::Result<()> {
    // Where each name of the path ends.
    let (mut path, mut ends) = (String::new(), Vec::new());
    for chain in chains.in_order(&Order::of(names)).iter().filter_map(|at| chains.all.get(*at)) {
        ends.truncate(chain.length);
        path.truncate(ends.last().copied().unwrap_or(0));
        if !path.is_empty() {
            path.push(';');
        }
        path.push_str(&name(names, chain.last).replace(';', ":"));
        ends.push(path.len());
        let weight = weight(chain);
        if weight > 0 {
            writeln!(out, "{path} {weight}")?;
        }
    }
    Ok(())
}

fn name(names: &Names<'_, '_>, last: Last) -> String {
    match last {
        Last::Function(number) => names.function(number).text.clone(),
        Last::Process(at, _) => super::program_name(names.trace, at),
    }
}
