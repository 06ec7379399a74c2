//! A part of many alike tests: CI runs another part each time, so that each has its turn, and a run stays short.
//!
//! `cargo xtask test` sets `MCOUNT_SAMPLE` to a number, the seed, and prints it. With seeds that follow each other, each test has its
//! turn. Without the variable all tests run: `cargo test`, and `cargo xtask test --all`.

/// What says that only a part is to run, and which.
pub const VARIABLE: &str = "MCOUNT_SAMPLE";

/// One of `share` of `tests`, if this run samples; else all.
///
/// # Panics
///
/// If the variable isn't a number.
#[must_use]
pub fn one_in<T>(share: usize, tests: Vec<T>) -> Vec<T> {
    match std::env::var(VARIABLE) {
        Ok(seed) => {
            let number = seed.parse();
            assert!(number.is_ok(), "{VARIABLE}={seed} isn't a number");
            part(number.unwrap_or_default(), share, tests)
        }
        Err(_) => tests,
    }
}

/// How often a test tries what random moments or values decide: a quarter of `count` if this run samples, and once at least.
#[must_use]
pub fn trials(count: usize) -> usize {
    if std::env::var_os(VARIABLE).is_some() { (count / 4).max(1) } else { count }
}

/// The part that `seed` chooses. Parts of seeds that follow each other have nothing in common, and `share` of them have all.
fn part<T>(seed: usize, share: usize, tests: Vec<T>) -> Vec<T> {
    let chosen = seed % share.max(1);
    let ranks = ranks(tests.len());
    let of = tests.into_iter().zip(ranks);
    of.filter(|(_, rank)| rank % share.max(1) == chosen).map(|(test, _)| test).collect()
}

/// The numbers below `count` in an order without a pattern, always the same: a table's rows change in every second or third
/// place, and each part should have some of all.
fn ranks(count: usize) -> Vec<usize> {
    // Weyl's sequence, by the golden ratio in 64 bits.
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|number| (*number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_take_turns() {
        for (count, share) in [(0, 3), (1, 3), (47, 3), (126, 4), (5, 1)] {
            for first in [0, 7, 1_764_000_000] {
                let all = (0..count).collect::<Vec<usize>>();
                let parts = (first..first + share).map(|seed| part(seed, share, all.clone()));
                let parts: Vec<Vec<usize>> = parts.collect();
                // Each has its share, and together they have each test once.
                let least = parts.iter().map(Vec::len).min().unwrap();
                assert!(parts.iter().all(|part| part.len() <= least + 1), "{count} {share}");
                let mut found = parts.concat();
                found.sort_unstable();
                assert_eq!(found, all);
            }
        }
    }

    #[test]
    fn a_part_has_some_of_each_column() {
        for period in 2..6 {
            let tests = (0..60).map(|number| number % period).collect();
            let mut found = part(1, 3, tests);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), period);
        }
    }
}
