//! Adding calls up on all processors.

use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Trace, Visitor};
use rayon::prelude::*;

/// Calls that a processor takes at a time: few enough that all have work, too many for it to matter where they begin.
const STRETCH: u64 = 500_000;

/// Shows all calls of the threads that `filter` wants to visitors, each of which sees some stretches of threads, and merges these.
pub(crate) fn visit_all<V: Visitor + Send>(
    trace: &Trace<'_>,
    filter: &Filter<'_>,
    progress: &Progress<'_>,
    new: impl Fn() -> V + Sync + Send,
    merge: impl Fn(V, V) -> V + Sync + Send,
) -> V {
    let stretches = trace.stretches(STRETCH, |thread| filter.has_thread(thread));
    let visitors = stretches.par_iter().fold(&new, |mut visitor, stretch| {
        if !progress.is_stopped() {
            trace.visit(stretch, &mut visitor);
            progress.add(stretch.calls);
        }
        visitor
    });
    visitors.reduce(&new, merge)
}
