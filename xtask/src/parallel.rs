//! Work that's done side by side, as much at a time as there are processors.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Calls `run` with each of `items`, beginning with the first; what came of each, and its seconds, in the order in which they ended.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: Vec<T>,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<(R, f64)> {
    let queue = Mutex::new(items.into_iter());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(item) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    let begin = Instant::now();
                    let result = run(&item);
                    if let Ok(mut done) = done.lock() {
                        done.push((result, begin.elapsed().as_secs_f64()));
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once() {
        let done = side_by_side((0..9).collect(), |number: &u32| *number);
        let mut found: Vec<u32> = done.into_iter().map(|(number, _)| number).collect();
        found.sort_unstable();
        assert_eq!(found, (0..9).collect::<Vec<_>>());
    }
}
