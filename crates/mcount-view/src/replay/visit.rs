//! Adding calls up on all processors.

use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Stretch, Trace, Visitor};
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls that a processor takes at a time: few enough that all have work, too many for it to matter where they begin.
const STRETCH: u64 = 500_000;

/// Shows all calls of the threads that `filter` wants to visitors, each of which sees some stretches of threads, and merges these.
///
/// If stacks take turns somewhere, all begins anew, with visitors that are told how long threads were in each call itself.
pub(crate) fn visit_all<V: Visitor + Send>(
    trace: &Trace<'_>,
    filter: &Filter<'_>,
    progress: &Progress<'_>,
    new: impl Fn() -> V + Sync + Send,
    merge: impl Fn(V, V) -> V + Sync + Send,
) -> V {
    let mut stretches = trace.stretches(STRETCH, |thread| filter.has_thread(thread));
    let takes_turns = AtomicBool::new(false);
    let has_times = trace.has_times();
    let pass = |stretches: &[Stretch], is_first: bool| {
        let visitors = stretches.par_iter().fold(&new, |mut visitor, stretch| {
            let is_vain = is_first && takes_turns.load(Ordering::Relaxed);
            if progress.is_stopped() || is_vain {
                return visitor;
            }
            if trace.visit(stretch, &mut visitor) && has_times {
                takes_turns.store(true, Ordering::Relaxed);
            }
            progress.add(stretch.calls);
            visitor
        });
        visitors.reduce(&new, &merge)
    };
    let found = pass(&stretches, true);
    if !takes_turns.load(Ordering::Relaxed) {
        return found;
    }
    drop(found);
    for stretch in &mut stretches {
        stretch.tells_times = true;
    }
    pass(&stretches, false)
}

/// The nanoseconds from one tick to a later one.
pub(crate) fn between(trace: &Trace<'_>, from: u64, to: u64) -> u64 {
    trace.nanoseconds(to).saturating_sub(trace.nanoseconds(from))
}
