//! Work that several threads share.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// More threads than this don't make it faster.
const MOST: usize = 8;

/// How many threads there are for it at most.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST)
}

/// How many functions one thread gets at once: some parts for each thread, and none that's too small to be worth it.
pub(crate) fn part_size(functions: usize) -> usize {
    const LEAST: usize = 256;
    functions.div_ceil(threads() * 4).max(LEAST)
}

/// Calls `run` with each of the parts; what it returns, in their order. If threads can't be made, there are fewer.
pub(crate) fn side_by_side<T: Send, R: Send>(parts: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let more = threads().min(parts.len()).saturating_sub(1);
    let queue = Mutex::new(parts.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((place, part)) = next() {
            let result = run(part);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..more {
            // Whoever isn't there doesn't help.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_parts() {
        for count in [0, 1, 2, 1000_usize] {
            let found = side_by_side((0..count).collect(), |number| number * 2);
            assert_eq!(found, (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
    }
}
