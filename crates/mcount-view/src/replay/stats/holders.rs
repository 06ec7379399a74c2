//! Which function has the lock that others wait for, as far as that can be seen: another thread is in it while they wait, and isn't any
//! more when their waiting ends.

use super::collect::{Collector, Subject};
use crate::replay::waits::Role;
use mcount_trace::holders::{Holder, Holders};
use mcount_trace::{Call, Trace};

/// How many threads are looked at in each.
const THREADS: usize = 64;

/// The one while the others wait in `lock`.
pub(super) fn holder(of: Subject<'_>, found: &Collector<'_>, lock: u32) -> Option<Holder> {
    let trace = of.trace;
    let mut holders = Holders::default();
    let waits = || found.locks.of(lock);
    let longest = waits().map(|wait| wait.duration).max()?;
    // Short ones are no waits: the lock was free.
    for wait in waits().filter(|wait| wait.duration.saturating_mul(10) >= longest) {
        let start = trace.nanoseconds(wait.start);
        let at = |quarters: u64| start.saturating_add(wait.duration / 4 * quarters);
        for quarters in [2, 3] {
            holders.during(stacks(of, at(quarters), wait.thread));
            holders.after(stacks(of, start.saturating_add(wait.duration), wait.thread));
        }
    }
    holders.best()
}

/// The functions that other threads are in at a moment, those of a thread from the outermost on; without threads that wait for a lock
/// themselves.
fn stacks(of: Subject<'_>, moment: u64, thread: usize) -> Vec<Vec<u32>> {
    let others =
        (0..of.trace.threads.len()).filter(|at| *at != thread && of.filter.has_thread(*at));
    let stacks = others.take(THREADS).filter_map(|at| functions(of, of.trace, at, moment));
    stacks.collect()
}

fn functions(of: Subject<'_>, trace: &Trace<'_>, thread: usize, moment: u64) -> Option<Vec<u32>> {
    let stack = trace.stack_at(thread, moment);
    let role = |call: &Call| of.waits.role(trace, call.function);
    if stack.iter().any(|call| matches!(role(call), Role::Lock | Role::Join)) {
        return None;
    }
    let plain = stack.iter().filter(|call| matches!(role(call), Role::Plain));
    Some(plain.map(|call| call.function).collect())
}
